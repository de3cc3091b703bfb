"""A field taught a picture and redrawn: what the benchmarks of fields and redraws share."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from measuring.images import DRAWING, PHOTO
from measuring.ours import TrainingSteps, fit_db
from neuralfield.fields import field_settings
from neuralfield.images import Picture
from neuralfield.images.metrics import psnr_db
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture
from neuralfield.rendering.render import render
from neuralfield.system.device import Device
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import PictureTask
from neuralfield.tasks.training_settings import PictureTraining

PICTURES = {"lion cub": (DRAWING, "grey"), "savannah": (PHOTO, "rgb")}
_ENLARGED = 4


@dataclass(frozen=True)
class Lesson:
    """A picture to be taught, and what a redraw of it should be.

    Attributes
    ----------
    taught : Picture
        Reduced with a box filter.
    truth : Picture
        A multiple of the size, from the same source.
    """

    taught: Picture
    truth: Picture

    @classmethod
    def of(cls, name: str, side_px: int) -> "Lesson":
        """One of `PICTURES`, its longer side reduced to `side_px`."""
        path, mode = PICTURES[name]
        source = read_picture(path, mode=mode)
        return cls(resize_picture(source, side_px), resize_picture(source, _ENLARGED * side_px))

    def filter_db(self, name: str) -> float:
        """What the taught picture reaches when it is enlarged with a filter."""
        return psnr_db(self.enlarged(name).values(), self.truth.values())

    def enlarged(self, name: str) -> Picture:
        """The taught picture at the truth's size, by a filter."""
        return resize_picture(self.taught, (self.truth.width, self.truth.height), name)


@dataclass(frozen=True)
class Taught:
    """What came of a lesson.

    Attributes
    ----------
    fit_db : float
        At pixel centres. NaN, as redraw_db, where the training diverged.
    redraw_db : float
        At the truth's size.
    parameters : int
    seconds : float
        Of the steps alone.
    redraw : ndarray of float32, shape (height, width, channels), or None
        At the truth's size; None where the training diverged.
    """

    fit_db: float
    redraw_db: float
    parameters: int
    seconds: float
    redraw: np.ndarray | None


def teach(
    lesson: Lesson,
    field: dict[str, Any],
    training: dict[str, Any],
    device: Device,
    engine: str = "tape",
    threads: int = 1,
) -> Taught:
    """Teach a field a picture and measure it.

    Parameters
    ----------
    lesson : Lesson
    field : dict
        Its type and settings.
    training : dict
        Settings of the section `training`.
    device : Device
    engine : str
    threads : int
    """
    settings = PictureTraining.from_mapping(training)
    task = PictureTask(lesson.taught.values(), lesson.taught.mode, field_settings(field), settings)
    with np.errstate(all="ignore"), TrainingSteps(task, device, engine, threads) as steps:
        seconds = steps.timed_s(settings.steps)
        arrays, parameters = steps.arrays(), steps.trainer.network.parameter_count
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return Taught(float("nan"), float("nan"), parameters, seconds, None)
    record = {"precision": "float32", "footprint": settings.supervision == "footprint"}
    model = Model(task.field, task.shape, task.mode, arrays, record)
    redraw = render(model, lesson.truth.width, lesson.truth.height, device=device)
    redraw_db = psnr_db(redraw, lesson.truth.values())
    return Taught(fit_db(arrays, task, device), redraw_db, parameters, seconds, redraw)
