"""The objective of a coded image: mean squared error + weight x bits per pixel."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array
from neuralfield.tasks.bits.latent_network import LatentNetwork
from neuralfield.tasks.bits.latent_ops import laplace_bits, noise_keys, round_softly
from neuralfield.tasks.task import Objective

_TEMPERATURES, _SIGMAS = (0.35, 0.08), (0.22, 0.15)
"""Temperature of soft rounding and deviation of the noise, at the first and the last such step."""

_ROUNDED_SHARE = 0.05
"""Share of the steps at the end in which latents are whole and only the networks are trained."""


_STEERINGS, _FIRST_STEERING = 60, 0.1
"""How often the weight of bits is changed in a training with a target, and the share of the steps
before it is changed first."""

_GAIN, _AHEAD, _LARGEST_CHANGE, _LARGEST_FACTOR = 0.5, 8, 0.3, 4.0
"""A change of the weight aims to remove a share of the difference to the target that is expected
some changes ahead, because bits follow the weight slowly. The largest change of its logarithm, and
the largest factor on the weight at the beginning."""

_AT_THE_END = 0.985
"""Bits at the end, relative to those that are steered to: they still fall when learning rates are
too small for the weight to change them. On three photographs, 0.975 to 0.985."""

BITS_BY_WEIGHT, DB_BY_WEIGHT = -0.5, -2.6
"""About how much the logarithm of the bits, and the PSNR in dB, change by the logarithm of the
weight: on photographs, from 2e-2 to 1e-4."""


@dataclass(frozen=True)
class Rounding:
    """How latents are rounded in a step: softly, or if the temperature is 0, to whole numbers."""

    temperature: float
    sigma: float


@dataclass(frozen=True, kw_only=True)
class BitsObjective(Objective):
    """The objective of fitting latents and networks to an image."""

    network: LatentNetwork
    values: np.ndarray  # float32, shape (height, width, channels)
    random_seed: int
    first_bit_weight: float
    target_bits_per_pixel: float | None = None  # of latents; they steer the weight of bits
    target_psnr_db: float | None = None

    @property
    def bit_weight(self) -> float:
        """Lambda: what one bit per pixel costs in squared error. The network's state has it."""
        return float(self.network.bit_weight[0])

    @property
    def pixels(self) -> int:
        return self.values.shape[0] * self.values.shape[1]

    def steers_at(self, step: int) -> bool:
        """Whether `steer` is to be called before a step."""
        if self.target_bits_per_pixel is None and self.target_psnr_db is None:
            return False
        is_soft = self.rounding(step).temperature > 0
        return is_soft and step >= self._first_steering and step % self._steering_interval == 0

    def steer(self, step: int, error: float, bits_per_pixel: float) -> None:
        """Change the weight of bits, given the values before a step for rounded latents."""
        if self.target_psnr_db is not None:
            excess_db = -10 * math.log10(max(error, 1e-20)) - self.target_psnr_db
            excess = excess_db / DB_BY_WEIGHT
        else:
            target = (self.target_bits_per_pixel or 0.0) / _AT_THE_END
            excess = math.log(max(bits_per_pixel, 1e-9) / target) / BITS_BY_WEIGHT
        weight, before = self.network.bit_weight, self.network.excess
        is_first = step < self._first_steering + self._steering_interval
        expected = excess if is_first else excess + _AHEAD * (excess - float(before[0]))
        change = min(max(-_GAIN * expected, -_LARGEST_CHANGE), _LARGEST_CHANGE)
        first, factor = self.first_bit_weight, _LARGEST_FACTOR
        weight[:] = np.clip(weight * math.exp(change), first / factor, first * factor)
        before[:] = excess

    @property
    def _first_steering(self) -> int:
        return math.ceil(_FIRST_STEERING * self.schedule.steps)

    @property
    def _steering_interval(self) -> int:
        return max(1, self.schedule.steps // _STEERINGS)

    @cached_property
    def data(self) -> Array:
        """The values of all pixels."""
        return self.device.asarray(self.values.reshape(self.pixels, -1), dtype=self.dtype)

    def rounding(self, step: int) -> Rounding:
        """Return how latents are rounded in the step after `step` steps."""
        soft = self.schedule.steps * (1 - _ROUNDED_SHARE)
        if step >= soft:
            return Rounding(0, 0)
        done = step / soft
        return Rounding(*(a + (b - a) * done for a, b in (_TEMPERATURES, _SIGMAS)))

    def noise_keys(self, steps: Array | int) -> Array:
        """Return the key of the noise of each step, uint32."""
        return noise_keys(steps, self.random_seed)

    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        if self.steers_at(step):
            squared, bits = self._forward(Rounding(0, 0), 0)
            self.steer(step, float(squared.data), float(bits.data.sum()) / self.pixels)
        squared, bits = self._forward(self.rounding(step), int(self.noise_keys(step)))
        weighted = ops.multiply(bits, self.bit_weight / self.pixels)
        return ops.add(squared, _sum(weighted)), squared.data

    def _forward(self, rounding: Rounding, key: int) -> tuple[Tensor, Tensor]:
        """Compute the mean squared error, and the bits of all latents."""
        latents, first = [], 0
        for parameters in self.network.latents:
            latents.append(
                round_softly(parameters, first, rounding.temperature, rounding.sigma, key)
            )
            first += parameters.data.size
        found = self.network.pixels(latents)
        squared = _mean_squared_error(found, self.data)
        flat = ops.concatenate([ops.reshape(grid, (-1, 1)) for grid in latents], axis=0)
        return squared, laplace_bits(flat, self.network.distributions(latents))

    @property
    def block_samples(self) -> int:
        """All pixels, because their latents depend on each other."""
        return self.pixels

    @property
    def sample_bytes(self) -> int:
        return self.values.shape[2] * self.itemsize

    @property
    def working_values(self) -> int:
        return 20 * self.network.parameters["rate.0"].shape[0] + 8 * self.network.hidden


def _mean_squared_error(found: Tensor, targets: Array) -> Tensor:
    error = found.data - targets
    return record((error**2).mean(), (found,), lambda g: (g * 2 / error.size * error,))


def _sum(x: Tensor) -> Tensor:
    return record(x.data.sum(), (x,), lambda g: (np.full_like(x.data, g),))
