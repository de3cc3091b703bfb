"""A network's layers, forward and backward, over blocks of points that stay in a core's cache.

Values lie feature by feature: row i of an array holds the i-th value of all points of the block.
Below the values that go into a layer with biases is a row of ones. The layer's weights with the
biases as a last row are one matrix in memory, so that biases are added, and their gradients summed,
by the products that are made anyway.
"""

import math
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.engines.block_activations import BLOCK_ACTIVATIONS, BlockActivation
from neuralfield.engines.plans import network_plan
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.network import CornerBias, Encoding, FourierFeatures, Identity
from neuralfield.kernels.plan import NetworkPlan

_BLOCK_VALUES = 1 << 19
_MOST_POINTS, _POINTS_STEP = 1024, 64
"""A block has as many points as keep so many numbers: 2 MiB, about a core's cache. Measured; part
of the result, because gradients are summed block by block, so it is the same on all machines."""

_ENCODINGS = (Identity, CornerBias, FourierFeatures)


def reason_against(network: CoordinateNetwork) -> str | None:
    """A part of a network that there is no code for here; None: there is for all."""
    if not isinstance(network.encoding, _ENCODINGS):
        return f"the encoding {type(network.encoding).__name__}"
    names = (activation.name for activation in network.activations)
    unknown = next((name for name in names if name not in BLOCK_ACTIVATIONS), None)
    return None if unknown is None else f"the activation {unknown}"


def block_points(plan: NetworkPlan) -> int:
    """How many points pass through a network together."""
    values = 2 * sum(layer.fan_in for layer in plan.layers)
    points = _BLOCK_VALUES // values // _POINTS_STEP * _POINTS_STEP
    return max(_POINTS_STEP, min(points, _MOST_POINTS))


@dataclass(frozen=True)
class _Layer:
    fan_in: int
    fan_out: int
    rows: int
    """Of the matrix of weights and biases."""
    part: slice
    """Of all parameters."""
    weights: np.ndarray
    """Times the frequency; shape (rows, fan_out)."""
    activation: BlockActivation | None


class Workspace:
    """The memory that one thread works on blocks in.

    Parameters
    ----------
    network : BlockNetwork
    points : int
        Of the largest block.
    is_trained : bool
        Whether everything is kept that the way back needs.
    """

    def __init__(self, network: "BlockNetwork", points: int, *, is_trained: bool) -> None:
        layers = network.layers
        widest = max(layer.rows for layer in layers)
        self.is_trained = is_trained
        self.output = _numbers(layers[-1].fan_out * points)
        if not is_trained:
            pair = [_numbers(widest * points) for _ in range(2)]
            self.inputs = [pair[index % 2] for index in range(len(layers))]
            return
        self.inputs = [_numbers(layer.rows * points) for layer in layers]
        self.slopes, scratch = _numbers(widest * points), _numbers(widest * points)
        self.arguments = [
            _numbers(layer.fan_out * points) if layer.activation.needs_argument else scratch
            for layer in layers
            if layer.activation
        ]
        self.gradient = _numbers(max(layer.rows * layer.fan_out for layer in layers))


