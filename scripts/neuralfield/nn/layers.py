"""Layers: linear maps and convolutions with their initialisation, and activations by name."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.convolution import conv2d
from neuralfield.nn.tensor import Tensor


class Layer(Protocol):
    """A trainable map of each point's values: x @ weight + bias, weight of (fan_in, fan_out)."""

    @property
    def fan_in(self) -> int: ...

    @property
    def fan_out(self) -> int: ...

    @property
    def weight(self) -> Tensor: ...

    @property
    def bias(self) -> Tensor | None: ...

    @property
    def parameters(self) -> Mapping[str, Tensor]: ...

    def __call__(self, x: Tensor, scale: float = 1.0) -> Tensor: ...

    def matrix(self, arrays: Mapping[str, Value], f: Arithmetic) -> Value:
        """Compute the weight from the layer's parameters, for formulas."""
        ...


def _named(weight: Tensor, bias: Tensor | None) -> Mapping[str, Tensor]:
    """Return the trainable tensors of a layer by name."""
    return {"weight": weight} if bias is None else {"weight": weight, "bias": bias}


@dataclass(frozen=True)
class Linear:
    """A linear layer: x @ weight + bias."""

    weight: Tensor  # shape (fan_in, fan_out)
    bias: Tensor | None = None  # shape (fan_out,)

    def __call__(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """Return scale * (x @ weight + bias); the weights are scaled instead of all rows."""
        if scale == 1:
            return ops.affine(x, self.weight, self.bias)
        bias = None if self.bias is None else ops.multiply(self.bias, scale)
        return ops.affine(x, ops.multiply(self.weight, scale), bias)

    @property
    def fan_in(self) -> int:
        return self.weight.shape[0]

    @property
    def fan_out(self) -> int:
        return self.weight.shape[1]

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        return _named(self.weight, self.bias)

    def matrix(self, arrays: Mapping[str, Value], f: Arithmetic) -> Value:
        return arrays["weight"]


@dataclass(frozen=True)
class Conv2d:
    """A convolution; see `neuralfield.nn.convolution.conv2d`."""

    weight: Tensor  # shape (kernel height, kernel width, channels in, channels out)
    bias: Tensor | None = None  # shape (channels out,)
    padding: int = 0

    def __call__(self, x: Tensor) -> Tensor:
        """Apply the convolution to images, shape (batch, height, width, channels in)."""
        return conv2d(x, self.weight, self.bias, padding=self.padding)

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        return _named(self.weight, self.bias)


class Nonlinearity(ABC):
    """A function after a layer. Engines know it by its name."""

    name: str
    frequency: float = 1.0
    """A factor on the layer's output z: omega_0 of a sine."""
    factors: int = 1
    """The number of equal parts of z that are multiplied with each other."""
    wavelet_scale: float = 0.0
    """The larger, the narrower is a wavelet."""

    multiplies_layer: bool = True
    """Whether the frequency is a factor of the layer, and not of something in the function."""

    @abstractmethod
    def apply(self, z: Tensor) -> Tensor:
        """Apply the function to the layer's output."""

    @abstractmethod
    def formula(self, z: Value, fan_out: int, f: Arithmetic) -> Value:
        """Compute the same as `apply` for the `fan_out` outputs of a layer."""

    def after(self, layer: Layer, x: Tensor) -> Tensor:
        """Apply the layer to `x`, and the function to the result."""
        return self.apply(layer(x, self.layer_factor))

    @property
    def layer_factor(self) -> float:
        """The factor by which the layer is multiplied."""
        return self.frequency if self.multiplies_layer else 1.0


@dataclass(frozen=True)
class Activation(Nonlinearity):
    """One of `ACTIVATIONS`, applied to every element."""

    name: str
    frequency: float = 1.0

    def apply(self, z: Tensor) -> Tensor:
        return ACTIVATIONS[self.name].of(z)

    def formula(self, z: Value, fan_out: int, f: Arithmetic) -> Value:
        return ACTIVATIONS[self.name].formula(z, f)


Initializer = Callable[[int, int, np.random.Generator], np.ndarray]
"""(fan_in, fan_out, generator) -> float64 weights of shape (fan_in, fan_out)."""


def uniform_weights(
    fan_in: int, fan_out: int, generator: np.random.Generator, *, bound: float
) -> np.ndarray:
    """Sample weights uniform in [-bound, bound]."""
    return generator.uniform(-bound, bound, size=(fan_in, fan_out))


def glorot_weights(fan_in: int, fan_out: int, generator: np.random.Generator) -> np.ndarray:
    """Sample uniform weights of variance 2 / (fan_in + fan_out) (Glorot & Bengio 2010)."""
    bound = math.sqrt(6 / (fan_in + fan_out))
    return uniform_weights(fan_in, fan_out, generator, bound=bound)


def he_weights(fan_in: int, fan_out: int, generator: np.random.Generator) -> np.ndarray:
    """Sample uniform weights of variance 2 / fan_in (He et al. 2015)."""
    return uniform_weights(fan_in, fan_out, generator, bound=math.sqrt(6 / fan_in))


def plain_weights(fan_in: int, fan_out: int, generator: np.random.Generator) -> np.ndarray:
    """Sample weights uniform in [-1, 1] / sqrt(fan_in), as biases are."""
    return uniform_weights(fan_in, fan_out, generator, bound=1 / math.sqrt(fan_in))


def siren_weights(
    fan_in: int, fan_out: int, generator: np.random.Generator, *, omega_0: float, is_first: bool
) -> np.ndarray:
    """Sample uniform weights for sines, so that their inputs have the same spread in every layer.

    First layer: U(+-1 / fan_in), no square root; the others: U(+-sqrt(6 / fan_in) / omega_0).
    Source: Sitzmann et al. 2020, section 3.2 and theorem 1.8 of the supplement.
    """
    bound = 1 / fan_in if is_first else math.sqrt(6 / fan_in) / omega_0
    return uniform_weights(fan_in, fan_out, generator, bound=bound)


class Function(NamedTuple):
    """A function of every element, its formula, and the initial weights of layers before it."""

    of: Callable[[Tensor], Tensor]
    formula: Callable[[Value, Arithmetic], Value]
    initializer: Initializer


ACTIVATIONS = {
    "sine": Function(
        ops.sine,
        lambda z, f: f.sin(z),
        partial(siren_weights, omega_0=1.0, is_first=False),
    ),
    "tanh": Function(ops.tanh, lambda z, f: f.tanh(z), glorot_weights),
    "relu": Function(ops.relu, lambda z, f: f.relu(z), he_weights),
    "sigmoid": Function(ops.sigmoid, lambda z, f: f.tanh(z * 0.5) * 0.5 + 0.5, glorot_weights),
}
"""The activations that a setting may choose, by name."""

KERNEL_ACTIVATIONS = (
    *("sine", "tanh", "relu", "sigmoid", "variable sine", "gaussian"),
    *("product", "gabor"),
)
"""Names of all activations that kernels have code for; they identify each by its index here."""

ACTIVATIONS_WITH_KEPT_DERIVATIVES = ("sine", "variable sine", "gaussian", "gabor")
"""Activations whose derivatives cannot be computed from their values, so that both are stored."""


def make_linear(
    fan_in: int,
    fan_out: int,
    initializer: Initializer,
    generator: np.random.Generator,
    *,
    bias: bool = True,
) -> Linear:
    """Create a trainable layer with initial weights, and biases from U(+-1 / sqrt(fan_in)).

    Weights are float64, and are rounded by the network's `to`, so that trainings in float32 and
    float64 start from the same weights.
    """
    weight = Tensor(initializer(fan_in, fan_out, generator), differentiable=True)
    if not bias:
        return Linear(weight)
    bound = 1 / math.sqrt(fan_in)
    return Linear(weight, Tensor(generator.uniform(-bound, bound, size=fan_out), True))


def make_layers(
    shapes: Iterable[tuple[int, int]],
    initializer: Initializer,
    generator: np.random.Generator,
    *,
    bias: bool = True,
) -> list[Linear]:
    """Create a layer for each shape (fan_in, fan_out); see `make_linear`."""
    return [make_linear(*shape, initializer, generator, bias=bias) for shape in shapes]


def make_conv2d(
    kernel: tuple[int, int],
    channels_in: int,
    channels_out: int,
    initializer: Initializer,
    generator: np.random.Generator,
    padding: int = 0,
) -> Conv2d:
    """Create a trainable convolution with initial weights in float64.

    See `make_linear` and `neuralfield.nn.convolution.conv2d`. The `fan_in` of the initialisation is
    the number of values in a window.
    """
    fan_in = kernel[0] * kernel[1] * channels_in
    rows = make_linear(fan_in, channels_out, initializer, generator)
    values = rows.weight.data.reshape(*kernel, channels_in, channels_out)
    return Conv2d(Tensor(values, differentiable=True), rows.bias, padding)
