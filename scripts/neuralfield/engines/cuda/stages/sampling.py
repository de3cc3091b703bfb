"""The stage of the cuda engine that samples a step's pixels and points."""

from types import ModuleType
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import Buffers
from neuralfield.engines.cuda.launch import Launch
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import TILE_ROWS, BatchPlan, NetworkPlan
from neuralfield.nn.blocks import Blocks
from neuralfield.system.device import Array, Device
from neuralfield.tasks.image.image_objective import ImageObjective

_THREADS = 128
_TILES = 2
"""Tiles per thread block."""

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
        cumulative = objective.batches.cumulative_density
        self.density: tuple[Array, ...] = ()
        if batch.weighted and cumulative is not None:
            self.density = cumulative, part_starts(xp, cumulative, batch.pixels)
        self._buffers = buffers  # kept alive, because a pass may only have their addresses
        unused = step
        weights = unused if buffers.weights is None else buffers.weights
        arguments = (
            *(step, *(self.density or (unused, unused)), self.values),
            *(buffers.inputs, buffers.targets, weights),
            np.uint64(objective.batches.random_seed),
        )
        constants = sampling_constants(objective, network, batch)
        kernel = compile_kernel("stages/sampling.cu", "sample", constants)
        self.launch = Launch(kernel, (-(-batch.tiles // _TILES),), arguments, _THREADS)

    def memory_report(self) -> dict[str, int]:
        batch = self._buffers.inputs, self._buffers.targets, self._buffers.weights
        return {
            "picture": self.values.nbytes,
            "density": sum(array.nbytes for array in self.density),
            "batch": sum(array.nbytes for array in batch if array is not None),
        }


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
    """Return the constants of ``blocks.cuh``."""
    assert blocks is not None, "an image's batches are given its sides"
    rows, sizes = blocks.rows, blocks.sizes
    slots = -(-blocks.count // rows)
    products = (blocks.count + 1) * rows, blocks.height * rows, blocks.width * slots, sizes[-1] ** 2
    return {
        "BLOCK_ROWS": rows,
        "BLOCK_SIZES": [f"{size}u" for size in sizes],
        "BLOCK_STRIDES": [f"{stride}u" for stride in blocks.strides],
        "BLOCK_NUMBER": f"unsigned {'int' if max(products) < 1 << 32 else 'long long'}",
    }
