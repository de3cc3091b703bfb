"""The stage of the cuda engine that updates the parameters and counts the step."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import PartialGradient, Pass, WeightCopy
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.cuda.stages.muon import HiddenMatrix, MuonStage, largest_bytes
from neuralfield.engines.flat_arrays import flatten_moments
from neuralfield.engines.kernel_plan import SCHEDULES
from neuralfield.nn.optimizers import (
    Adam,
    ClippedGradients,
    Muon,
    Optimizer,
    Sgd,
    unclipped,
)
from neuralfield.nn.schedules import Schedule
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.tasks.task import Objective

_WORK = np.dtype(
    [
        *((name, "u8") for name in ("partials", "direction", "forward", "backward")),
        *((name, "i4") for name in ("parts", "part_stride", "row_stride", "columns")),
        *((name, "i4") for name in ("first", "size", "parameter_offset", "moment2_offset")),
        *((name, "i4") for name in ("elements", "is_vector")),
        *((name, "f4") for name in ("scale", "copy_factor")),
    ],
    align=True,
)
"""The struct Work of update.cu."""

_ELEMENTS, _ELEMENTS_OF_ONE = 128, 1024
"""Number of elements of a thread block of the kernel, and of one whose elements have a single part.
"""

_SCHEDULE = np.dtype(
    [
        *((name, "f8") for name in ("learning_rate", "minimum_learning_rate")),
        *((name, "i8") for name in ("period", "warmup_steps", "kind")),
    ]
)
"""The struct Schedule of update.cu."""


class UpdateStage:
    """Adds up partial gradients, updates the parameters, adds up the loss, and counts the step.

    The optimizer's state becomes views of flat arrays. Partial gradients and losses are those of
    `own_pass`. Muon's products have the given precision. Each step adds its loss and error to
    `totals`, float64.
    """

    def __init__(
        self,
        device: Device,
        objective: Objective,
        parameters: Array,
        own_pass: Pass,
        step: Array,
        precision: str,
    ) -> None:
        xp, optimizer = device.xp, objective.optimizer
        tensors, gradients = objective.network.parameters, own_pass.partial_gradients()
        loss_partials = own_pass.loss_partials
        self.totals = xp.zeros(2)
        self._moments = flatten_moments(device, optimizer, objective.network)
        directions = {
            name: xp.zeros_like(tensors[name].data) for name in hidden_matrices(optimizer, tensors)
        }
        is_clipped = isinstance(optimizer, ClippedGradients)
        works = work_table(tensors, gradients, directions, wide=not is_clipped)
        works_on_gpu = device.asarray(works.view(np.uint8))
        schedule = device.asarray(schedule_struct(objective.schedule).view(np.uint8))
        scalars = xp.zeros((2, 3), dtype=xp.float32)
        blocks_done = xp.zeros((), dtype=xp.uint32)
        self._step_arguments = step, scalars, schedule
        constants = update_constants(optimizer) | {
            "BLOCKS": len(works),
            "LOSS_PARTS": loss_partials.shape[0],
        }
        module = compile_module("stages/update.cu", constants)
        self._set_step = module.get_function("set_step")
        self._working = list(directions.values())
        # the kernel ignores moments that the optimizer does not have
        moment1, moment2 = (*self._moments, parameters, parameters)[:2]
        summed = clip_factor = direction_squares = parameters
        self._launches: list[Callable[[], None]] = []
        muon: MuonStage | None = None
        if is_clipped:
            summed, clip_factor = xp.zeros_like(parameters), xp.zeros((), dtype=xp.float32)
            summing = (works_on_gpu, summed, xp.zeros(len(works)), clip_factor, blocks_done)
            kernel = module.get_function("sum_gradients")
            self._launches.append(Launch(kernel, (len(works),), summing))
            self._working.append(summed)
        if directions:
            direction_squares = xp.zeros(len(works), dtype=xp.float32)
            copies = dict(zip(tensors, (gradient.copy for gradient in gradients), strict=True))
            matrices = [
                _hidden_matrix(parameters, works, direction, direction_squares, copies[name])
                for name, direction in directions.items()
            ]
            muon = MuonStage(device, matrices, scalars, step, precision)
            self._working += muon.arrays
        arguments = (
            *(works_on_gpu, parameters, moment1, moment2, loss_partials, self.totals),
            *(scalars, schedule, step, blocks_done, summed, clip_factor, direction_squares),
        )
        kernel = module.get_function("update")
        blocks = len(works) + 1
        self._launches.append(DependentLaunch(device, kernel, blocks, THREADS, arguments))
        if muon:
            self._launches.append(muon.launch)

    @property
    def memory_bytes(self) -> int:
        """The bytes of the optimizer's state and of its working arrays."""
        return sum(array.nbytes for array in (*self._moments, *self._working))

    def set_step(self, first_step: int) -> None:
        """Set the number of finished steps to `first_step`, on the current stream."""
        self._set_step((1,), (1,), (np.int64(first_step), *self._step_arguments))

    def launch(self) -> None:
        for launch in self._launches:
            launch()


