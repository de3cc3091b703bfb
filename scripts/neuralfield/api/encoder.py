"""Fitting of coded images to an image, of a given weight of bits, size or quality."""

import math
import os
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.api.arguments import require_output
from neuralfield.api.run_training import run_training
from neuralfield.coding import nfz
from neuralfield.coding.decoding import pixels_of
from neuralfield.engines.cuda.latents.latent_engine import LEAST_CAPABILITY
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.images.image import MODES
from neuralfield.images.metrics import psnr_db
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.files import write_atomically
from neuralfield.tasks.bits.bits_model import BitsModel, BitsSettings
from neuralfield.tasks.bits.bits_objective import (
    BITS_BY_WEIGHT,
    DB_BY_WEIGHT,
    LARGEST_BIT_WEIGHT,
    LEAST_BIT_WEIGHT,
)
from neuralfield.tasks.bits.bits_task import BitsTask, BitsTraining
from neuralfield.tasks.training_settings import ImageExecution
from neuralfield.training.coding import coded_image
from neuralfield.training.history import History

USUAL_LAMBDA, _USUAL_BITS, _USUAL_DB = 1e-3, 0.48, 34.9
"""The default; about the bits per pixel of photographs, and their PSNR, with it."""

_TIMED_STEPS, LEAST_STEPS, _STEERING_STEPS = {"cpu": 40, "gpu": 800}, 60, 25
"""Steps that are timed, the fewest steps of a training, and the steps that take as long as steering
does."""


@dataclass(frozen=True)
class EncodedImage:
    """The file of an image in memory.

    >>> import numpy as np
    >>> import neuralfield as nf
    >>> encoded = nf.encode(np.zeros((8, 12)), steps=5)
    >>> nf.decode(encoded.content).shape
    (8, 12)
    """

    content: bytes
    width: int
    height: int
    psnr_db: float  # of the decoded levels
    lambda_: float  # weight of one bit per pixel against the mean squared error
    steps: int

    @property
    def bits_per_pixel(self) -> float:
        return 8 * len(self.content) / (self.width * self.height)

    def save(self, path: str | os.PathLike) -> None:
        """Write the file; its name usually ends in ``.nfz``."""
        write_atomically(require_output("path", path), self.content)


@dataclass(frozen=True, eq=False)
class Encoder:
    """Fits coded images to an image."""

    values: np.ndarray
    training: BitsTraining
    how: ImageExecution
    folder: Path | None
    shown: dict[str, Any]

    def timed_steps(self, seconds: float) -> float:
        """Return how many steps fit in a time, after those that are timed."""
        count = _TIMED_STEPS[self.how.device]
        history = self._trained("timing", replace(self.training, steps=count))[2]
        return seconds * count / history["seconds"][-1] - count

    def timed(self, seconds: float, is_steered: bool) -> "Encoder":
        """Return an encoder with as many steps as fit in a time."""
        steps = self.timed_steps(seconds) - is_steered * _STEERING_STEPS
        return replace(self, training=replace(self.training, steps=max(LEAST_STEPS, int(steps))))

    def encoded(self, **changed: Any) -> EncodedImage:
        """Return the image coded with changed settings of the training."""
        task, model, _ = self._trained("training", replace(self.training, **changed))
        device, threads = select_device(self.how.device), self.how.threads or available_cores()
        coded = coded_image(task, model, device, threads)
        reached_db = psnr_db(pixels_of(coded) / np.float32(255), self.values)
        bit_weight = float(model.arrays["bit_weight"][0])
        numbers = coded.width, coded.height, reached_db, bit_weight, self.training.steps
        return EncodedImage(nfz.to_bytes(coded), *numbers)

    def of_quality(self, psnr_db: float) -> EncodedImage:
        """Return the image coded with this PSNR."""
        weight = weight_for_quality(psnr_db)
        return self.encoded(bit_weight=weight, target_psnr_db=psnr_db)

    def of_size(self, bits_per_pixel: float) -> EncodedImage:
        """Return the image coded in a file of this size."""
        weight = weight_for_size(bits_per_pixel)
        return self.encoded(bit_weight=weight, target_bits_per_pixel=bits_per_pixel)

    def _trained(self, name: str, training: BitsTraining) -> tuple[BitsTask, BitsModel, History]:
        """Train in the part of the folder that has this name."""
        mode = MODES[self.values.shape[2]]
        settings = BitsSettings.for_pixels(self.values.shape[0] * self.values.shape[1])
        task = BitsTask(self.values, mode, settings, training)
        folder = None if self.folder is None else self.folder / name
        return task, *run_training(task, folder, self.how, **self.shown)


def execution_on(request: str, threads: int | None) -> ImageExecution:
    """Return how to train on a device: the tape engine is too slow for images."""
    settings: dict[str, Any] = {} if threads is None else {"threads": threads}
    device = select_device(request)
    is_old = device.kind == "gpu" and compute_capability(device) < LEAST_CAPABILITY
    if device.kind == "cpu" or (is_old and request == "auto"):
        return ImageExecution.from_mapping({**settings, "device": "cpu"})
    return ImageExecution.from_mapping({**settings, "device": "gpu", "engine": "cuda"})


def weight_for_quality(psnr_db: float) -> float:
    """Return about the weight of bits with which photographs have this PSNR."""
    return limited(USUAL_LAMBDA * math.exp((psnr_db - _USUAL_DB) / DB_BY_WEIGHT))


def weight_for_size(bits_per_pixel: float) -> float:
    """Return about the weight of bits with which photographs take these bits per pixel."""
    return limited(USUAL_LAMBDA * (bits_per_pixel / _USUAL_BITS) ** (1 / BITS_BY_WEIGHT))


def limited(bit_weight: float) -> float:
    """Return a weight of bits within its limits."""
    return min(max(bit_weight, LEAST_BIT_WEIGHT), LARGEST_BIT_WEIGHT)
