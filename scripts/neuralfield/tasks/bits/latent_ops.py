"""Operations of the tape for latents: soft rounding with noise, and bits of a distribution."""

import math

import numpy as np

from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array
from neuralfield.system.random_streams import philox
from neuralfield.tasks.bits.latent_network import (
    LARGEST_LOG_SCALE,
    LATENT_SCALE,
    LEAST_LOG_SCALE,
    PROBABILITY_FLOOR,
)

STREAM_LATENTS = 6
_LEAST, _LARGEST = -64, 63
_BYTES_MEAN, _BYTES_DEVIATION = 510, 147.80166


def noise_keys(steps: Array | int, seed: int) -> Array:
    """Return the 32-bit key of the noise of each step, uint32."""
    return philox(np, (0, 0, steps, STREAM_LATENTS), seed)[0]


def noise(first: int, count: int, key: int) -> Array:
    """Return the noise of parameters: the sum of a hash's four bytes, of variance 1; float64."""
    word = np.arange(first, first + count, dtype=np.uint32) * np.uint32(0x9E3779B1)
    word += np.uint32(key)
    word = (word ^ (word >> 16)) * np.uint32(0x7FEB352D)
    word = (word ^ (word >> 15)) * np.uint32(0x846CA68B)
    word ^= word >> 16
    total = word.view(np.uint8).reshape(-1, 4).sum(axis=1, dtype=np.int64)
    return (total - _BYTES_MEAN) / _BYTES_DEVIATION


def round_softly(
    parameters: Tensor, first: int, temperature: float, sigma: float, key: int
) -> Tensor:
    """Compute latents: rounded softly, with noise, and rounded softly again.

    `first` is the index of the first parameter in the noise. With temperature 0, the latents are
    rounded, and have no gradient.
    """
    x = LATENT_SCALE * parameters.data
    if temperature == 0:
        return Tensor(np.clip(np.rint(x), _LEAST, _LARGEST))
    once, derivative = _soft(x, temperature)
    added = noise(first, x.size, key).reshape(x.shape).astype(x.dtype)
    twice, second_derivative = _soft(once + x.dtype.type(sigma) * added, temperature)
    factor = x.dtype.type(LATENT_SCALE) * derivative * second_derivative
    return record(twice, (parameters,), lambda g: (g * factor,))


def _soft(x: Array, temperature: float) -> tuple[Array, Array]:
    """Round softly (Agustsson & Theis 2020, equation 7), and return the derivative too."""
    middle = np.floor(x) + x.dtype.type(0.5)
    height = x.dtype.type(0.5 / math.tanh(0.5 / temperature))
    t = np.tanh((x - middle) / x.dtype.type(temperature))
    return middle + height * t, height / x.dtype.type(temperature) * (1 - t * t)


def laplace_bits(latents: Tensor, distributions: Tensor) -> Tensor:
    """Compute the bits of all latents (n, 1), of a mean and a binary log-scale s each (n, 2).

    The density is proportional to 2^(-|v - mean| / 2^s); a latent's probability is its integral
    from v - 1/2 to v + 1/2, increased by `PROBABILITY_FLOOR`.
    """
    mean, unbounded = distributions.data[:, :1], distributions.data[:, 1:]
    log_scale = np.clip(unbounded, LEAST_LOG_SCALE, LARGEST_LOG_SCALE)
    decay = math.log(2) * np.exp2(-log_scale)
    distance = latents.data - mean
    size = abs(distance)
    over = size - 0.5
    near, far = np.exp(-abs(over) * decay), np.exp(-(size + 0.5) * decay)
    share = np.where(over >= 0, (near - far) / 2, 1 - (near + far) / 2) + PROBABILITY_FLOOR

    def backward(g: Array) -> tuple[Array, Array]:
        by_share = -g / (math.log(2) * share)
        to_latent = by_share * -decay / 2 * (near - far) * np.where(distance >= 0, 1, -1)
        by_decay = by_share * ((size + 0.5) * far - over * near) / 2
        is_inside = (unbounded > LEAST_LOG_SCALE) & (unbounded < LARGEST_LOG_SCALE)
        to_log_scale = -math.log(2) * decay * by_decay * is_inside
        return to_latent, np.concatenate([-to_latent, to_log_scale], axis=1)

    return record(-np.log2(share).sum(), (latents, distributions), backward)
