"""Teaching an upscaler its picture."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.fields import FieldSettings, Upscaler, UpscalingNetwork, build_field
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.sampling import Batches
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import Device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.image_task import PictureTask, TaughtPicture
from neuralfield.tasks.training_settings import PictureTraining
from neuralfield.tasks.upscaler.upscaler_objective import Crops, UpscalingProblem

_CROPS_JUDGED = 16
_STEP_JUDGED = 2**32 - 1
"""Of the crops that networks are judged by: a step that no training reaches."""


@dataclass(frozen=True)
class UpscalingTask(TaughtPicture[Upscaler]):
    """A picture, the upscaler that learns how it is enlarged, and how."""

    def fresh_network(self) -> UpscalingNetwork:
        """The network with fresh weights, and the picture.

        Raises
        ------
        ResourceError
            It is larger than the memory there is.
        """
        network = build_field(self.field, self.shape, self.training.random_seed)
        network.picture[...] = self.values
        return network

    def problem(
        self,
        network: UpscalingNetwork,
        optimizer: Optimizer,
        schedule: Schedule,
        device: Device,
        dtype: str,
    ) -> UpscalingProblem:
        """What an engine is given.

        Raises
        ------
        ConfigError
            Binary cross-entropy of values that are no probabilities.
        """
        settings = self.training
        if settings.loss == "binary_cross_entropy":
            expected = "mse or huber: what an upscaler makes is no probability"
            raise ConfigError("training.loss", repr(settings.loss), expected)
        pixels = settings.batch_pixels or self.shape.width * self.shape.height
        crop = min(self.field.crop, self.shape.width, self.shape.height)
        crops = max(1, round(pixels / crop**2))
        return UpscalingProblem(
            network=network,
            settings=self.field,
            values=self.values,
            loss=settings.loss,
            huber_delta=settings.huber_delta,
            random_seed=settings.random_seed,
            optimizer=optimizer,
            schedule=schedule.at_rest() if self.is_solved else schedule,
            batches=Batches(device.xp, crops, 0, settings.random_seed),
            dtype=dtype,
        )

    def record(self) -> dict[str, Any]:
        """What a network's file says of what it was taught."""
        return {"picture": self.picture}

    @np.errstate(all="ignore")
    def squared_error(self, network: UpscalingNetwork, device: Device, dtype: str) -> float:
        """Mean over some crops; may be infinite or NaN."""
        crops = Crops(self.field, self.values, self.training.random_seed, device, dtype)
        enlarged, target = crops.of_step(np.arange(_CROPS_JUDGED), _STEP_JUDGED)
        return float(((network(enlarged).data - target) ** 2).mean())


def picture_task(
    values: np.ndarray, mode: str, network: FieldSettings | Upscaler, training: PictureTraining
) -> PictureTask | UpscalingTask:
    """The task of teaching a picture to a network, of whichever kind; see `TaughtPicture`."""
    if isinstance(network, Upscaler):
        return UpscalingTask(values, mode, network, training)
    return PictureTask(values, mode, network, training)
