"""The parts of coordinate networks: coordinates -> encoding -> layers -> a value in [0, 1]."""

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.layers import Layer, Nonlinearity
from neuralfield.nn.network import Network
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device, namespace_of
from neuralfield.system.errors import ConfigError

_SIGMOID_MARGIN = 1e-6


class Encoding(ABC):
    """Maps positions to the inputs of the first layer."""

    name: str
    """The name by which engines know it."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of output values for each position."""

    @property
    def working_values(self) -> int:
        """The approximate number of values in memory for each position during the computation."""
        return 0

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """The trainable tensors by name."""
        return {}

    @property
    def buffers(self) -> dict[str, Array]:
        """Arrays that are sampled once and not trained, by attribute name."""
        return {}

    @abstractmethod
    def __call__(self, coordinates: Array) -> Array | Tensor:
        """Return the encoded positions: a tensor if the encoding is trainable, else an array."""

    @abstractmethod
    def formula(self, xy: Value, f: Arithmetic) -> Value:
        """Compute the same as a call, by the operators of `xy`."""


@dataclass
class Identity(Encoding):
    """The coordinates themselves."""

    name = "identity"

    @property
    def size(self) -> int:
        return 2

    def __call__(self, coordinates: Array) -> Array:
        return coordinates

    def formula(self, xy: Value, f: Arithmetic) -> Value:
        return xy


@dataclass
class CornerBias(Encoding):
    """[1, u, v] with u = column / (width - 1), v = row / (height - 1) of the training image.

    These are the inputs of the original lion-cub network: u and v are 0 and 1 at the centres of the
    outermost pixels, and a column of ones replaces a bias. They depend on the size of the training
    image and not on that of a render, so that the network is a single function of position.
    """

    width: int
    height: int
    name = "corners"

    @property
    def size(self) -> int:
        return 3

    def __call__(self, coordinates: Array) -> Array:
        xp = namespace_of(coordinates)
        inputs = xp.ones((coordinates.shape[0], self.size), dtype=coordinates.dtype)
        for axis in range(2):
            inputs[:, axis + 1] = self.along(axis, coordinates[:, axis])
        return inputs

    def formula(self, xy: Value, f: Arithmetic) -> Value:
        inputs = [f.columns(xy, 0, 1) * 0.0 + 1.0]
        for axis, side in enumerate((self.width, self.height)):
            position = f.columns(xy, axis, axis + 1) * float(max(self.width, self.height))
            inputs.append((position + float(side - 1)) * (0.5 / max(side - 1, 1)))
        return f.concatenate(inputs)

    def along(self, axis: int, positions: Array) -> Array:
        """Compute u from positions x if `axis` is 0, or v from positions y if it is 1."""
        side, longer = (self.width, self.height)[axis], max(self.width, self.height)
        return (positions * longer + (side - 1)) / 2 / max(side - 1, 1)


@dataclass
class FourierFeatures(Encoding):
    """[sin(2 pi B p), cos(2 pi B p)] (Tancik et al. 2020, equation 5)."""

    frequencies: Array
    """The matrix B, shape (2, count), in cycles per unit of the coordinates; it is not trained."""
    name = "fourier"

    @property
    def size(self) -> int:
        return 2 * self.frequencies.shape[1]

    @property
    def buffers(self) -> dict[str, Array]:
        """The matrix B, which is saved because the network cannot be evaluated without it."""
        return {"frequencies": self.frequencies}

    def __call__(self, coordinates: Array) -> Array:
        xp = namespace_of(coordinates)
        # rounding matters only in the phase, because it is a sum of large products
        phase = coordinates.dtype.type(2 * math.pi) * (coordinates @ self.frequencies)
        return xp.concatenate([xp.sin(phase), xp.cos(phase)], axis=1)

    def formula(self, xy: Value, f: Arithmetic) -> Value:
        return fourier_formula(xy, f)


def fourier_formula(xy: Value, f: Arithmetic) -> Value:
    """Compute `FourierFeatures`."""
    phase = (xy @ f.parameter("encoding.frequencies")) * (2 * math.pi)
    return f.concatenate([f.sin(phase), f.cos(phase)])


OUTPUTS = ("linear", "sigmoid")


