"""The objective of a coded image: mean squared error + weight x bits per pixel."""

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.losses import mean_squared_error
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array
from neuralfield.tasks.bits.latent_network import LatentNetwork
from neuralfield.tasks.bits.latent_ops import laplace_bits, noise_keys, round_softly
from neuralfield.tasks.task import PSNR_DB, Objective

_TEMPERATURES, _SIGMAS = (0.35, 0.08), (0.22, 0.15)
"""Temperature of soft rounding and deviation of the noise, at the first and the last such step."""

_ROUNDED_SHARE = 0.05
"""Share of the steps at the end in which latents are whole and only the networks are trained."""


_STEERINGS, _FIRST_STEERING = 60, 0.1
"""How often the weight of bits is changed in a training with a target, and the share of the steps
before it is changed first."""

_GAIN, _LARGEST_CHANGE = 0.5, 0.3
"""The share of the difference to the target that a change aims to remove, which is not all because
bits follow earlier changes with a delay, and the largest change of the weight's logarithm."""

LEAST_BIT_WEIGHT, LARGEST_BIT_WEIGHT = 1e-8, 0.3

BITS_BY_WEIGHT, DB_BY_WEIGHT = -0.5, -2.7
"""About how much the logarithm of the bits, and the PSNR in dB, change by the logarithm of the
weight: on photographs, from 2e-2 to 1e-4."""

_HEADER_BITS, _LEAST_BITS_OF_A_WEIGHT = 480, 3.0


def bits_of_networks(weights: int, pixels: int, bit_weight: float) -> float:
    """Estimate the bits of a file without its latents, from the number of weights.

    More bits of a weight pay off in larger images, and if bits weigh less; fitted to 60 files of
    photographs of 2,000 to 393,000 pixels, and within 10 % of most of them.
    """
    of_a_weight = 7.6 - 0.4 * math.log(bit_weight / 1e-3) + 0.75 * math.log(pixels / 393216)
    return _HEADER_BITS + weights * max(of_a_weight, _LEAST_BITS_OF_A_WEIGHT)


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
    target_bits_per_pixel: float | None = None  # of the file; targets steer the weight of bits
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
        steps = self.schedule.steps
        is_time = (
            step >= math.ceil(_FIRST_STEERING * steps) and step % max(1, steps // _STEERINGS) == 0
        )
        return is_time and self.rounding(step).temperature > 0

    def steer(self, step: int, error: float, bits_per_pixel: float) -> None:
        """Change the weight of bits, given the values before a step for rounded latents.

        The values at the end of a training that keeps its weight are expected from those of 45
        trainings of photographs (lambda 2e-4 to 4e-3, 1000 to 10,000 steps), and how much a change
        moves them from 20 more, in which the weight changed.
        """
        left = max(0.0, 0.96 - step / self.schedule.steps)
        weight = self.network.bit_weight
        if self.target_psnr_db is not None:
            expected_db = PSNR_DB.of_mean_error(error) + 0.55 * left**2 + 0.3 * left
            wanted = (self.target_psnr_db - expected_db) / DB_BY_WEIGHT
        else:
            found = max(bits_per_pixel, 1e-9)
            expected = math.log(found) - min(0.16 * found**-0.9 * left**1.3, 0.6 * left)
            wanted = (math.log(self._target_of_latents) - expected) / BITS_BY_WEIGHT
        wanted /= math.sqrt(left + 0.01)  # later changes have smaller effects
        change = min(max(_GAIN * wanted, -_LARGEST_CHANGE), _LARGEST_CHANGE)
        weight[:] = np.clip(weight * math.exp(change), LEAST_BIT_WEIGHT, LARGEST_BIT_WEIGHT)

    @property
    def _target_of_latents(self) -> float:
        """The target without the bits of networks, in bits per pixel; at least a tenth of it."""
        target = self.target_bits_per_pixel or 0.0
        sizes = [tensor.data.size for tensor in self.network.parameters.values()]
        weights = sum(sizes[self.network.grids :])
        others = bits_of_networks(weights, self.pixels, self.bit_weight) / self.pixels
        return max(target - others, 0.1 * target)

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
            self.steer(step, float(squared.data), float(bits.data) / self.pixels)
        squared, bits = self._forward(self.rounding(step), int(self.noise_keys(step)))
        return ops.add(squared, ops.multiply(bits, self.bit_weight / self.pixels)), squared.data

    def _forward(self, rounding: Rounding, key: int) -> tuple[Tensor, Tensor]:
        """Compute the mean squared error, and the bits of all latents."""
        latents, first = [], 0
        for parameters in self.network.latents:
            latents.append(
                round_softly(parameters, first, rounding.temperature, rounding.sigma, key)
            )
            first += parameters.data.size
        found = self.network.pixels(latents)
        squared = mean_squared_error(found, self.data, self.data.size)
        flat = ops.concatenate([ops.reshape(grid, (-1, 1)) for grid in latents], axis=0)
        return squared, laplace_bits(flat, self.network.distributions(flat))

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
