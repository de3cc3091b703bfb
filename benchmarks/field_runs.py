"""A field taught a picture and redrawn: what the benchmarks of fields and redraws share."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from measure import synchronize_all_streams
from ours import TrainingSteps, fit_db
from pictures import DRAWING, PHOTO

from neuralfield.device import Device
from neuralfield.fields import field_settings
from neuralfield.images import Picture
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture
from neuralfield.metrics import psnr_db
from neuralfield.model import Model
from neuralfield.picture_task import PictureTask
from neuralfield.render import render
from neuralfield.training import PictureTraining

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
        size = (self.truth.width, self.truth.height)
        enlarged = resize_picture(self.taught, size, name)
        return psnr_db(enlarged.values(), self.truth.values())


def teach(
    lesson: Lesson,
    field: dict[str, Any],
    training: dict[str, Any],
    device: Device,
    engine: str = "tape",
    threads: int = 1,
) -> dict[str, float]:
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

    Returns
    -------
    dict
        ``fit_db`` (at pixel centres), ``redraw_db`` (at the truth's size),
        ``parameters`` and ``seconds`` (of the steps alone).
    """
    settings = PictureTraining.from_mapping(training)
    task = PictureTask(lesson.taught.values(), lesson.taught.mode, field_settings(field), settings)
    with np.errstate(all="ignore"), TrainingSteps(task, device, engine, threads) as steps:
        started_s = time.perf_counter()
        steps(settings.steps)
        synchronize_all_streams(device)
        seconds = time.perf_counter() - started_s
        arrays, parameters = steps.arrays(), steps.trainer.network.parameter_count
    if not all(np.isfinite(array).all() for array in arrays.values()):
        return {"fit_db": float("nan"), "redraw_db": float("nan")}
    record = {"precision": "float32", "footprint": settings.supervision == "footprint"}
    model = Model(task.field, task.shape, task.mode, arrays, record)
    redraw = render(model, lesson.truth.width, lesson.truth.height, device=device)
    return {
        "fit_db": fit_db(arrays, task, device),
        "redraw_db": psnr_db(redraw, lesson.truth.values()),
        "parameters": parameters,
        "seconds": seconds,
    }