@dataclass(frozen=True)
class Output:
    """The function that maps the last layer's output z to a value."""

    name: str
    """``linear`` is (1 + z) / 2, so that z = 1 is white and z = -1 is black;
    ``sigmoid`` is 1 / (1 + exp(-steepness * z)), which keeps line art black and white."""
    steepness: float = 1.0

    def __post_init__(self) -> None:
        if self.name not in OUTPUTS:
            raise ConfigError("fields: output", repr(self.name), " or ".join(OUTPUTS))

    def inverse(self, values: np.ndarray) -> np.ndarray:
        """Compute z from values; for a sigmoid, values are first clipped to [1e-6, 1 - 1e-6]."""
        values = np.asarray(values, np.float64)
        if self.name == "sigmoid":
            inside = np.clip(values, _SIGMOID_MARGIN, 1 - _SIGMOID_MARGIN)
            return np.log(inside / (1 - inside)) / self.steepness
        return 2 * values - 1

    def __call__(self, z: Tensor) -> Tensor:
        if self.name == "sigmoid":
            return ops.sigmoid(z, self.steepness)
        return ops.add(ops.multiply(z, 0.5), 0.5)

    def formula(self, z: Value, f: Arithmetic) -> Value:
        """Compute the value from z."""
        if self.name == "sigmoid":
            return f.tanh(z * (0.5 * self.steepness)) * 0.5 + 0.5
        return z * 0.5 + 0.5


class CoordinateNetwork(Network[Layer]):
    """A network that maps positions to the values of an image.

    An activation follows each layer except the last.
    """

    def __init__(
        self,
        encoding: Encoding,
        layers: Sequence[Layer],
        activations: Sequence[Nonlinearity],
        output: Output,
    ) -> None:
        super().__init__(layers)
        self.encoding = encoding
        self.activations = list(activations)
        self.output = output

    def __call__(self, coordinates: Array) -> Tensor:
        """Compute the values at positions, shape (n, channels).

        Coordinates have shape (n, 2), see `neuralfield.images.coordinates`, and must have the dtype
        and device of the network. Values are not clipped: a linear output may leave [0, 1].
        """
        encoded = self.encoding(coordinates)
        x = encoded if isinstance(encoded, Tensor) else Tensor(encoded)
        for layer, activation in zip(self.layers[:-1], self.activations, strict=True):
            x = activation.after(layer, x)
        return self.output(self.layers[-1](x))

    def formula(self, xy: Value, f: Arithmetic) -> Value:
        """Compute the same by the operators of `xy`, the positions, and the functions of `f`."""
        x = self.encoding.formula(xy, f)
        for index, activation in enumerate(self.activations):
            z = self._layer_formula(index, x, f, activation.layer_factor)
            x = activation.formula(z, self.layers[index].fan_out, f)
        return self.output.formula(self._layer_formula(len(self.layers) - 1, x, f, 1.0), f)

    def _layer_formula(self, index: int, x: Value, f: Arithmetic, scale: float) -> Value:
        layer = self.layers[index]
        arrays = {name: f.parameter(f"layers.{index}.{name}") for name in layer.parameters}
        weight, bias = layer.matrix(arrays, f), arrays.get("bias")
        if scale != 1:
            weight, bias = weight * scale, None if bias is None else bias * scale
        z = x @ weight
        return z if bias is None else z + bias

    @property
    def parameters(self) -> dict[str, Tensor]:
        named = {f"encoding.{name}": value for name, value in self.encoding.parameters.items()}
        return named | super().parameters

    @property
    def buffers(self) -> dict[str, Array]:
        return {f"encoding.{name}": array for name, array in self.encoding.buffers.items()}

    def make_constant(self, values: np.ndarray) -> bool:
        """Set the weights so that the network has the same values, in [0, 1], at every position.

        The last layer gets the bias for these values and zero weights. A network without biases
        keeps only the column of ones of `CornerBias` as input, and its last layer is computed from
        the hidden values. A sigmoid differs from 0 and 1 by 1e-6.

        Returns False, and changes nothing, if there are no such weights: the network has no biases,
        and no column of ones or only hidden values of zero.
        """
        z, last = self.output.inverse(values), self.layers[-1]
        if "bias" in last.parameters:
            for name, tensor in last.parameters.items():
                tensor.data[...] = z if name == "bias" else 0
            return True
        before = self.layers[0].weight.data[1:].copy()
        self.layers[0].weight.data[1:] = 0
        x = Tensor(np.eye(1, self.encoding.size))  # any position: only the first column has weights
        for layer, activation in zip(self.layers[:-1], self.activations, strict=True):
            x = activation.after(layer, x)
        hidden = x.data[0]
        if not isinstance(self.encoding, CornerBias) or not hidden.any():
            self.layers[0].weight.data[1:] = before
            return False
        last.weight.data[...] = hidden[:, None] * z / (hidden @ hidden)
        return True

    def to(self, device: Device, dtype: str) -> Self:
        super().to(device, dtype)
        for name, array in self.encoding.buffers.items():
            setattr(self.encoding, name, device.asarray(array, dtype=dtype))
        return self
