"""WIRE: complex Gabor wavelets (Saragadam et al., "WIRE: wavelet implicit neural representations",
CVPR 2023)."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity
from neuralfield.fields.settings import DirectField, frequency, layer_width
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.arithmetic import Arithmetic, Value
from neuralfield.nn.layers import Initializer, Layer, Nonlinearity, make_linear, siren_weights
from neuralfield.nn.tensor import Tensor


@dataclass(frozen=True)
class ComplexLinear:
    """z = x (A + i B) + c for complex x, in real numbers: [Re x, Im x] -> [Re z, Im z]."""

    # A and B, of shape (complex inputs, complex outputs)
    real: Tensor
    imaginary: Tensor
    bias: Tensor  # shape (fan_out,); [Re c, Im c]
    real_part_only: bool  # whether the output is Re z only, as for the last layer

    @property
    def fan_in(self) -> int:
        """The number of real inputs."""
        return 2 * self.real.shape[0]

    @property
    def fan_out(self) -> int:
        """The number of real outputs."""
        return self.bias.shape[0]

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        return {"real": self.real, "imaginary": self.imaginary, "bias": self.bias}

    @property
    def weight(self) -> Tensor:
        """The real matrix that is equivalent to A + i B."""
        columns = [ops.concatenate([self.real, ops.multiply(self.imaginary, -1)], 0)]
        if not self.real_part_only:
            columns.append(ops.concatenate([self.imaginary, self.real], 0))
        return ops.concatenate(columns, 1)

    def matrix(self, arrays: Mapping[str, Value], f: Arithmetic) -> Value:
        real, imaginary = arrays["real"], arrays["imaginary"]
        columns = [f.concatenate([real, imaginary * -1.0], axis=0)]
        if not self.real_part_only:
            columns.append(f.concatenate([imaginary, real], axis=0))
        return f.concatenate(columns)

    def __call__(self, x: Tensor, scale: float = 1.0) -> Tensor:
        """Compute scale * z as one product of real matrices."""
        weight, bias = self.weight, self.bias
        if scale != 1:
            weight, bias = ops.multiply(weight, scale), ops.multiply(bias, scale)
        return ops.affine(x, weight, bias)


@dataclass(frozen=True, kw_only=True)
class Gabor(Nonlinearity):
    """exp(i frequency z - (scale |z|) ** 2) of a layer's output z, which is real or complex."""

    frequency: float
    wavelet_scale: float
    is_complex: bool
    name = "gabor"
    multiplies_layer = False

    def apply(self, z: Tensor) -> Tensor:
        """Return [real parts, imaginary parts] of the wavelets."""
        return ops.gabor(z, self.frequency, self.wavelet_scale, is_complex=self.is_complex)

    def formula(self, z: Value, fan_out: int, f: Arithmetic) -> Value:
        width = fan_out // 2 if self.is_complex else fan_out
        narrowness = self.wavelet_scale**2
        real = f.columns(z, 0, width)
        exponent = real * real * -narrowness
        if self.is_complex:
            imaginary = f.columns(z, width, 2 * width)
            exponent = exponent + imaginary * imaginary * -narrowness
            exponent = exponent - imaginary * self.frequency
        size, phase = f.exp(exponent), real * self.frequency
        return f.concatenate([size * f.cos(phase), size * f.sin(phase)])


@dataclass(frozen=True)
class Wire(DirectField):
    """exp(i omega_0 z - |scale z| ** 2) with z = W x + b in every layer but the last.

    The weights of the first layer are real, those of the other layers complex; the output is the
    real part of the last layer's output. Complex numbers are stored as pairs of real numbers. Real
    and imaginary parts of weights are initialized as in SIREN: with larger weights, most wavelets
    would be evaluated where they are almost zero, and the network would not train.
    """

    title = "A network of complex Gabor wavelets (WIRE, Saragadam et al. 2023)"
    usual_learning_rate = 1e-3

    width: int = layer_width(90, unit="complex values")
    omega_0: float = frequency(20.0, "frequency of the wavelets, usually 10 to 30")
    scale: float = frequency(
        20.0,
        "how narrow the wavelets are; higher gives finer detail, and specks if it is too high",
    )

    @property
    def sizes(self) -> list[int]:
        return [2, *[2 * self.width] * (1 + self.hidden_layers)]

    def weight_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Return the shape of each layer's weights, with real and imaginary parts side by side."""
        hidden = [(self.width, 2 * self.width)] * self.hidden_layers
        return [(2, self.width), *hidden, (self.width, 2 * shape.channels)]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        first = partial(siren_weights, omega_0=self.omega_0, is_first=True)
        hidden = partial(siren_weights, omega_0=self.omega_0, is_first=False)
        layers: list[Layer] = [make_linear(2, self.width, first, generator)]
        layers += [
            _complex_linear((self.width, self.width), hidden, generator)
            for _ in range(self.hidden_layers)
        ]
        sizes = (self.width, shape.channels)
        layers.append(_complex_linear(sizes, hidden, generator, real_part_only=True))
        wavelets = [
            Gabor(frequency=self.omega_0, wavelet_scale=self.scale, is_complex=index > 0)
            for index in range(1 + self.hidden_layers)
        ]
        return self.network(Identity(), layers, wavelets)


def _complex_linear(
    sizes: tuple[int, int],
    initializer: Initializer,
    generator: np.random.Generator,
    *,
    real_part_only: bool = False,
) -> ComplexLinear:
    fan_in, fan_out = sizes
    real, imaginary = (
        Tensor(initializer(fan_in, fan_out, generator), differentiable=True) for _ in range(2)
    )
    bound, parts = 1 / math.sqrt(fan_in), 1 if real_part_only else 2
    bias = Tensor(generator.uniform(-bound, bound, size=parts * fan_out), differentiable=True)
    return ComplexLinear(real, imaginary, bias, real_part_only)
