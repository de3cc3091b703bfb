"""Training by this package, driven through its public interface."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from measuring.measure import Report
from measuring.timing import synchronize_all_streams
from neuralfield.fields import field_settings
from neuralfield.images import ImageData
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.task import Task
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.trainer import Trainer


@dataclass(frozen=True)
class Ours:
    """An engine in one precision.

    Attributes
    ----------
    engine : {"cpu", "cuda", "tape"}
    precision : {"mixed", "float32"}
    gradient_limit : float
        Maximum relative error of a correct gradient.
    """

    name: str
    engine: str
    precision: str
    gradient_limit: float


CUDA_MIXED = Ours("cuda mixed", "cuda", "mixed", 2e-2)
CUDA_FLOAT32 = Ours("cuda float32", "cuda", "float32", 1e-3)
CPU = Ours("cpu float32", "cpu", "float32", 1e-3)
TAPE = Ours("tape float32", "tape", "float32", 1e-3)


def systems(device: Device) -> tuple[Ours, ...]:
    """Return the engines and precisions of a device."""
    return (CUDA_MIXED, CUDA_FLOAT32, TAPE) if device.kind == "gpu" else (CPU, TAPE)


def image_task(image: ImageData, field: dict[str, Any], training: dict[str, Any]) -> ImageTask:
    """Return a task of an image, the settings of a network and those of the section `training`."""
    settings = ImageTraining.from_mapping(training)
    return ImageTask(image.values(), image.mode, field_settings(field), settings)


class TrainingSteps:
    """Training steps of a task by an engine; a call takes the number of steps in its argument.

    Rows of the history, which wait for the device, are added only if `keep_best` needs them.

    Parameters
    ----------
    threads : int
        CPU cores to use.
    """

    def __init__(self, task: Task, device: Device, engine: str, threads: int = 1) -> None:
        self.trainer = Trainer(task, device, engine, threads, note=print)
        self.taken = 0
        self._device = device

    def __call__(self, steps: int) -> None:
        trainer, end = self.trainer, self.taken + steps
        makes_rows = trainer.task.training.keep_best
        while self.taken < end:
            ahead = trainer.steps_ahead(end) if makes_rows else end - self.taken
            count = min(trainer.engine.most_steps, ahead)
            trainer.engine.run(self.taken, count)
            self.taken += count
            if makes_rows:
                trainer.count_steps(count, 0.0, to_host(trainer.engine.totals))

    def timed_s(self, steps: int) -> float:
        """Take steps, wait until they are done, and return the seconds."""
        started_s = time.perf_counter()
        self(steps)
        synchronize_all_streams(self._device)
        return time.perf_counter() - started_s

    def __enter__(self) -> "TrainingSteps":
        return self

    def __exit__(self, *error: object) -> None:
        self.trainer.engine.close()
        release_memory(self._device)

    def arrays(self) -> dict[str, np.ndarray]:
        """Return the current arrays of the network on the host, or the best ones if kept."""
        synchronize_all_streams(self._device)
        if self.trainer.best is not None:
            return self.trainer.best.arrays
        return {name: to_host(array) for name, array in self.trainer.network.arrays.items()}


def first_gradient(task: Task, device: Device, engine: str) -> dict[str, np.ndarray]:
    """Return the gradient of the first step by parameter, computed from Adam's first moment."""
    with TrainingSteps(task, device, engine) as steps:
        steps(1)
        synchronize_all_streams(device)
        state, share = steps.trainer.optimizer.state, 1 - task.training.beta1
        return {
            name: to_host(state[f"moment1.{name}"]) / share
            for name in steps.trainer.network.parameters
        }


def relative_error(found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """Return ||found - reference|| / ||reference|| over all parameters; NaN if any is NaN."""
    pairs = [(found[name].astype(np.float64), reference[name]) for name in reference]
    difference = sum(float(np.sum((a - b) ** 2)) for a, b in pairs)
    return (difference / sum(float(np.sum(b**2)) for _, b in pairs)) ** 0.5


def checked_error(
    report: Report,
    row: str,
    system: Any,
    found: dict[str, np.ndarray],
    reference: dict[str, np.ndarray],
) -> float:
    """Return the relative error of a gradient, and report a failure if it exceeds the limit."""
    error = relative_error(found, reference)
    what = f"{row}, {system.name}: gradient is off by {error:.2g}"
    report.require(error <= system.gradient_limit, what)
    return error


def fit_db(
    arrays: dict[str, np.ndarray],
    task: ImageTask,
    device: Device,
    samples: int | str = 1,
) -> float:
    """Return the PSNR of a network on the training pixels, in dB.

    Parameters
    ----------
    samples : int or "auto"
        Points in each pixel. 1 is its centre; "auto" is as in the workflow, which uses means over
        pixels for networks that were trained on such means.
    """
    record = {
        "precision": "float32",
        "footprint": task.training.supervision == "footprint",
    }
    model = Model(task.field, task.shape, task.mode, arrays, record)
    rendered = render(model, task.shape.width, task.shape.height, device=device, samples=samples)
    return psnr_db(rendered, task.values)


def lost_db(found_db: Sequence[float]) -> float:
    """Return the largest drop of the dB below the best value so far."""
    return float(np.max(np.maximum.accumulate(found_db) - found_db))


def release_memory(device: Device) -> None:
    """Release freed GPU memory to the driver, for other libraries."""
    synchronize_all_streams(device)
    if device.kind == "gpu":
        device.xp.get_default_memory_pool().free_all_blocks()
