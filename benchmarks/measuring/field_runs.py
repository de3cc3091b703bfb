"""Fields trained on an image and measured: at its own size, or against a larger true image."""

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from measuring.ours import TrainingSteps, fit_db, image_task, lost_db
from neuralfield.images import ImageData
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import resize_image
from neuralfield.rendering.render import render
from neuralfield.rendering.residual import find_residual
from neuralfield.system.device import Device
from neuralfield.tasks.image.image_model import Model

FILTERS = ("lanczos", "bicubic", "back_projection", "two_tone")
LOOKS = 10
"""Default number of measurements of the fit in the last tenth of a training."""


class Fit(NamedTuple):
    """The quality of a network's fit to its training pixels.

    Attributes
    ----------
    seconds : float
        Time of the steps alone.
    lost_db : float
        The largest drop of the dB below the best value so far, within the last tenth of the steps.
    """

    parameters: float
    steps: float
    seconds: float
    db: float
    lost_db: float


@dataclass(frozen=True)
class ImagePair:
    """A training image, and the true image at the size of its enlarged render.

    Attributes
    ----------
    small : ImageData
        The training image, reduced with a box filter.
    truth : ImageData
        The true image from the same source, at a multiple of the size.
    """

    small: ImageData
    truth: ImageData

    @cached_property
    def filters_db(self) -> dict[str, float]:
        """The PSNR of the training image enlarged with each of `FILTERS`, in dB."""
        truth = self.truth.values()
        return {name: psnr_db(self.enlarged(name).values(), truth) for name in FILTERS}

    @property
    def best_filter_db(self) -> float:
        """The PSNR of the filter that is closest to the true image."""
        return max(self.filters_db.values())

    def enlarged(self, name: str) -> ImageData:
        """Return the training image enlarged to the true image's size with a filter."""
        return resize_image(self.small, (self.truth.width, self.truth.height), name)


@dataclass(frozen=True)
class RenderedFit:
    """A network trained on the small image of a pair, measured at both sizes.

    Attributes
    ----------
    fit_db : float
        PSNR at pixel centres. Like render_db, it is NaN if the training diverged.
    render_db : float
        PSNR at the true image's size.
    seconds : float
        Time of the steps alone.
    values : ndarray of float32, shape (height, width, channels), or None
        The render at the true image's size; None if the training diverged.
    """

    fit_db: float
    render_db: float
    seconds: float
    values: np.ndarray | None


def fit(
    image: ImageData,
    field: dict[str, Any],
    training: dict[str, Any],
    device: Device,
    threads: int,
    looks: int = LOOKS,
) -> Fit:
    """Train a field on an image with an automatically chosen engine, and measure the fit.

    Parameters
    ----------
    field : dict
        The field's type and settings.
    training : dict
        Settings of the section `training`.
    threads : int
        CPU cores to use.
    looks : int
        Number of measurements of the fit in the last tenth of the steps, at least two.
    """
    task = image_task(image, field, training)
    total, seconds, found_db = task.training.steps, 0.0, []
    with TrainingSteps(task, device, "auto", threads) as steps:
        shares = [0.0, *np.linspace(0.9, 1, max(2, looks))]
        for start, end in pairwise(round(share * total) for share in shares):
            seconds += steps.timed_s(end - start)
            found_db.append(fit_db(steps.arrays(), task, device, samples="auto"))
        parameters = steps.trainer.network.parameter_count
    return Fit(parameters, total, seconds, found_db[-1], lost_db(found_db))


def fit_and_render(
    pair: ImagePair,
    field: dict[str, Any],
    training: dict[str, Any],
    device: Device,
    engine: str = "tape",
    threads: int = 1,
) -> RenderedFit:
    """Train a network on the small image of a pair; measure the fit and the enlarged render.

    For the other parameters see `fit`.
    """
    task = image_task(pair.small, field, training)
    with np.errstate(all="ignore"), TrainingSteps(task, device, engine, threads) as steps:
        seconds = steps.timed_s(task.training.steps)
        arrays = steps.arrays()
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return RenderedFit(float("nan"), float("nan"), seconds, None)
    record = {"precision": "float32", "footprint": task.training.supervision == "footprint"}
    model = Model(task.field, task.shape, task.mode, arrays, record)
    if task.is_corrected:
        scale = task.residual_scale
        residual = find_residual(model, task.values, scale, device=device, threads=threads)
        model = replace(model, residual=residual)
    values = render(model, pair.truth.width, pair.truth.height, device=device, threads=threads)
    render_db = psnr_db(values, pair.truth.values())
    return RenderedFit(fit_db(arrays, task, device), render_db, seconds, values)
