"""The formula of a network, written once, for values that are not plain arrays.

`network_values` computes the same as `CoordinateNetwork.__call__`, but with the operators of the
values that it is given: jets (values with derivatives), PyTorch tensors, or nodes of an ONNX graph.
"""

import math
from collections.abc import Sequence
from typing import Any, Protocol

from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.cafe import FourierChebyshev, Product
from neuralfield.fields.coordinate_network import CornerBias, FourierFeatures, Identity
from neuralfield.fields.finer import VariableSine
from neuralfield.fields.gauss import Bell
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.fields.wire import ComplexLinear, Gabor
from neuralfield.nn.layers import Activation

Value = Any
"""A matrix with the operators +, -, * and @; for whole numbers also & and ^."""


class Arithmetic(Protocol):
    """Functions that `network_values` applies to the values of a network."""

    def parameter(self, name: str) -> Value:
        """Return an array of the network, by its name in the file."""
        ...

    def sin(self, x: Value, /) -> Value: ...
    def cos(self, x: Value, /) -> Value: ...
    def exp(self, x: Value, /) -> Value: ...
    def tanh(self, x: Value, /) -> Value: ...
    def relu(self, x: Value, /) -> Value: ...
    def absolute(self, x: Value, /) -> Value: ...

    def cell(self, x: Value, first: list[int], last: list[int]) -> Value:
        """Return the floor of x, clipped to bounds for each column; its derivative is 0."""
        ...

    def whole(self, x: Value) -> Value:
        """Return a whole-numbered value as a 64-bit integer."""
        ...

    def rows(self, table: Value, index: Value) -> Value:
        """Return the rows of a table at integer indices of shape (n, 1)."""
        ...

    def columns(self, x: Value, start: int, stop: int) -> Value: ...
    def concatenate(self, parts: Sequence[Value], axis: int = 1) -> Value: ...


def network_values(network: CoordinateNetwork, xy: Value, f: Arithmetic) -> Value:
    """Compute the values at positions of shape (n, 2)."""
    x = _encoded(network.encoding, xy, f)
    for index, activation in enumerate(network.activations):
        x = _activated(activation, network.layers[index], index, x, f)
    z = _layer(network.layers[-1], len(network.layers) - 1, x, f)
    if network.output.name == "sigmoid":
        return f.tanh(z * (0.5 * network.output.steepness)) * 0.5 + 0.5
    return z * 0.5 + 0.5


def _layer(layer: Any, index: int, x: Value, f: Arithmetic, scale: float = 1.0) -> Value:
    """Compute scale * (x @ weight + bias); weights and bias are scaled, as on the autograd tape."""
    arrays = {name: f.parameter(f"layers.{index}.{name}") for name in layer.parameters}
    weight: Value = arrays.get("weight")
    bias: Value = arrays.get("bias")
    if isinstance(layer, ComplexLinear):
        real, imaginary = arrays["real"], arrays["imaginary"]
        blocks = [f.concatenate([real, imaginary * -1.0], axis=0)]
        if not layer.real_part_only:
            blocks.append(f.concatenate([imaginary, real], axis=0))
        weight = f.concatenate(blocks)
    if scale != 1:
        weight, bias = weight * scale, None if bias is None else bias * scale
    z = x @ weight
    return z if bias is None else z + bias


def _activated(activation: Any, layer: Any, index: int, x: Value, f: Arithmetic) -> Value:
    match activation:
        case Activation():
            functions = {"sine": f.sin, "tanh": f.tanh, "relu": f.relu, "sigmoid": _sigmoid(f)}
            return functions[activation.name](_layer(layer, index, x, f, activation.frequency))
        case VariableSine():
            z = _layer(layer, index, x, f)
            return f.sin((f.absolute(z) + 1.0) * activation.frequency * z)
        case Bell():
            z = _layer(layer, index, x, f, activation.frequency)
            return f.exp(z * z * -1.0)
        case Gabor():
            return _gabor(activation, layer, _layer(layer, index, x, f), f)
        case Product():
            z = _layer(layer, index, x, f)
            width = layer.fan_out // activation.factors
            parts = [f.columns(z, i * width, (i + 1) * width) for i in range(activation.factors)]
            return math.prod(parts[1:], start=parts[0])
    raise NotImplementedError(f"the activation {activation.name} is not supported")


def _sigmoid(f: Arithmetic) -> Any:
    return lambda z: f.tanh(z * 0.5) * 0.5 + 0.5


def _gabor(activation: Gabor, layer: Any, z: Value, f: Arithmetic) -> Value:
    width = layer.fan_out // 2 if activation.is_complex else layer.fan_out
    real = f.columns(z, 0, width)
    exponent = real * real * -(activation.scale**2)
    if activation.is_complex:
        imaginary = f.columns(z, width, 2 * width)
        exponent = exponent + imaginary * imaginary * -(activation.scale**2)
        exponent = exponent - imaginary * activation.frequency
    size, phase = f.exp(exponent), real * activation.frequency
    return f.concatenate([size * f.cos(phase), size * f.sin(phase)])


def _encoded(encoding: Any, xy: Value, f: Arithmetic) -> Value:
    match encoding:
        case Identity():
            return xy
        case CornerBias():
            longer = max(encoding.width, encoding.height)
            inputs = [f.columns(xy, 0, 1) * 0.0 + 1.0]
            for axis, side in enumerate((encoding.width, encoding.height)):
                position = f.columns(xy, axis, axis + 1)
                shifted = position * float(longer) + float(side - 1)
                inputs.append(shifted * (0.5 / max(side - 1, 1)))
            return f.concatenate(inputs)
        case FourierFeatures():
            return _fourier_features(xy, f)
        case FourierChebyshev():
            parts, before, polynomial = [_fourier_features(xy, f)], xy, xy * 0.0 + 1.0
            for _ in range(encoding.degree + 1):
                parts.append(polynomial)
                before, polynomial = polynomial, xy * 2.0 * polynomial - before
            return f.concatenate(parts)
        case HashEncoding():
            return _hash_features(encoding, xy, f)
    raise NotImplementedError(f"the encoding {type(encoding).__name__} is not supported")


def _fourier_features(xy: Value, f: Arithmetic) -> Value:
    phase = (xy @ f.parameter("encoding.frequencies")) * (2 * math.pi)
    return f.concatenate([f.sin(phase), f.cos(phase)])


def _hash_features(encoding: HashEncoding, xy: Value, f: Arithmetic) -> Value:
    table, unit, features = f.parameter("encoding.table"), (xy + 1.0) * 0.5, []
    for level in encoding.levels:
        position = unit * float(level.resolution)
        cell = f.cell(position, *level.outermost_cells)
        near, part = f.whole(cell), position - cell
        x, y = f.columns(near, 0, 1), f.columns(near, 1, 2)
        u, v = f.columns(part, 0, 1), f.columns(part, 1, 2)
        total: Value = 0.0
        for j, along_y in enumerate((1.0 - v, v)):
            for i, along_x in enumerate((1.0 - u, u)):
                corner = f.rows(table, level.row_of(x + i, y + j))
                total = along_x * along_y * corner + total
        features.append(total)
    return f.concatenate(features)
