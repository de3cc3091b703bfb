"""This package's training, driven through its public interface."""

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from measuring.measure import synchronize_all_streams
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import PictureTask
from neuralfield.tasks.task import Task
from neuralfield.training.trainer import Trainer


@dataclass(frozen=True)
class Ours:
    """An engine in one precision.

    Attributes
    ----------
    name : str
    engine : {"cpu", "cuda", "tape"}
    precision : {"mixed", "float32"}
    gradient_limit : float
        The largest relative error of a gradient that still counts as correct.
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
    """The engines that a device can run."""
    return (CUDA_MIXED, CUDA_FLOAT32, TAPE) if device.kind == "gpu" else (CPU, TAPE)


class TrainingSteps:
    """Steps of a task, taken by its engine; call it with how many.

    Rows of the history are made where `keep_best` needs them: they wait for the device.

    Parameters
    ----------
    task : Task
    device : Device
    engine : str
    threads : int
        Cores to use, on the CPU.
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
            if makes_rows and trainer.count_steps(count, seconds=0.0):
                trainer.add_history_row()

    def timed_s(self, steps: int) -> float:
        """Take steps, and wait until they are done: seconds."""
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
        """The network as it is now, or the best one where that is kept, on the host."""
        synchronize_all_streams(self._device)
        if self.trainer.best is not None:
            return self.trainer.best.arrays
        return {name: to_host(array) for name, array in self.trainer.network.arrays.items()}


def first_gradient(task: Task, device: Device, engine: str) -> dict[str, np.ndarray]:
    """The gradient of the first step, by parameter, as Adam's first moment keeps it."""
    with TrainingSteps(task, device, engine) as steps:
        steps(1)
        synchronize_all_streams(device)
        state, share = steps.trainer.optimizer.state, 1 - task.training.beta1
        return {
            name: to_host(state[f"moment1.{name}"]) / share
            for name in steps.trainer.network.parameters
        }


def relative_error(found: dict[str, np.ndarray], reference: dict[str, np.ndarray]) -> float:
    """||found - reference|| / ||reference|| over all parameters; NaN if anything is."""
    pairs = [(found[name].astype(np.float64), reference[name]) for name in reference]
    difference = sum(float(np.sum((a - b) ** 2)) for a, b in pairs)
    return (difference / sum(float(np.sum(b**2)) for _, b in pairs)) ** 0.5


def fit_db(
    arrays: dict[str, np.ndarray], task: PictureTask, device: Device, samples: int | str = 1
) -> float:
    """How well a network fits the training pixels: PSNR in dB.

    Parameters
    ----------
    arrays : dict of name to ndarray
    task : PictureTask
    device : Device
    samples : int or "auto"
        Of each pixel. 1: the values at their centres; "auto": as the workflow measures it, means
        over pixels where those were taught.
    """
    record = {
        "precision": "float32",
        "footprint": task.training.supervision == "footprint",
    }
    model = Model(task.field, task.shape, task.mode, arrays, record)
    drawn = render(model, task.shape.width, task.shape.height, device=device, samples=samples)
    return psnr_db(drawn, task.values)


def lost_db(found_db: Sequence[float]) -> float:
    """How far the dB falls below its best so far, at the most, from the first look to the last."""
    return float(np.max(np.maximum.accumulate(found_db) - found_db))


def release_memory(device: Device) -> None:
    """Give freed memory back to the card, for other libraries."""
    synchronize_all_streams(device)
    if device.kind == "gpu":
        device.xp.get_default_memory_pool().free_all_blocks()
