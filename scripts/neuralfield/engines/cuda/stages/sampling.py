"""The stage of the cuda engine that samples a step's pixels and points."""

from collections.abc import Sequence
from types import ModuleType
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import Buffers, network_table
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.launch import Launch
from neuralfield.engines.cuda.source import compile_kernel, compile_module
from neuralfield.engines.kernel_plan import TILE_ROWS, BatchPlan, NetworkPlan
from neuralfield.nn.blocks import Blocks
from neuralfield.system.device import Array, Device
from neuralfield.tasks.image.image_objective import ImageObjective

_THREADS = 128
_TILES, _BATCH_TILES = 2, 8
"""Tiles per thread block, for one training and for several, in which case a block waits for the
loads of all its pixels at once."""

_SAMPLINGS = ("ALL_IN_ORDER", "ONE_OF_EACH_BLOCK", "BY_DENSITY")


class SamplingStage:
    """Fills inputs, targets and weights for the step whose number is in the GPU's memory."""

    def __init__(
        self,
        device: Device,
        objective: ImageObjective,
        network: NetworkPlan,
        batch: BatchPlan,
        buffers: Buffers,
        step: Array,
    ) -> None:
        xp = device.xp
        self.values = xp.ascontiguousarray(device.asarray(objective.values))
        self.is_constant = not batch.footprint and objective.batches.is_everything
        """Whether every step's batch is the same, so that the stage has to run only once."""
        self.constants = sampling_constants(objective, network, batch)
        self.tiles = batch.tiles
        cumulative = objective.batches.cumulative_density
        self.density: tuple[Array, ...] = ()
        if batch.weighted and cumulative is not None:
            self.density = cumulative, part_starts(xp, cumulative, batch.pixels)
        self._buffers = buffers  # kept alive, because a pass may only have their addresses
        unused = step
        self.source = (step, *(self.density or (unused, unused)), self.values)
        weights = unused if buffers.weights is None else buffers.weights
        self.batch = (buffers.inputs, buffers.targets, weights)
        self.seed = np.uint64(objective.batches.random_seed)
        kernel = compile_kernel("stages/sampling.cu", "sample", self.constants)
        arguments = (*self.source, *self.batch, self.seed)
        self.launch = Launch(kernel, (-(-batch.tiles // _TILES),), arguments, _THREADS)

    def memory_report(self) -> dict[str, int]:
        batch = self._buffers.inputs, self._buffers.targets, self._buffers.weights
        return {
            "picture": self.values.nbytes,
            "density": sum(array.nbytes for array in self.density),
            "batch": sum(array.nbytes for array in batch if array is not None),
        }


class SamplingBatch:
    """`SamplingStage` for several trainings in one launch, each with its own image and seed.

    It samples for a step while the pass of the previous step runs, into one of two batches in turn.
    All stages have the same constants and are at the same step. `odd` has, for each stage, the
    inputs, targets and weights of steps with odd numbers; steps with even numbers use the stage's
    own arrays, as do all steps if every step's batch is the same. `sampled_step` is the step of the
    latest samples.
    """

    def __init__(self, device: Device, stages: Sequence[SamplingStage]) -> None:
        first = stages[0]
        self.sampled_step = device.xp.zeros((), dtype="int64")
        self.odd = [
            stage.batch if stage.is_constant else tuple(map(device.xp.zeros_like, stage.batch))
            for stage in stages
        ]
        networks = network_table(
            device,
            [
                (*stage.source, *stage.batch, *odd, stage.seed)
                for stage, odd in zip(stages, self.odd, strict=True)
            ],
        )
        constants = first.constants | {"TILES_PER_BLOCK": _BATCH_TILES}
        module = compile_module("stages/sampling_batch.cu", constants)
        grid = -(-first.tiles // _BATCH_TILES), len(stages)
        self._arguments, self._grid = (networks, self.sampled_step), grid
        self._first = module.get_function("sample_first")
        kernel = module.get_function("sample_next")
        self.launch = DependentLaunch(device, kernel, grid, _THREADS, self._arguments)
        """Samples for the step after the one whose pass is on the current stream."""

    def launch_first(self, first_step: int) -> None:
        """Sample for the step after `first_step` finished ones, while no step is running."""
        self._first(self._grid, (_THREADS,), (np.int64(first_step), *self._arguments))


def part_starts(xp: ModuleType, cumulative: Array, parts: int) -> Array:
    """Find the indices at which equal parts of a density begin, int32 of shape (parts + 1,), so
    that a sample of one part is searched only within it.
    """
    return xp.searchsorted(cumulative, xp.arange(parts + 1) / parts, side="right").astype("int32")


def sampling_constants(
    objective: ImageObjective, network: NetworkPlan, batch: BatchPlan
) -> dict[str, Any]:
    """Return the kernel's constants."""
    batches, shape = objective.batches, objective.shape
    sampling, of_blocks = "ALL_IN_ORDER", {}
    if batch.weighted:
        sampling = "BY_DENSITY"
    elif not batches.is_everything:
        sampling, of_blocks = "ONE_OF_EACH_BLOCK", block_constants(batches.blocks)
    return batch.constants() | {
        "ENCODING": network.constants()["ENCODING"],
        "WIDTH": shape.width,
        "HEIGHT": shape.height,
        **{name: number for number, name in enumerate(_SAMPLINGS)},
        "SAMPLING": _SAMPLINGS.index(sampling),
        **of_blocks,
        "TILE_ROWS": TILE_ROWS,
        "TILES_PER_BLOCK": _TILES,
        "THREADS": _THREADS,
    }


def block_constants(blocks: Blocks | None) -> dict[str, Any]:
    """Return the constants of ``blocks.cuh``; they are hashable, see `BatchKind`."""
    assert blocks is not None, "an image's batches are given its sides"
    rows, sizes = blocks.rows, blocks.sizes
    slots = -(-blocks.count // rows)
    products = (blocks.count + 1) * rows, blocks.height * rows, blocks.width * slots, sizes[-1] ** 2
    return {
        "BLOCK_ROWS": rows,
        "BLOCK_SIZES": tuple(f"{size}u" for size in sizes),
        "BLOCK_STRIDES": tuple(f"{stride}u" for stride in blocks.strides),
        "BLOCK_NUMBER": f"unsigned {'int' if max(products) < 1 << 32 else 'long long'}",
    }
