"""Times steps of many small networks on a GPU: batched, and one after another, in one process.

    python benchmarks/batch_speed.py --device gpu

prints, for two kinds of batches on images of 128x128, the time of a step of one network alone, the
times of a step of all networks one after another and in one launch, and the lower bound of the time
of all. Before anything is timed, all networks are trained for some steps in both ways, and every
byte has to be the same.

The lower bound ("floor of all") is the larger of two times: the time of the multiply-adds at the
rate of a large 16-bit matrix product (see docs/gpu.md), and the time of the sines and cosines, two
for each value of a layer, at 16 per cycle and multiprocessor.
"""

from typing import Any

import numpy as np
from measuring.environment import describe, measure_ceilings
from measuring.measure import Effort, Timing, markdown_table, number_text, time_calls
from measuring.rows import StepRow, random_values, training_multiply_adds

from neuralfield.engines import EngineBatch
from neuralfield.fields import field_settings
from neuralfield.system.device import Device, select_device, to_host
from neuralfield.tasks.image.image_objective import ImageObjective
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.trainer import Trainer

EFFORT = Effort(sample_s=0.1, samples=7)
CHECKED_STEPS = 100
SINES_PER_CYCLE = 16
CASES: dict[str, dict[str, Any]] = {
    "2048 pixels of 4 points (the defaults)": {},
    "all pixels, a point each": {
        "batch_pixels": 0,
        "supervision": "point",
        "detail_share": 0.0,
    },
}


def main(networks: int, width: int, layers: int, size: int) -> int:
    """Print a row for each kind of batch; return 1 if bytes differ.

    Parameters
    ----------
    width, layers : int
        Width and hidden layers of each network, a siren.
    size : int
        Side of the images in pixels.
    """
    device = select_device("gpu")
    ceilings = measure_ceilings(device, EFFORT, quick=False, with_peers=False)
    field = {"type": "siren", "width": width, "hidden_layers": layers}
    lines, all_equal = [], True
    for name, settings in CASES.items():
        tasks = [_task(field, size, number, settings) for number in range(networks)]
        trainers, others = ([_trainer(task, device) for task in tasks] for _ in range(2))
        batch = EngineBatch(device, 1)
        is_equal = _gives_the_same_bytes(trainers, others, batch, device)
        all_equal &= is_equal
        alone = time_calls(_Steps(trainers[:1]), device, EFFORT)
        turns = time_calls(_Steps(trainers), device, EFFORT)
        together = time_calls(_Steps(trainers, batch), device, EFFORT)
        floor_s = _floor_s(trainers[0], field, networks, ceilings, device)
        lines.append(_line(name, is_equal, alone, turns, together, floor_s))
        batch.close()
        for trainer in (*trainers, *others):
            trainer.close()
    for name, value in describe(device).items():
        print(f"- {name}: {value}")
    print(f"- networks: {networks} of siren {layers}x{width}, on images of {size}x{size}\n")
    header = ["microseconds a step", "bytes", "one alone", "all in turns", "all in a batch"]
    print(markdown_table([*header, "floor of all", "times as fast"], lines))
    return 0 if all_equal else 1


class _Steps:
    """Steps of all trainers' engines, in a batch or one after another."""

    def __init__(self, trainers: list[Trainer], batch: EngineBatch | None = None) -> None:
        self._engines = [trainer.engine for trainer in trainers]
        self._batch, self._taken = batch, 0

    def __call__(self, steps: int) -> None:
        if self._batch:
            self._batch.run(self._engines, self._taken, steps, lambda *measured: None)
        else:
            for engine in self._engines:
                engine.run(self._taken, steps)
        self._taken += steps


def _task(field: dict[str, Any], size: int, number: int, settings: dict[str, Any]) -> ImageTask:
    training = ImageTraining(
        steps=10_000_000,
        random_seed=number,
        learning_rate=1e-4 * (1 + number % 8),
        **settings,
    )
    values = random_values(size, size, "rgb", number)
    return ImageTask(values, "rgb", field_settings(field), training)


def _trainer(task: ImageTask, device: Device) -> Trainer:
    return Trainer(task, device, "cuda", 1, note=print)


def _gives_the_same_bytes(
    trainers: list[Trainer], others: list[Trainer], batch: EngineBatch, device: Device
) -> bool:
    _Steps(trainers)(CHECKED_STEPS)
    _Steps(others, batch)(CHECKED_STEPS)
    device.synchronize()
    return all(
        to_host(a).tobytes() == to_host(b).tobytes()
        for one, other in zip(trainers, others, strict=True)
        for a, b in zip(_arrays(one), _arrays(other), strict=True)
    )


def _arrays(trainer: Trainer) -> list[Any]:
    state = trainer.optimizer.state.values()
    return [*trainer.network.arrays.values(), *state, trainer.engine.totals]


def _floor_s(
    trainer: Trainer,
    field: dict[str, Any],
    networks: int,
    ceilings: Any,
    device: Device,
) -> float:
    objective = trainer.objective
    assert isinstance(objective, ImageObjective)
    row = StepRow("", field, objective.batches.size, objective.points, "rgb")
    matrices_s = ceilings.floor_s(networks * training_multiply_adds(row), 0)
    properties = device.xp.cuda.runtime.getDeviceProperties(device.xp.cuda.Device().id)
    cycles_per_s = 1e3 * properties["clockRate"]
    values = sum(layer.fan_out for layer in trainer.network.layers[:-1])
    sines = 2 * networks * row.rows * values
    sines_s = sines / (SINES_PER_CYCLE * properties["multiProcessorCount"] * cycles_per_s)
    return float(np.maximum(matrices_s, sines_s))


def _line(
    name: str, is_equal: bool, alone: Timing, turns: Timing, together: Timing, floor_s: float
) -> list[str]:
    times = (alone.median_s, turns.median_s, together.median_s, floor_s)
    numbers = [number_text(1e6 * time) for time in times]
    ratio = number_text(turns.median_s / together.median_s)
    return [name, "the same" if is_equal else "DIFFERENT", *numbers, ratio]
