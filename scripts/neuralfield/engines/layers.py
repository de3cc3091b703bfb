"""Twin of the kernels that run a network layer by layer: the same numbers by NumPy, in float64."""

import math
from collections.abc import Callable, Mapping

import numpy as np

from neuralfield.engines.cuda.portable import grids
from neuralfield.engines.plan import TILE_ROWS, BatchPlan, LayerPlan, NetworkPlan

_PROBABILITY_MARGIN = 1e-7

_ACTIVATIONS: dict[str, Callable[[np.ndarray, LayerPlan], tuple[np.ndarray, np.ndarray]]] = {
    "sine": lambda z, _: (np.sin(z), np.cos(z)),
    "tanh": lambda z, _: (np.tanh(z), 1 - np.tanh(z) ** 2),
    "relu": lambda z, _: (np.maximum(z, 0), (z > 0).astype(np.float64)),
    "sigmoid": lambda z, _: (_logistic(z), _logistic(z) * (1 - _logistic(z))),
    "variable sine": lambda z, layer: _variable_sine(z, np.abs(z) / layer.frequency + 1),
    "gaussian": lambda z, _: (np.exp(-z * z), -2 * z * np.exp(-z * z)),
    "gabor": lambda z, layer: _wavelets(z, (layer.wavelet_scale / layer.frequency) ** 2),
}
"""z, which has the frequency in it already, and the layer -> the activation and its slope."""


def valid_rows(batch: BatchPlan) -> np.ndarray:
    """Rows of a batch that hold a point, in the order of slots and of their points.

    Returns
    -------
    ndarray of int64, shape (pixels * points,)
    """
    row = np.arange(batch.rows)
    in_tile = row % TILE_ROWS
    slot = row // TILE_ROWS * batch.tile_pixels + in_tile // batch.points
    return row[(in_tile < batch.tile_pixels * batch.points) & (slot < batch.pixels)]


def forward(
    network: NetworkPlan,
    parameters: Mapping[str, np.ndarray],
    inputs: np.ndarray,
    frequencies: np.ndarray | None,
) -> tuple[np.ndarray, list[np.ndarray], list[np.ndarray]]:
    """Values of a network, and what its backward needs.

    Parameters
    ----------
    network : NetworkPlan
    parameters : mapping of name to ndarray
    inputs : ndarray, shape (n, 2)
    frequencies : ndarray, shape (2, F), or None

    Returns
    -------
    values : ndarray, shape (n, channels)
    activations : list of ndarray
        What goes into each layer.
    slopes : list of ndarray
        Of each layer's activation with respect to its argument; the last is that of the values.
        Those of wavelets are (n, 2 width, 2): of both parts of the value that an argument is in.
        A product has a slope with respect to each of its factors, side by side.
    """
    x = inputs.astype(np.float64)
    if network.encoding == "corners":
        x = np.concatenate([np.ones((len(x), 1)), x], axis=1)
    elif network.encoding == "hashgrid":
        x = grids.features(network.levels, parameters["encoding.table"], inputs)
    elif frequencies is not None:
        phase = 2 * math.pi * (x @ frequencies.astype(np.float64))
        polynomials = network.layers[0].fan_in // 2 - frequencies.shape[1]
        x = np.concatenate([np.sin(phase), np.cos(phase), *_chebyshev(x, polynomials)], axis=1)
    activations, slopes = [x], []
    for index, layer in enumerate(network.layers):
        z = activations[-1] @ parameters[f"layers.{index}.weight"].astype(np.float64)
        if layer.has_bias:
            z += parameters[f"layers.{index}.bias"]
        z *= layer.frequency
        if layer.activation is None:
            values, slope = _output(network, z)
            return values, activations, [*slopes, slope]
        if layer.activation == "product":
            value, slope = _product(z, layer.factors)
        else:
            value, slope = _ACTIVATIONS[layer.activation](z, layer)
        activations.append(value)
        slopes.append(slope)
    raise ValueError("the last layer of a plan has no activation")


def forward_and_backward(
    network: NetworkPlan,
    batch: BatchPlan,
    parameters: Mapping[str, np.ndarray],
    inputs: np.ndarray,
    targets: np.ndarray,
    weights: np.ndarray | None = None,
    frequencies: np.ndarray | None = None,
) -> tuple[float, float, list[np.ndarray]]:
    """Loss, squared error and gradients of one batch.

    Parameters
    ----------
    network, batch : NetworkPlan, BatchPlan
    parameters : mapping of name to ndarray
        Weights (fan_in, fan_out) and biases (fan_out,).
    inputs : ndarray, shape (rows, 2)
    targets : ndarray, shape (pixels, channels)
    weights : ndarray, shape (pixels,), or None
        Of the slots' squared errors.
    frequencies : ndarray, shape (2, F), or None

    Returns
    -------
    loss, squared_error : float
        Means over the batch.
    gradients : list of ndarray
        In the order of ``network.parameter_names``.
    """
    points = inputs[valid_rows(batch)]
    values, activations, slopes = forward(network, parameters, points, frequencies)
    shape = (batch.pixels, batch.points, batch.channels)
    loss, squared, by_value = _loss(batch, values.reshape(shape), targets.astype(np.float64))
    if weights is not None:
        squared = squared * weights[:, None]
    count = batch.pixels * batch.channels
    gradients: dict[str, np.ndarray] = {}
    gradient = by_value.reshape(values.shape) / count * slopes[-1]
    for index in reversed(range(len(network.layers))):
        layer = network.layers[index]
        weight = parameters[f"layers.{index}.weight"].astype(np.float64)
        gradients[f"layers.{index}.weight"] = layer.frequency * (activations[index].T @ gradient)
        gradients[f"layers.{index}.bias"] = layer.frequency * gradient.sum(axis=0)
        gradient = layer.frequency * (gradient @ weight.T)
        if index:
            by_factor = np.tile(gradient, network.layers[index - 1].factors)
            gradient = _through(by_factor, slopes[index - 1])
        elif network.encoding == "hashgrid":
            gradients["encoding.table"] = grids.gradient_of_points(
                network.levels, network.table_shape, points, gradient
            )
    in_order = [gradients[name] for name in network.parameter_names]
    return float(loss.sum() / count), float(squared.sum() / count), in_order


