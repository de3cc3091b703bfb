"""Forward and backward passes of several narrow networks in one kernel, with all gradients.

See `narrow_batch.cu`.
"""

from collections.abc import Sequence

from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.fused.narrow_pass import (
    LAUNCH_TILES,
    NarrowPass,
    fixed_bytes,
    kernel_constants,
    kernel_prelude,
    matrices_bytes,
    narrow_network,
)
from neuralfield.engines.cuda.fused.padded_network import (
    TILE_THREADS,
    PaddedNetwork,
    shared_limit_bytes,
)
from neuralfield.engines.cuda.launch import gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.cuda.stages.sampling import SamplingBatch
from neuralfield.engines.cuda.stages.update import PARTIAL_SUMS
from neuralfield.system.device import Device

_WORKERS, _REDUCERS, _MOST_REDUCER_SUMS = 3, 2, 32
"""Number of a block's warpgroups with a tile each, number of its warpgroups that add up gradients,
and maximum number of sums of a thread of the latter."""

_BATCH_TILE = 0.7
"""The time of a tile, by throughput, in the unit of `LAUNCH_TILES`."""


class NarrowBatch:
    """`NarrowPass` for several trainings in one launch, with the same sums as in separate launches.

    All networks have one shape, and so have all batches. The `PARTIAL_SUMS` partial sums of the
    gradients are written to the passes' own arrays.
    """

    def __init__(
        self, device: Device, passes: Sequence[NarrowPass], sampling: SamplingBatch
    ) -> None:
        alone = passes[0]
        shape = narrow_network(alone.network, _WORKERS)
        constants = kernel_constants(shape, alone.batch) | {
            "UNITS": alone.blocks,
            "UNIT_CHAINS": alone.block_tiles,
            "PARTIAL_SUMS": PARTIAL_SUMS,
            "EXCHANGE_BYTES": _exchange_bytes(shape, alone),
        }
        file, shared_bytes = "hopper/narrow_batch.cu", _batch_bytes(shape, alone)
        prelude = kernel_prelude(shape)
        kernel = compile_kernel(file, "narrow_batch", constants, prelude, shared_bytes)
        even = [each.arguments for each in passes]
        odd = [each.arguments_for(batch) for each, batch in zip(passes, sampling.odd, strict=True)]
        networks = device.xp.concatenate([*even, *odd])
        sums = min(PARTIAL_SUMS, alone.blocks)
        blocks = _network_blocks(sums, len(passes), gpu_limits(device)[0])
        grid, threads = (blocks, len(passes)), TILE_THREADS * (_WORKERS + _REDUCERS)
        arguments = networks, sampling.sampled_step
        self.launch = DependentLaunch(device, kernel, grid, threads, arguments, shared_bytes)

    @staticmethod
    def unsupported_reason(alone: NarrowPass) -> str | None:
        """Return why several networks of a pass cannot share a launch, or None if they can."""
        if alone.by_warps:
            return "products of warps"
        shape = narrow_network(alone.network, _WORKERS)
        if _reducer_sums(shape) > _MOST_REDUCER_SUMS:
            return "sums that do not fit in registers"
        if _batch_bytes(shape, alone) > shared_limit_bytes(90):
            return "buffers that do not fit in shared memory"
        return None

    @staticmethod
    def step_tiles(tiles: int, networks: int, processors: int) -> float:
        """Estimate the time of a step of `networks` networks; see `NarrowPass.step_tiles`."""
        blocks = _network_blocks(PARTIAL_SUMS, networks, processors)
        waves = -(-blocks * networks // processors)
        return LAUNCH_TILES + _BATCH_TILE * waves * tiles / blocks


def _network_blocks(sums: int, networks: int, processors: int) -> int:
    """Choose how many blocks each of `networks` networks gets: the smallest of the fastest counts.

    The time is that of the busiest multiprocessor for its partial sums, one after another.
    """

    def waves(blocks: int) -> int:
        return -(-blocks * networks // processors) * -(-sums // blocks)

    return min(range(1, sums + 1), key=waves)


def _reducer_sums(shape: PaddedNetwork) -> int:
    """Count the gradient sums of a thread of the reducer with more of them: see best_split of
    narrow_batch.cuh."""
    counts = [0] * len(shape.hidden)
    for index in shape.matrices:
        counts[index] = shape.widths[index] // 2
    splits = range(len(counts))
    return min(max(sum(counts[:split]), sum(counts[split:])) for split in splits)


def _exchange_bytes(shape: PaddedNetwork, alone: NarrowPass) -> int:
    """Return the size of the struct Exchange of narrow_batch.cuh."""
    units, channels = alone.blocks, shape.network.layers[-1].fan_out
    chains = min(-(-alone.batch.tiles // units), alone.block_tiles)
    weights_bytes = _REDUCERS * 4 * TILE_THREADS * _reducer_sums(shape) if chains > 1 else 0
    totals_bytes = (-(-units // PARTIAL_SUMS) * chains + _WORKERS) * 4 * (16 + 4 * channels)
    errors_bytes = _WORKERS * 32 * 4 * (2 + channels)
    barriers_bytes = _WORKERS * 8 * (len(shape.hidden) + _REDUCERS)
    return weights_bytes + totals_bytes + errors_bytes + barriers_bytes + 16


def _batch_bytes(shape: PaddedNetwork, alone: NarrowPass) -> int:
    """Return the shared memory of a block, in bytes."""
    buffers = len(shape.matrices) + 1 + len(shape.hidden)
    buffers_bytes = _WORKERS * buffers * shape.tile_bytes
    rest_bytes = fixed_bytes(shape) + _exchange_bytes(shape, alone)
    return matrices_bytes(shape) + buffers_bytes + rest_bytes
