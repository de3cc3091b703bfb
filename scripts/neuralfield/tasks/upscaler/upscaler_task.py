"""The task of fitting an upscaler to its image."""

from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from neuralfield.fields import Upscaler, UpscalingNetwork, build_field
from neuralfield.nn.sampling import Batches
from neuralfield.system.device import Device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.image_task import FittedImage
from neuralfield.tasks.task import Shared
from neuralfield.tasks.upscaler.upscaler_objective import Crops, UpscalerObjective, crop_side

_CROPS_JUDGED = 16
_STEP_JUDGED = 2**32 - 1
"""Step whose crops are used to evaluate networks; no training reaches it."""


@dataclass(frozen=True)
class UpscalingTask(FittedImage[Upscaler]):
    """The task of fitting an upscaler to an image."""

    def fresh_network(self) -> UpscalingNetwork:
        """Create the network with initial weights and the image."""
        network = build_field(self.field, self.shape, self.training.random_seed)
        network.image[...] = self.values
        return network

    @property
    def smallest_batch_pixels(self) -> int:
        """The number of pixels in one crop."""
        return self.field.crop**2

    def objective(self, network: UpscalingNetwork, **shared: Unpack[Shared]) -> UpscalerObjective:
        if self.is_solved:
            shared["schedule"] = shared["schedule"].at_rest()
        settings = self.training
        if settings.loss == "binary_cross_entropy":
            expected = "mse or huber: what an upscaler makes is no probability"
            raise ConfigError("training.loss", repr(settings.loss), expected)
        pixels = settings.batch_pixels or self.shape.width * self.shape.height
        crops = max(1, round(pixels / crop_side(self.field, self.values) ** 2))
        return UpscalerObjective(
            network=network,
            settings=self.field,
            values=self.values,
            random_seed=settings.random_seed,
            batches=Batches(shared["device"].xp, crops, 0, settings.random_seed),
            **shared,
        )

    def record(self) -> dict[str, Any]:
        return {"picture": self.image}

    @np.errstate(all="ignore")
    def squared_error(self, network: UpscalingNetwork, device: Device, dtype: str) -> float:
        """Return the mean squared error over some crops."""
        crops = Crops(self.field, self.values, self.training.random_seed, device, dtype)
        enlarged, target = crops.of_step(np.arange(_CROPS_JUDGED), _STEP_JUDGED)
        return float(((network(enlarged).data - target) ** 2).mean())
