"""Several batches of narrow networks in one kernel, forwards and backwards, with all gradients.

See `narrow_batch.cu`.
"""

from collections.abc import Sequence
from pathlib import Path

from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.hopper.narrow_network import (
    fixed_bytes,
    kernel_constants,
    kernel_prelude,
    matrices_bytes,
    narrow_network,
)
from neuralfield.engines.cuda.hopper.narrow_pass import LAUNCH_TILES, HopperNarrowPass
from neuralfield.engines.cuda.hopper.padded_network import (
    SHARED_LIMIT_BYTES,
    TILE_THREADS,
    HopperNetwork,
)
from neuralfield.engines.cuda.launch import gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.cuda.stages.sampling import SamplingBatch
from neuralfield.engines.cuda.stages.update import STRANDS
from neuralfield.system.device import Device

_WORKERS, _SUMMERS, _MOST_SUMMER_SUMS = 3, 2, 32
"""A block's warpgroups with a tile each, its warpgroups that add up gradients, and the most sums of
a thread of these."""

_STRAND_TILE = 0.7
"""The time of a strand's tile, by throughput, in the unit of `LAUNCH_TILES`."""


class HopperNarrowBatch:
    """`HopperNarrowPass` for several trainings in one launch, with the sums that each has alone.

    The networks and batches have one shape. Parts of the gradients are as `stages.update.STRANDS`
    has them, in the passes' own arrays.
    """

    def __init__(
        self, device: Device, passes: Sequence[HopperNarrowPass], sampling: SamplingBatch
    ) -> None:
        alone = passes[0]
        shape = narrow_network(alone.network, _WORKERS)
        constants = kernel_constants(shape, alone.batch) | {
            "UNITS": alone.blocks,
            "UNIT_CHAINS": alone.block_tiles,
            "STRANDS": STRANDS,
            "EXCHANGE_BYTES": _exchange_bytes(shape, alone),
        }
        path, shared_bytes = Path(__file__).with_name("narrow_batch.cu"), _batch_bytes(shape, alone)
        prelude = kernel_prelude(shape)
        kernel = compile_kernel(path, "hopper_narrow_batch", constants, prelude, shared_bytes)
        even = [each.arguments for each in passes]
        odd = [each.arguments_for(batch) for each, batch in zip(passes, sampling.odd, strict=True)]
        networks = device.xp.concatenate([*even, *odd])
        strands = min(STRANDS, alone.blocks)
        blocks = _network_blocks(strands, len(passes), gpu_limits(device)[0])
        grid, threads = (blocks, len(passes)), TILE_THREADS * (_WORKERS + _SUMMERS)
        arguments = networks, sampling.sampled_step
        self._pass = DependentLaunch(device, kernel, grid, threads, arguments, shared_bytes)

    @staticmethod
    def unsupported_reason(alone: HopperNarrowPass) -> str | None:
        """Say why several networks of a pass cannot go in one launch, or return None."""
        if alone.by_warps:
            return "products of warps"
        shape = narrow_network(alone.network, _WORKERS)
        if _summer_sums(shape) > _MOST_SUMMER_SUMS:
            return "sums that have no room in registers"
        if _batch_bytes(shape, alone) > SHARED_LIMIT_BYTES:
            return "tables that have no room in shared memory"
        return None

    @staticmethod
    def step_tiles(tiles: int, networks: int, processors: int) -> float:
        """Estimate the time of a step of so many networks; see `HopperNarrowPass.step_tiles`."""
        blocks = _network_blocks(STRANDS, networks, processors)
        rounds = -(-blocks * networks // processors)
        return LAUNCH_TILES + _STRAND_TILE * rounds * tiles / blocks

    def launch(self) -> None:
        self._pass()


def _network_blocks(strands: int, networks: int, processors: int) -> int:
    """Choose how many blocks each of so many networks gets: the smallest count that is not slower.

    The time is what the busiest multiprocessor takes for its strands, one after another.
    """

    def rounds(blocks: int) -> int:
        return -(-blocks * networks // processors) * -(-strands // blocks)

    return min(range(1, strands + 1), key=rounds)


def _summer_sums(shape: HopperNetwork) -> int:
    """Count the sums of gradients of a thread, of the summer with more of them: see best_split of
    strands.cuh."""
    counts = [0] * len(shape.hidden)
    for index in shape.matrices:
        counts[index] = shape.widths[index] // 2
    splits = range(len(counts))
    return min(max(sum(counts[:split]), sum(counts[split:])) for split in splits)


def _exchange_bytes(shape: HopperNetwork, alone: HopperNarrowPass) -> int:
    """Return the size of the struct Exchange of strands.cuh."""
    units, channels = alone.blocks, shape.network.layers[-1].fan_out
    chains = min(-(-alone.batch.tiles // units), alone.block_tiles)
    weights_bytes = _SUMMERS * 4 * TILE_THREADS * _summer_sums(shape) if chains > 1 else 0
    totals_bytes = (-(-units // STRANDS) * chains + _WORKERS) * 4 * (16 + 4 * channels)
    errors_bytes = _WORKERS * 32 * 4 * (2 + channels)
    barriers_bytes = _WORKERS * 8 * (len(shape.hidden) + _SUMMERS)
    return weights_bytes + totals_bytes + errors_bytes + barriers_bytes + 16


def _batch_bytes(shape: HopperNetwork, alone: HopperNarrowPass) -> int:
    """Count the shared memory of a block that works on strands."""
    tables = len(shape.matrices) + 1 + len(shape.hidden)
    tables_bytes = _WORKERS * tables * shape.tile_bytes
    rest_bytes = fixed_bytes(shape) + _exchange_bytes(shape, alone)
    return matrices_bytes(shape) + tables_bytes + rest_bytes
