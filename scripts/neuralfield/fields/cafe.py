"""CAFE+: products of linear maps of Fourier and Chebyshev features (Ke et al., "Content-aware
frequency encoding for implicit neural representations with Fourier-Chebyshev features", CVPR 2026).
"""

import math
from dataclasses import dataclass

import numpy as np

from neuralfield.fields.coordinate_network import (
    CoordinateNetwork,
    Encoding,
    FourierFeatures,
    fourier_formula,
)
from neuralfield.fields.settings import (
    FieldSettings,
    frequency_count,
    frequency_scale,
    layer_count,
    layer_width,
)
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.layers import Activation, Nonlinearity, make_layers, plain_weights
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.settings import setting


@dataclass
class FourierChebyshev(Encoding):
    """Fourier features, and the Chebyshev polynomials T_0 to T_degree of x and of y.

    T_0 is the constant 1. Because there is one for x and one for y, the constant term of each
    linear map has three parameters, including the bias, and is trained correspondingly faster.
    """

    frequencies: Array
    """Shape (2, count); see `neuralfield.fields.coordinate_network.FourierFeatures`."""
    degree: int
    name = "chebyshev"

    @property
    def size(self) -> int:
        return 2 * (self.frequencies.shape[1] + self.degree + 1)

    @property
    def buffers(self) -> dict[str, Array]:
        """The frequencies, which are saved because the network cannot be evaluated without them."""
        return {"frequencies": self.frequencies}

    def __call__(self, coordinates: Array) -> Array:
        xp = namespace_of(coordinates)
        parts = [FourierFeatures(self.frequencies)(coordinates)]
        before, polynomial = coordinates, xp.ones_like(coordinates)  # T_-1 is T_1
        for _ in range(self.degree + 1):
            parts.append(polynomial)
            before, polynomial = polynomial, 2 * coordinates * polynomial - before
        return xp.concatenate(parts, axis=1)

    def formula(self, xy: Value, f: Arithmetic) -> Value:
        parts, before, polynomial = [fourier_formula(xy, f)], xy, xy * 0.0 + 1.0
        for _ in range(self.degree + 1):
            parts.append(polynomial)
            before, polynomial = polynomial, xy * 2.0 * polynomial - before
        return f.concatenate(parts)


@dataclass(frozen=True)
class Product(Nonlinearity):
    """Elementwise product of the `factors` equal parts of a layer's output."""

    factors: int
    name = "product"

    def apply(self, z: Tensor) -> Tensor:
        return ops.product_of_parts(z, self.factors)

    def formula(self, z: Value, fan_out: int, f: Arithmetic) -> Value:
        width = fan_out // self.factors
        parts = [f.columns(z, i * width, (i + 1) * width) for i in range(self.factors)]
        return math.prod(parts[1:], start=parts[0])


@dataclass(frozen=True)
class Cafe(FieldSettings):
    """(W_1 f + b_1) * ... * (W_N f + b_N) of features f, then a small relu network.

    f consists of sin and cos of 2 pi B p, and of the polynomials T_0 ... T_K of x and of y. A
    product of sines is a sum of sines with the sums and differences of their frequencies, so that a
    few features give many frequencies, of which the weights select some. Initial weights and biases
    are uniform in [-1, 1] / sqrt(fan_in).

    B is sampled as in `neuralfield.fields.fourier.Fourier`; the frequencies of products are up to
    `factors` times as high.
    """

    title = "Products of Fourier features before a small network (CAFE+, Ke et al. 2026)"
    usual_learning_rate = 3e-3

    frequencies: int = frequency_count(48)
    scale: float = frequency_scale(10.0)
    chebyshev_degree: int = setting(
        15,
        "K, the highest degree of the Chebyshev polynomials: K + 1 of x and K + 1 of y; 0 uses"
        " Fourier features alone (CAFE)",
        minimum=0,
        maximum=1000,
    )
    factors: int = setting(
        3, "N, the number of linear maps that are multiplied", minimum=1, maximum=8
    )
    hidden_layers: int = layer_count(1, "relu layers after the product")
    width: int = layer_width(96)

    @property
    def sizes(self) -> list[int]:
        polynomials = self.chebyshev_degree + 1 if self.chebyshev_degree else 0
        return [2 * (self.frequencies + polynomials), *[self.width] * (1 + self.hidden_layers)]

    @property
    def working_values(self) -> int:
        return super().working_values + self.factors * self.width

    def layer_shapes(self, channels: int) -> list[tuple[int, int]]:
        """Return the shape of each layer's matrix; the first holds all N maps side by side."""
        (features, width), *others = super().layer_shapes(channels)
        return [(features, self.factors * width), *others]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        frequencies = generator.normal(0, self.scale, size=(2, self.frequencies))
        encoding: Encoding = FourierFeatures(frequencies)
        if self.chebyshev_degree:
            encoding = FourierChebyshev(frequencies, self.chebyshev_degree)
        layers = make_layers(self.weight_shapes(shape), plain_weights, generator)
        activations: list[Nonlinearity] = [Product(self.factors)]
        activations += [Activation("relu")] * self.hidden_layers
        return self.network(encoding, layers, activations)