def _output(network: NetworkPlan, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    if network.output == "linear":
        return 0.5 + 0.5 * z, np.full_like(z, 0.5)
    value = _logistic(network.steepness * z)
    return value, network.steepness * value * (1 - value)


def _loss(
    batch: BatchPlan, values: np.ndarray, targets: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Loss and squared error (pixels, channels), and slopes (pixels, points, channels)."""
    if not batch.footprint:
        value = values[:, 0]
        loss, slope = _loss_of_values(batch, value, targets)
        return loss, (value - targets) ** 2, slope[:, None]
    first = (batch.points + 1) // 2
    means = [group.mean(axis=1) for group in (values[:, :first], values[:, first:])]
    errors = [mean - targets for mean in means]
    if batch.loss == "mse":
        loss, by_mean = errors[0] * errors[1], errors[::-1]
    else:
        loss, slope = _loss_of_values(batch, (means[0] + means[1]) / 2, targets)
        by_mean = [slope / 2, slope / 2]
    slopes = np.empty_like(values)
    slopes[:, :first] = by_mean[0][:, None] / first
    slopes[:, first:] = by_mean[1][:, None] / (batch.points - first)
    return loss, errors[0] * errors[1], slopes


def _loss_of_values(
    batch: BatchPlan, value: np.ndarray, target: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    difference = value - target
    if batch.loss == "mse":
        return difference**2, 2 * difference
    if batch.loss == "huber":
        size = np.abs(difference)
        near = np.minimum(size, batch.huber_delta)
        return near * (size - near / 2), np.clip(difference, -batch.huber_delta, batch.huber_delta)
    p = np.clip(value, _PROBABILITY_MARGIN, 1 - _PROBABILITY_MARGIN)
    loss = -(target * np.log(p) + (1 - target) * np.log1p(-p))
    return loss, (p - target) / (p * (1 - p))


def _variable_sine(z: np.ndarray, growth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.sin(growth * z), np.cos(growth * z) * (2 * growth - 1)


def _wavelets(z: np.ndarray, decay: float) -> tuple[np.ndarray, np.ndarray]:
    """exp(i z - decay |z|^2) of complex z, whose parts are neighbours."""
    real, imaginary = z[:, 0::2], z[:, 1::2]
    value = np.exp(1j * (real + 1j * imaginary) - decay * (real**2 + imaginary**2))
    by_real = (1j - 2 * decay * real) * value
    by_imaginary = (-1 - 2 * decay * imaginary) * value
    slopes = np.stack([by_real, by_imaginary], axis=-1).reshape(z.shape)
    return _parts(value).reshape(z.shape), _parts(slopes)


def _parts(numbers: np.ndarray) -> np.ndarray:
    """Complex numbers (...) as pairs (..., 2)."""
    return np.stack([np.real(numbers), np.imag(numbers)], axis=-1)


def _through(gradient: np.ndarray, slope: np.ndarray) -> np.ndarray:
    """By an activation's values -> by its arguments."""
    if slope.ndim == 2:
        return gradient * slope
    pairs = gradient.reshape(len(gradient), -1, 1, 2)  # both arguments are given both values'
    return (pairs * slope.reshape(len(gradient), -1, 2, 2)).sum(axis=-1).reshape(gradient.shape)


def _chebyshev(x: np.ndarray, count: int) -> list[np.ndarray]:
    """T_0(x), T_1(x) and so on."""
    polynomials = [np.ones_like(x), x]
    for _ in range(count - 2):
        polynomials.append(2 * x * polynomials[-1] - polynomials[-2])
    return polynomials[:count]


def _product(z: np.ndarray, factors: int) -> tuple[np.ndarray, np.ndarray]:
    parts = z.reshape(len(z), factors, -1)
    others = [np.delete(parts, part, axis=1).prod(axis=1) for part in range(factors)]
    return parts.prod(axis=1), np.concatenate(others, axis=1)


def _logistic(z: np.ndarray) -> np.ndarray:
    return 0.5 + 0.5 * np.tanh(0.5 * z)
