"""The task of fitting latents and networks to an image, and the settings of its training."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Unpack

import numpy as np

from neuralfield.images import image_digest
from neuralfield.nn.sampling import Batches
from neuralfield.system.settings import setting
from neuralfield.tasks.bits.bits_model import BitsModel
from neuralfield.tasks.bits.bits_objective import BitsObjective
from neuralfield.tasks.bits.latent_network import LatentNetwork
from neuralfield.tasks.task import PSNR_DB, Measure, Shared, Task
from neuralfield.tasks.training_settings import TrainingSettings


@dataclass(frozen=True)
class BitsTraining(TrainingSettings):
    """The settings of the fit of latents and networks to an image."""

    steps: int = setting(3000, "number of updates of the weights", minimum=1)
    learning_rate: float = setting(1.5e-2, "the largest learning rate of the schedule", above=0)
    minimum_learning_rate: float = setting(
        1e-5, "the learning rate at the end of the schedule", minimum=0, limited_by="learning_rate"
    )
    beta2: float = setting(
        0.95,
        "for adam: decay rate of the mean of squared gradients",
        minimum=0,
        below=1,
        only_with={"optimizer": ("adam",)},
    )
    snapshots: int = setting(
        12, "number of networks that are kept, log-spaced over the steps", minimum=2, maximum=10_000
    )
    bit_weight: float = setting(
        1e-3,
        "weight of one bit per pixel against the mean squared error of values in [0, 1], lambda in"
        " the literature: 2.0e-2 for few bits, 1.0e-4 for many",
        above=0,
    )
    target_bits_per_pixel: float | None = setting(
        None,
        "bits per pixel of the file that the weight of bits is steered to",
        above=0,
        omit_when_off=True,
    )
    target_psnr_db: float | None = setting(
        None,
        "PSNR in dB that the weight of bits is steered to",
        above=0,
        omit_when_off=True,
    )


@dataclass(frozen=True)
class BitsTask(Task):
    """The task of coding an image in few bits."""

    values: np.ndarray  # float32, shape (height, width, channels); the image, in [0, 1]
    mode: str  # "grey", "rgb" or "rgba"
    hidden: int  # values of the synthesis
    training: BitsTraining

    @property
    def measure(self) -> Measure:
        return PSNR_DB

    @cached_property
    def model(self) -> BitsModel:
        height, width, _ = self.values.shape
        return BitsModel(self.hidden, width, height, self.mode, {})

    def fresh_network(self) -> LatentNetwork:
        network = self.model.fresh_network()
        network.initialise(self.values.mean(axis=(0, 1), dtype=np.float64))
        network.bit_weight[:] = self.training.bit_weight
        return network

    def objective(self, network: LatentNetwork, **shared: Unpack[Shared]) -> BitsObjective:
        settings, pixels = self.training, self.values.shape[0] * self.values.shape[1]
        return BitsObjective(
            network=network,
            values=self.values,
            target_bits_per_pixel=settings.target_bits_per_pixel,
            target_psnr_db=settings.target_psnr_db,
            random_seed=settings.random_seed,
            batches=Batches(shared["device"].xp, pixels, 0, settings.random_seed),
            **shared,
        )

    @cached_property
    def image(self) -> str:
        """The digest of the image; see `neuralfield.images.image_facts.image_digest`."""
        return image_digest(self.values)

    def identity(self) -> list[Any]:
        digest = hashlib.sha256(np.ascontiguousarray(self.values).data).hexdigest()
        return ["bits", self.hidden, self.mode, list(self.values.shape), digest]

    def record(self) -> dict[str, Any]:
        return {"picture": self.image}
