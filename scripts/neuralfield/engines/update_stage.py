"""The stage of the cuda engine that moves the parameters and counts the step."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from neuralfield.device import Array, Device
from neuralfield.engines.buffers import PartialGradient
from neuralfield.engines.problem import Problem
from neuralfield.kernels.source import compile_module
from neuralfield.optimizers import Adam, Optimizer, Sgd
from neuralfield.schedules import Schedule
from neuralfield.tensor import Tensor

_THREADS = 256
_WORK = np.dtype(
    [
        ("partials", np.uint64),
        ("forward", np.uint64),
        ("backward", np.uint64),
        ("parts", np.int32),
        ("part_stride", np.int32),
        ("row_stride", np.int32),
        ("columns", np.int32),
        ("first", np.int32),
        ("size", np.int32),
        ("parameter_offset", np.int32),
        ("is_vector", np.int32),
        ("scale", np.float32),
        ("copy_factor", np.float32),
    ],
    align=True,
)
"""The struct Work of update.cu."""


class UpdateStage:
    """Adds up partial gradients, moves the parameters, adds up the loss, and counts the step.

    Parameters
    ----------
    device : Device
    problem : Problem
        The optimizer's state is put into flat arrays here, of which it keeps views.
    parameters : array of float32, shape (n,)
        All parameters one after another.
    gradients : sequence of PartialGradient
        One for each parameter tensor, in order.
    loss_partials, totals : array of float64
        See `neuralfield.engines.buffers.Pass` and `neuralfield.engines.Engine`.
    step : array of int64, shape ()
        Steps finished so far, on the card.
    """

    def __init__(
        self,
        device: Device,
        problem: Problem,
        parameters: Array,
        gradients: Sequence[PartialGradient],
        loss_partials: Array,
        totals: Array,
        step: Array,
    ) -> None:
        xp, optimizer = device.xp, problem.optimizer
        tensors = problem.network.parameters
        self.moments = [
            flatten_arrays(device, [(optimizer.state, f"{prefix}.{name}") for name in tensors])
            for prefix in state_prefixes(optimizer)
        ]
        works = work_table(tensors, gradients)
        self._works = device.asarray(works.view(np.uint8))
        self._scalars = xp.zeros((2, 2), dtype=xp.float32)
        self._blocks_done = xp.zeros((), dtype=xp.uint32)
        self._step = step
        constants = update_constants(optimizer, problem.schedule) | {
            "BLOCKS": len(works),
            "LOSS_PARTS": loss_partials.shape[0],
        }
        module = compile_module("update.cu", constants)
        self._kernel = module.get_function("update")
        self._set_step = module.get_function("set_step")
        self._blocks = len(works) + 1
        # moments that an optimizer does not have are not looked at
        moment1, moment2 = (*self.moments, parameters, parameters)[:2]
        self._arguments = (
            self._works,
            parameters,
            moment1,
            moment2,
            loss_partials,
            totals,
            self._scalars,
            step,
            self._blocks_done,
        )

    def set_step(self, first_step: int) -> None:
        """Put on the current stream: the next step comes after `first_step` finished ones."""
        self._set_step((1,), (1,), (np.int64(first_step), self._step, self._scalars))

    def launch(self) -> None:
        """Put the stage on the current stream."""
        self._kernel((self._blocks,), (_THREADS,), self._arguments)


def flatten_arrays(device: Device, places: Sequence[tuple[dict[str, Array], str]]) -> Array:
    """Move arrays into one flat one, and leave views of it in their places.

    Parameters
    ----------
    device : Device
    places : sequence of (dict, key)

    Returns
    -------
    array of float32, shape (n,)
    """
    arrays = [mapping[key] for mapping, key in places]
    flat = device.xp.concatenate([array.ravel() for array in arrays])
    start = 0
    for (mapping, key), array in zip(places, arrays, strict=True):
        mapping[key] = flat[start : start + array.size].reshape(array.shape)
        start += array.size
    return flat


def state_prefixes(optimizer: Optimizer) -> tuple[str, ...]:
    """What an optimizer keeps for every parameter."""
    if isinstance(optimizer, Adam):
        return "moment1", "moment2"
    return ("velocity",) if optimizer.state else ()


def work_table(tensors: Mapping[str, Tensor], gradients: Sequence[PartialGradient]) -> np.ndarray:
    """What each block of the kernel has to do.

    Returns
    -------
    ndarray of a structured dtype, shape (blocks,)
    """
    rows: list[tuple[Any, ...]] = []
    parameter_offset = 0
    for tensor, gradient in zip(tensors.values(), gradients, strict=True):
        columns, size = tensor.shape[-1], tensor.data.size
        pointer = gradient.array.data.ptr + 4 * gradient.offset
        copy = gradient.copy
        copies = copy.addresses if copy else (0, 0)
        whole = -(-size // 4) * 4
        end = gradient.offset + (gradient.parts - 1) * gradient.part_stride + whole
        row_stride = gradient.row_stride
        if copy is None and row_stride == columns and end <= gradient.array.size:
            columns = row_stride = whole  # rows without gaps are one row
        strides = (columns, gradient.part_stride, row_stride)
        is_vector = pointer % 16 == 0 and all(stride % 4 == 0 for stride in strides)
        for first in range(0, size, 128 if is_vector else 32):
            rows.append(
                (
                    pointer,
                    *copies,
                    gradient.parts,
                    gradient.part_stride,
                    row_stride,
                    columns,
                    first,
                    size,
                    parameter_offset,
                    is_vector,
                    gradient.scale,
                    copy.factor if copy else 0.0,
                )
            )
        parameter_offset += size
    return np.array(rows, dtype=_WORK)


def update_constants(optimizer: Optimizer, schedule: Schedule) -> dict[str, int | float]:
    """What the kernel is compiled with, of the optimizer and the learning rate."""
    constants: dict[str, int | float] = {
        "COSINE": int(schedule.name == "cosine"),
        "LEARNING_RATE": float(schedule.learning_rate),
        "MINIMUM_LEARNING_RATE": float(schedule.minimum_learning_rate),
        "PERIOD": schedule.period,
        "WARMUP_STEPS": schedule.warmup_steps,
        "ADAM": int(isinstance(optimizer, Adam)),
    }
    if isinstance(optimizer, Adam):
        return constants | {
            "BETA1": float(optimizer.beta1),
            "BETA2": float(optimizer.beta2),
            "ONE_MINUS_BETA1": 1 - optimizer.beta1,
            "ONE_MINUS_BETA2": 1 - optimizer.beta2,
            "EPSILON": optimizer.epsilon,
            "HAS_MOMENTUM": 0,
        }
    assert isinstance(optimizer, Sgd)
    return constants | {
        "HAS_MOMENTUM": int(optimizer.momentum != 0),
        "MOMENTUM": float(optimizer.momentum),
    }
