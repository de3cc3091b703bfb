"""Layers: linear maps and convolutions with their initialisation, and activations by name."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.convolution import conv2d
from neuralfield.nn.tensor import Tensor
from neuralfield.nn.windows import Pair


class Layer(Protocol):
    """A trainable map from `fan_in` to `fan_out` values a point."""

    @property
    def fan_in(self) -> int:
        """Values in."""
        ...

    @property
    def fan_out(self) -> int:
        """Values out."""
        ...

    @property
    def weight(self) -> Tensor:
        """The matrix that points' values are multiplied with, shape (fan_in, fan_out)."""
        ...

    @property
    def bias(self) -> Tensor | None:
        """What is added to every point's values, if anything."""
        ...

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name."""
        ...

    def __call__(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """The values out, times a factor."""
        ...


@dataclass(frozen=True)
class Linear:
    """x @ weight + bias.

    Attributes
    ----------
    weight : Tensor, shape (fan_in, fan_out)
    bias : Tensor, shape (fan_out,), or None
    """

    weight: Tensor
    bias: Tensor | None = None

    def __call__(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """Scale * (x @ weight + bias); the scale is applied to the few weights, not to all rows."""
        if scale == 1:
            return ops.affine(x, self.weight, self.bias)
        bias = None if self.bias is None else ops.multiply(self.bias, scale)
        return ops.affine(x, ops.multiply(self.weight, scale), bias)

    @property
    def fan_in(self) -> int:
        """Values in."""
        return self.weight.shape[0]

    @property
    def fan_out(self) -> int:
        """Values out."""
        return self.weight.shape[1]

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name."""
        weight = {"weight": self.weight}
        return weight if self.bias is None else weight | {"bias": self.bias}


@dataclass(frozen=True)
class Conv2d:
    """A kernel that slides over pictures; see `neuralfield.nn.convolution.conv2d`.

    Attributes
    ----------
    weight : Tensor, shape (kernel height, kernel width, channels in / groups, channels out)
    bias : Tensor, shape (channels out,), or None
    stride, padding, dilation : int or (along the height, along the width)
    groups : int
    """

    weight: Tensor
    bias: Tensor | None = None
    stride: Pair = 1
    padding: Pair = 0
    dilation: Pair = 1
    groups: int = 1

    def __call__(self, x: Tensor) -> Tensor:
        """(batch, height, width, channels in) -> (batch, places, places, channels out)."""
        return conv2d(
            x,
            self.weight,
            self.bias,
            stride=self.stride,
            padding=self.padding,
            dilation=self.dilation,
            groups=self.groups,
        )

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name."""
        weight = {"weight": self.weight}
        return weight if self.bias is None else weight | {"bias": self.bias}


class Nonlinearity(Protocol):
    """What follows a layer. Engines know it by its name, and do without those that are new."""

    @property
    def name(self) -> str:
        """Of the function."""
        ...

    @property
    def frequency(self) -> float:
        """Factor on what comes from the layer before."""
        ...

    def after(self, layer: Layer, x: Tensor) -> Tensor:
        """The activation of the layer's output for `x`."""
        ...


@dataclass(frozen=True)
class Activation:
    """A function applied to every element.

    Attributes
    ----------
    name : {"tanh", "relu", "sigmoid", "sine"}
    frequency : float
        Factor on what comes from the layer before, omega_0 of a sine; 1 for other activations.
    """

    name: str
    frequency: float = 1.0

    def after(self, layer: Layer, x: Tensor) -> Tensor:
        """The activation of the layer's output for `x`."""
        return ACTIVATIONS[self.name](layer(x, self.frequency))


ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "tanh": ops.tanh,
    "relu": ops.relu,
    "sigmoid": ops.sigmoid,
    "sine": ops.sine,
}

Initializer = Callable[[int, int, np.random.Generator], np.ndarray]
"""(fan_in, fan_out, generator) -> float64 weights of shape (fan_in, fan_out)."""


def uniform_weights(
    fan_in: int, fan_out: int, generator: np.random.Generator, *, bound: float
) -> np.ndarray:
    """Uniform in [-bound, bound]."""
    return generator.uniform(-bound, bound, size=(fan_in, fan_out))


def glorot_weights(fan_in: int, fan_out: int, generator: np.random.Generator) -> np.ndarray:
    """Uniform, variance 2 / (fan_in + fan_out); for tanh and sigmoid (Glorot & Bengio 2010)."""
    bound = math.sqrt(6 / (fan_in + fan_out))
    return uniform_weights(fan_in, fan_out, generator, bound=bound)


def he_weights(fan_in: int, fan_out: int, generator: np.random.Generator) -> np.ndarray:
    """Uniform, variance 2 / fan_in; for relu (He et al. 2015)."""
    return uniform_weights(fan_in, fan_out, generator, bound=math.sqrt(6 / fan_in))


def plain_weights(fan_in: int, fan_out: int, generator: np.random.Generator) -> np.ndarray:
    """Uniform in [-1, 1] / sqrt(fan_in), as biases are."""
    return uniform_weights(fan_in, fan_out, generator, bound=1 / math.sqrt(fan_in))


def siren_weights(
    fan_in: int, fan_out: int, generator: np.random.Generator, *, omega_0: float, is_first: bool
) -> np.ndarray:
    """Uniform, so that every layer's sines see a spread that does not depend on depth.

    First layer: U(+-1 / fan_in), no square root; the others: U(+-sqrt(6 / fan_in) / omega_0).
    Source: Sitzmann et al. 2020, section 3.2 and theorem 1.8 of the supplement.
    """
    bound = 1 / fan_in if is_first else math.sqrt(6 / fan_in) / omega_0
    return uniform_weights(fan_in, fan_out, generator, bound=bound)


INITIALIZERS: dict[str, Initializer] = {
    "tanh": glorot_weights,
    "sigmoid": glorot_weights,
    "relu": he_weights,
    "sine": partial(siren_weights, omega_0=1.0, is_first=False),
}
"""The initialisation that suits each activation."""


def make_linear(
    fan_in: int,
    fan_out: int,
    initializer: Initializer,
    generator: np.random.Generator,
    *,
    bias: bool = True,
) -> Linear:
    """A trainable layer with fresh weights; biases U(+-1 / sqrt(fan_in)).

    Weights are drawn in float64 and rounded by the caller's `astype`, so that a run in float32
    and one in float64 start from the same place.
    """
    weight = Tensor(initializer(fan_in, fan_out, generator), differentiable=True)
    if not bias:
        return Linear(weight)
    bound = 1 / math.sqrt(fan_in)
    return Linear(weight, Tensor(generator.uniform(-bound, bound, size=fan_out), True))


def make_conv2d(
    kernel: tuple[int, int],
    channels_in: int,
    channels_out: int,
    initializer: Initializer,
    generator: np.random.Generator,
    *,
    bias: bool = True,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Conv2d:
    """A trainable convolution with fresh weights, in float64 as `make_linear` draws them.

    The values in a window of one group are the `fan_in` that the initialisation is told.

    Parameters
    ----------
    kernel : (height, width)
    channels_in, channels_out : int
        Of all groups together.
    """
    fan_in = kernel[0] * kernel[1] * (channels_in // groups)
    rows = make_linear(fan_in, channels_out, initializer, generator, bias=bias)
    shape = (*kernel, channels_in // groups, channels_out)
    weight = Tensor(rows.weight.data.reshape(shape), differentiable=True)
    return Conv2d(weight, rows.bias, stride, padding, dilation, groups)