def hidden_matrices(optimizer: Optimizer, names: Iterable[str]) -> list[str]:
    """List the parameters whose directions Muon orthogonalises; none for other optimizers."""
    optimizer = unclipped(optimizer)
    hidden = optimizer.hidden_matrices if isinstance(optimizer, Muon) else ()
    return [name for name in names if name in hidden]


def working_bytes(optimizer: Optimizer, tensors: Mapping[str, Tensor]) -> int:
    """Return an upper bound on the bytes of the stage, without the optimizer's state."""
    summed = 4 * sum(tensor.data.size for tensor in tensors.values())
    shapes = [tensors[name].shape for name in hidden_matrices(optimizer, tensors)]
    clipped = isinstance(optimizer, ClippedGradients)
    return largest_bytes([(s[0], s[1]) for s in shapes]) + clipped * summed


def work_table(
    tensors: Mapping[str, Tensor],
    gradients: Sequence[PartialGradient],
    directions: Mapping[str, Array],
    *,
    wide: bool = False,
) -> np.ndarray:
    """Make the table of the work of each block of the kernel, from one gradient for each tensor.

    `directions` are those of the hidden matrices of Muon, which the kernel does not update. If
    `wide`, blocks whose elements have a single part have more of them. Blocks with the most parts
    come first, because they take longest.
    """
    rows: list[tuple[Any, ...]] = []
    parameter_offset = moment2_offset = 0
    for (name, tensor), gradient in zip(tensors.items(), gradients, strict=True):
        columns, size = gradient.columns or tensor.shape[-1], tensor.data.size
        pointer = gradient.array.data.ptr + 4 * gradient.offset
        is_hidden = name in directions
        direction = directions[name].data.ptr if is_hidden else 0
        copy = None if is_hidden else gradient.copy
        copies = copy.addresses if copy else (0, 0)
        whole = -(-size // 4) * 4
        end = gradient.offset + (gradient.parts - 1) * gradient.part_stride + whole
        row_stride = gradient.row_stride
        if copy is None and row_stride == columns and end <= gradient.array.size:
            columns = row_stride = whole  # rows without gaps are one row
        strides = (columns, gradient.part_stride, row_stride)
        is_vector = pointer % 16 == 0 and all(stride % 4 == 0 for stride in strides)
        is_one = wide and is_vector and gradient.parts == 1 and columns == whole and not is_hidden
        elements = _ELEMENTS_OF_ONE if is_one else _ELEMENTS
        parts = (gradient.parts, gradient.part_stride, row_stride, columns)
        place = (size, parameter_offset, moment2_offset, elements, is_vector)
        factors = (gradient.scale, copy.factor if copy else 0.0)
        for first in range(0, size, elements):
            rows.append((pointer, direction, *copies, *parts, first, *place, *factors))
        parameter_offset += size
        moment2_offset += 0 if is_hidden else size
    table = np.array(rows, dtype=_WORK)
    return table[np.argsort(-table["parts"], kind="stable")]


def schedule_struct(schedule: Schedule) -> np.ndarray:
    """Make the struct from which the kernel computes the learning rate of every step."""
    rates = schedule.learning_rate, schedule.minimum_learning_rate
    kind = SCHEDULES.index(schedule.name)
    return np.array([(*rates, schedule.period, schedule.warmup_steps, kind)], _SCHEDULE)


def update_constants(optimizer: Optimizer) -> dict[str, int | float]:
    """Return the kernel's constants for an optimizer."""
    clip_norm = optimizer.limit if isinstance(optimizer, ClippedGradients) else None
    optimizer = unclipped(optimizer)
    muon = optimizer if isinstance(optimizer, Muon) else None
    optimizer = muon.adam if muon else optimizer
    constants: dict[str, int | float] = {
        "ADAM": int(isinstance(optimizer, Adam)),
        "CLIPPED": int(clip_norm is not None),
        "MUON": int(muon is not None),
    }
    if clip_norm is not None:
        constants["CLIP_NORM"] = float(clip_norm)
    if muon:
        constants["MUON_MOMENTUM"] = muon.momentum
        constants["ONE_MINUS_MUON_MOMENTUM"] = 1 - muon.momentum
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


def _hidden_matrix(
    parameters: Array, works: np.ndarray, direction: Array, squares: Array, copy: WeightCopy | None
) -> HiddenMatrix:
    """Describe the results of one direction's blocks; `squares` has a number for each block."""
    blocks = np.flatnonzero(works["direction"] == direction.data.ptr)
    weight = parameters[works["parameter_offset"][blocks[0]] :]
    return HiddenMatrix(weight, direction, squares[blocks[0] : blocks[-1] + 1], copy)