class BlockNetwork:
    """The layers of a network.

    Parameters
    ----------
    network : CoordinateNetwork
        One that `reason_against` has nothing against, in float32 on the CPU.
    parameters : ndarray of float32, shape (n,)
        All its parameters one after another. Call `refresh` when they have changed.
    """

    def __init__(self, network: CoordinateNetwork, parameters: np.ndarray) -> None:
        plan = network_plan(network)
        self.parameters, self.encoding = parameters, network.encoding
        self.block_points = block_points(plan)
        self.channels = plan.layers[-1].fan_out
        rows = [layer.fan_in + layer.has_bias for layer in plan.layers]
        sizes = [layer.fan_out * row for layer, row in zip(plan.layers, rows, strict=True)]
        ends = np.cumsum([0, *sizes]).tolist()
        parts = [slice(start, end) for start, end in pairwise(ends)]
        self.factors = np.ones(len(parameters), np.float32)
        """What each parameter is multiplied with, and so each gradient: its layer's frequency."""
        for layer, part in zip(plan.layers, parts, strict=True):
            self.factors[part] = layer.frequency
        self._scaled = parameters if (self.factors == 1).all() else np.empty_like(parameters)
        self.layers = [
            _Layer(
                layer.fan_in,
                layer.fan_out,
                row,
                part,
                self._scaled[part].reshape(row, layer.fan_out),
                BLOCK_ACTIVATIONS[layer.activation] if layer.activation else None,
            )
            for layer, row, part in zip(plan.layers, rows, parts, strict=True)
        ]
        self.refresh()

    def refresh(self) -> None:
        """Take note of the parameters as they are now."""
        if self._scaled is not self.parameters:
            np.multiply(self.parameters, self.factors, out=self._scaled)

    def forward(self, points: np.ndarray, workspace: Workspace) -> np.ndarray:
        """The last layer's numbers, before the output function.

        Parameters
        ----------
        points : ndarray of float32, shape (n, 2)
        workspace : Workspace

        Returns
        -------
        ndarray of float32, shape (channels, n)
            In the workspace.
        """
        count = len(points)
        values = _shaped(workspace.inputs[0], self.layers[0].rows, count)
        _encode(self.encoding, points, values[: self.layers[0].fan_in])
        for index, layer in enumerate(self.layers):
            values[layer.fan_in :] = 1
            if layer.activation is None:
                break
            following = _shaped(workspace.inputs[index + 1], self.layers[index + 1].rows, count)
            result = argument = following[: layer.fan_out]
            if workspace.is_trained:
                argument = _shaped(workspace.arguments[index], layer.fan_out, count)
            np.matmul(layer.weights.T, values, out=argument)
            layer.activation.value(argument, result)
            values = following
        output = _shaped(workspace.output, self.channels, count)
        return np.matmul(self.layers[-1].weights.T, values, out=output)

    def backward(
        self, slopes: np.ndarray, workspace: Workspace, gradient: np.ndarray, *, add: bool
    ) -> None:
        """The gradient of a block, after its `forward` in the same workspace.

        Parameters
        ----------
        slopes : ndarray of float32, shape (channels, n)
            Of the loss, with respect to what `forward` returned.
        workspace : Workspace
        gradient : ndarray of float32, shape (parameters,)
            With respect to the parameters times `factors`.
        add : bool
            Whether it is added to what is there, or put in its place.
        """
        count = slopes.shape[1]
        for index in reversed(range(len(self.layers))):
            layer = self.layers[index]
            values = _shaped(workspace.inputs[index], layer.rows, count)
            found = gradient[layer.part].reshape(layer.weights.shape)
            if add:
                found += np.matmul(
                    values, slopes.T, out=_shaped(workspace.gradient, *layer.weights.shape)
                )
            else:
                np.matmul(values, slopes.T, out=found)
            if index:
                activation = self.layers[index - 1].activation
                assert activation
                by_value = _shaped(workspace.slopes, layer.fan_in, count)
                np.matmul(layer.weights[: layer.fan_in], slopes, out=by_value)
                slopes = _shaped(workspace.arguments[index - 1], layer.fan_in, count)
                activation.slope(slopes, values[: layer.fan_in], slopes)
                slopes *= by_value


def _numbers(count: int) -> np.ndarray:
    return np.empty(count, np.float32)


def _shaped(memory: np.ndarray, rows: int, columns: int) -> np.ndarray:
    return memory[: rows * columns].reshape(rows, columns)


def _encode(encoding: Encoding, points: np.ndarray, out: np.ndarray) -> None:
    if isinstance(encoding, FourierFeatures):
        sines, cosines = np.split(out, 2)
        np.matmul(encoding.frequencies.T, np.ascontiguousarray(points.T), out=sines)
        sines *= np.float32(2 * math.pi)
        np.cos(sines, out=cosines)
        np.sin(sines, out=sines)
        return
    out[...] = encoding(points).T
