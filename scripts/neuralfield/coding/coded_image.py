"""An image as the integers of a file: latents, and the weights of the three small networks.

All values between layers are integers in steps of 2^-8, clamped to 16 bits. A layer with integer
weights w in steps of 2^-p and biases b in steps of 2^-q computes

    clamp((sum(w x) + b 2^(8 + p - q) + 2^(p - 1)) >> p, -32767, 32767)

in 32 bits; `Layer` guarantees that no sum of products of such values overflows.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from neuralfield.coding.context import INPUTS, SURROUNDINGS

VALUE_BITS = 8
LARGEST_VALUE = 2**15 - 1
"""Values between layers are integers of at most this size, in steps of 2 ** -VALUE_BITS."""

WHITE = 64.0
"""Value of the synthesis for white; black is 0. The levels are value * 255 / WHITE, rounded."""

LARGEST_LATENT = 64
LARGEST_WEIGHT = 2047
MOST_STEP_BITS = 15
MOST_HIDDEN = 64

FILTER_TAPS = 4


@dataclass(frozen=True, eq=False)
class Layer:
    """Integer weights of a layer; see this module. Raises ValueError if a sum could overflow."""

    weights: np.ndarray  # int32, shape (outputs, inputs), of at most `LARGEST_WEIGHT` in size
    bias: np.ndarray  # int32, shape (outputs,); shape (0,) for filters, which have no bias
    weight_bits: int  # the step of the weights is 2 ** -weight_bits; from 0 to `MOST_STEP_BITS`
    bias_bits: int  # the step of the biases; at most 8 + weight_bits

    def __post_init__(self) -> None:
        for values, bits in ((self.weights, self.weight_bits), (self.bias, self.bias_bits)):
            if not 0 <= bits <= MOST_STEP_BITS or values.dtype != np.int32:
                raise ValueError(f"{values.dtype} in steps of 2^-{bits} are not those of a layer")
            if values.size and abs(values).max() > LARGEST_WEIGHT:
                raise ValueError(f"a weight of more than {LARGEST_WEIGHT} steps")
        if self.bias_bits > VALUE_BITS + self.weight_bits:
            raise ValueError("the step of biases is smaller than that of sums")
        sums = abs(self.weights).astype(np.int64).sum(axis=1) << 15
        if self.bias.size:
            sums += abs(self.shifted_bias)
        if sums.size and sums.max() >= 2**31:
            raise ValueError("weights whose sums need more than 32 bits")

    @property
    def shifted_bias(self) -> np.ndarray:
        """The bias in the steps of sums, plus half a step of the result: int64, (outputs,)."""
        shift = VALUE_BITS + self.weight_bits - self.bias_bits
        return (self.bias.astype(np.int64) << shift) + ((1 << self.weight_bits) >> 1)


def layer_shapes(grids: int, hidden: int, channels: int) -> list[tuple[int, int, int]]:
    """Return (outputs, inputs, biases) of all layers, in the order of `CodedImage.layers`."""
    inputs = grids + len(SURROUNDINGS)
    return [
        *[(INPUTS, INPUTS, INPUTS)] * 2,
        (2, INPUTS, 2),
        (grids - 1, FILTER_TAPS, 0),
        (hidden, inputs, hidden),
        (channels, hidden + inputs, channels),
    ]


@dataclass(frozen=True, eq=False)
class CodedImage:
    """The content of a file.

    The rate model of a latent, with inputs x (`neuralfield.coding.context`; latents in steps of 1,
    so 256 times as integers), is h1 = relu(W1 x + b1) + x, h2 = relu(W2 h1 + b2) + h1, and
    (mu, s) = W3 h2 + b3. The latent has a Laplace distribution with mean mu and the density
    proportional to 2^(-|v - mu| / 2^s), where s is clamped to [-6, 7): in natural units, a scale
    of 2^s / ln 2. Each + is followed by a clamp to 16 bits.

    Grids are enlarged by 2, from grid k to the size of grid k - 1, by the filter (a, b, c, d) of
    row k - 1 of `filters`, first along columns, then along rows: value 2 i of a line is
    a v[i - 2] + b v[i - 1] + c v[i] + d v[i + 1] and value 2 i + 1 is
    d v[i - 1] + c v[i] + b v[i + 1] + a v[i + 2], where places outside the line are those of its
    ends. Grid k is enlarged k times.

    The inputs x of a pixel are the enlarged latents of each grid, the finest first, and the means
    of latents around it in the finest grid (`SURROUNDINGS`). The pixel is
    Wo [relu(Wh x + bh), x] + bo, from 0 for black to 64 for white (`WHITE`).
    """

    height: int
    width: int
    channels: int  # 1, 3 or 4
    latents: Sequence[np.ndarray]  # int8, -64 to 64; the finest grid first, see `grid_shapes`
    rate: Sequence[Layer]  # three
    filters: Layer  # weights (K - 1, 4), no bias
    hidden: Layer  # (M, K + 5)
    output: Layer  # (channels, M + K + 5): weights of hidden values, then those of inputs

    @property
    def layers(self) -> list[Layer]:
        """All layers, in the order of the file."""
        return [*self.rate, self.filters, self.hidden, self.output]
