"""The objective of a coded image: mean squared error + weight x bits per pixel."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.nn import ops
from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array
from neuralfield.tasks.bits.latent_network import LatentNetwork
from neuralfield.tasks.bits.latent_ops import laplace_bits, noise_key, round_softly
from neuralfield.tasks.task import Objective

_TEMPERATURES, _SIGMAS = (0.35, 0.08), (0.22, 0.15)
"""Temperature of soft rounding and deviation of the noise, at the first and the last such step."""

_ROUNDED_SHARE = 0.05
"""Share of the steps at the end in which latents are whole and only the networks are trained."""


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
    bit_weight: float  # lambda: what one bit per pixel costs in squared error
    random_seed: int

    @property
    def pixels(self) -> int:
        return self.values.shape[0] * self.values.shape[1]

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

    def noise_key(self, step: int) -> int:
        """Return the key of a step's noise."""
        return noise_key(step, self.random_seed)

    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        rounding, key, first = self.rounding(step), self.noise_key(step), 0
        latents = []
        for parameters in self.network.latents:
            latents.append(
                round_softly(parameters, first, rounding.temperature, rounding.sigma, key)
            )
            first += parameters.data.size
        found = self.network.pixels(latents)
        squared = _mean_squared_error(found, self.data)
        flat = ops.concatenate([ops.reshape(grid, (-1, 1)) for grid in latents], axis=0)
        bits = laplace_bits(flat, self.network.distributions(latents))
        weighted = ops.multiply(bits, self.bit_weight / self.pixels)
        return ops.add(squared, _sum(weighted)), squared.data

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
