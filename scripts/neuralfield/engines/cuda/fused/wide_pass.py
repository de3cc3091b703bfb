"""Forward and backward pass of one batch, in two kernels, for networks of up to 256 values.

A tile of 64 points stays on a multiprocessor through all layers, forwards and backwards, while the
weights are streamed through shared memory. See `wide_pass.cu`, `weight_gradients.cu`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from neuralfield.engines.cuda.buffers import PassArguments
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.fused.fused_pass import FusedPass, vector_count
from neuralfield.engines.cuda.fused.padded_network import (
    STAGE_BYTES,
    TILE_THREADS,
    PaddedNetwork,
    addresses,
    fitting_network,
    padded,
    require_fused_kernels,
    shared_limit_bytes,
)
from neuralfield.engines.cuda.fused.wgmma import wgmma_source
from neuralfield.engines.cuda.launch import compute_capability, processor_count
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import (
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    NetworkPlan,
    no_kernels_for,
)

_MOST_BYTES = 24 << 30
"""Maximum number of bytes of all layers' values and gradients, which are in memory at the same
time. The limit is the same on every GPU, because the result depends on the choice of the pass."""

_BLOCK_TILES = {64: 4, 128: 3, 256: 2}

_LARGE_STAGES = 4
"""Minimum number of stages of twice the size: warps use them if they fit in shared memory, because
they then wait less often."""


@dataclass(frozen=True)
class _WeightJob:
    """Rows of a layer's matrix whose gradient one block sums over some tiles."""

    layer: int
    first_row: int
    rows: int
    columns: int
    alternates: bool

    @property
    def shape(self) -> tuple[int, int, bool]:
        return self.rows, self.columns, self.alternates

    @property
    def work(self) -> int:
        """The estimated work of the block for a tile, in arbitrary units."""
        return self.rows + self.columns + 128


class WidePass(FusedPass):
    """Forward pass, loss and backward pass of one batch, in mixed precision; see `Pass`."""

    name = "wide"

    def __init__(self, given: PassArguments) -> None:
        self._processors = processor_count(given.device)
        capability = compute_capability(given.device)
        self._shared_limit_bytes = shared_limit_bytes(capability)
        shape = _shape(given.network, self._shared_limit_bytes)
        blocks = min(self._processors, given.batch.tiles)
        super().__init__(given, shape, blocks, backward=True)
        self._full_waves, self._last_tiles = _last_wave(
            given.batch.tiles, blocks * shape.block_tiles
        )
        self._counters = self._zeros(3, "uint32")
        self._set_up_pass()
        self._set_up_weight_gradients()

    @classmethod
    def require_kernels(
        cls, network: NetworkPlan, batch: BatchPlan, precision: str, compute_capability: int
    ) -> None:
        require_fused_kernels(network, precision, compute_capability)
        if network.encoding == "hashgrid":
            raise no_kernels_for("hash grids")
        shape = _shape(network, shared_limit_bytes(compute_capability))
        values = sum(shape.fan_in(index) + shape.widths[index] for index in shape.matrices)
        needed_bytes = 2 * batch.rows * values
        if needed_bytes > _MOST_BYTES:
            raise no_kernels_for(f"a batch whose layers take {needed_bytes / 2**30:.0f} GiB")

    def _set_up_pass(self) -> None:
        batch, shape = self.batch, self._shape
        fixed_bytes, limit_bytes = _pass_fixed_bytes(shape), self._shared_limit_bytes
        stage_bytes = STAGE_BYTES
        if not self.wgmma and fixed_bytes + _LARGE_STAGES * 2 * STAGE_BYTES < limit_bytes:
            stage_bytes = 2 * STAGE_BYTES
        stages, shared_bytes = shape.ring(
            fixed_bytes, limit_bytes, backward=True, stage_bytes=stage_bytes
        )
        constants = shape.constants(stages, wgmma=self.wgmma, backward=True) | batch.constants()
        constants |= {"GRADIENT_SCALE": MIXED_GRADIENT_SCALE, "STAGE_BYTES": stage_bytes}
        constants |= {"FULL_WAVES": self._full_waves, "LAST_BLOCKS": self._last_blocks}
        products = {columns for _, columns in shape.stream_shapes(backward=True)}
        file, prelude = "fused/wide_pass.cu", self._products(products)
        kernel = compile_kernel(file, "wide_pass", constants, prelude, shared_bytes)

        self._values = [self._zeros(1, "float16")] * len(shape.hidden)
        self._gradients = list(self._values)
        for index in shape.matrices:
            self._values[index] = self._zeros(batch.rows * shape.fan_in(index), "float16")
            self._gradients[index] = self._zeros(batch.rows * shape.widths[index], "float16")
        sides = self.blocks, shape.block_tiles, len(shape.hidden), shape.widest // 16
        derivatives = self._zeros((*sides, TILE_THREADS, 4))
        pointers = [self._stream.array, *self._values, *self._gradients, derivatives]
        arguments = [self._arguments_of(pointers, [self._counters])]
        threads = TILE_THREADS * shape.block_tiles + self._producer_threads
        self._launches.append(
            DependentLaunch(self._device, kernel, self.blocks, threads, arguments, shared_bytes)
        )

    def _set_up_weight_gradients(self) -> None:
        """Distribute the matrices over the multiprocessors, in proportion to their work."""
        if not self._shape.matrices:
            return
        jobs = {index: self._jobs_of(index) for index in self._shape.matrices}
        shapes = sorted({job.shape for layer in jobs.values() for job in layer})
        works = [(len(layer), max(job.work for job in layer)) for layer in jobs.values()]
        shares = share_processors(works, self.batch.tiles, self._processors)
        placed: list[tuple[int, tuple[np.ndarray, ...]]] = []
        for (index, layer), count in zip(jobs.items(), shares, strict=True):
            parts = count * (2 if layer[0].alternates else 1)
            rows, columns = sum(job.rows for job in layer), layer[0].columns
            weight = self._zeros((parts, rows, columns))
            bias = self._zeros((parts, columns))
            self._parts_of[index] = weight, bias
            structs = [self._structs(job, shapes.index(job.shape), count) for job in layer]
            # jobs that sum over the same tiles are neighbours
            of_shares = zip(*structs, strict=True)
            placed += [(share - count, structs) for share, structs in enumerate(of_shares)]
        # blocks start in the order of the table, in which the shares of all layers take turns
        placed.sort(key=lambda share: share[0])
        table = list(chain(*(structs for _, structs in placed)))
        stage_bytes = max(2 * TILE_ROWS * (rows + columns) for rows, columns, _ in shapes)
        stages = min(8, (self._shared_limit_bytes - 2048) // (stage_bytes + 16))
        shared_bytes = stages * (stage_bytes + 16) + 1024
        constants = {
            "SHAPES": len(shapes),
            "SHAPE_ROWS": [shape[0] for shape in shapes],
            "SHAPE_COLUMNS": [shape[1] for shape in shapes],
            "SHAPE_ALTERNATES": [shape[2] for shape in shapes],
            "WEIGHT_STAGES": stages,
            "SHARERS": self._sharers,
            "FULL_COUNT": self.blocks * self._shape.block_tiles,
            "LAST_COUNT": self._last_blocks * self._shape.block_tiles,
            "WGMMA": self.wgmma,
        }
        file, prelude = "fused/weight_gradients.cu", self._products({s[1] for s in shapes})
        kernel = compile_kernel(file, "weight_gradients", constants, prelude, shared_bytes)
        arguments = [self._upload(np.concatenate(table)), self._counters]
        threads = 2 * TILE_THREADS + self._producer_threads
        self._launches.append(
            DependentLaunch(self._device, kernel, len(table), threads, arguments, shared_bytes)
        )

    @property
    def _last_blocks(self) -> int:
        """The number of blocks that have tiles in the last wave."""
        return min(self.blocks, self._last_tiles)

    @property
    def _sharers(self) -> int:
        """The number of neighbouring blocks that load the gradients of a tile together."""
        jobs = {len(self._jobs_of(index)) for index in self._shape.matrices}
        return 2 if jobs == {2} and self.wgmma else 1

    @property
    def _producer_threads(self) -> int:
        """The number of threads of a block that only load data for the others."""
        return TILE_THREADS if self.wgmma else 0

    def _products(self, columns: set[int]) -> str:
        """Write products with these numbers of columns, as text before a kernel's source."""
        return wgmma_source(columns) if self.wgmma else ""

    def _jobs_of(self, index: int) -> list[_WeightJob]:
        layer = self._shape.hidden[index]
        rows, columns = padded(layer.fan_in), padded(layer.fan_out)
        if rows <= 128:
            return [_WeightJob(index, 0, rows, columns, rows <= 64 and self.wgmma)]
        half = padded(rows // 2)
        return [
            _WeightJob(index, 0, half, columns, False),
            _WeightJob(index, half, rows - half, columns, False),
        ]

    def _structs(self, job: _WeightJob, shape: int, shares: int) -> list[np.ndarray]:
        """Return, for each share of the tiles, the struct from which the kernel reads the job."""
        weight, bias = self._parts_of[job.layer]
        each, tiles = 2 if job.alternates else 1, self.batch.tiles
        full_tiles = tiles - self._last_tiles
        has_bias = self._shape.hidden[job.layer].has_bias
        has_bias = has_bias and (job.first_row == 0 or self._sharers > 1)
        structs = []
        for share in range(shares):
            pointers = addresses(
                [
                    self._values[job.layer],
                    self._gradients[job.layer],
                    weight[share * each, job.first_row :],
                    bias[share * each] if has_bias else None,
                ]
            )
            numbers = [shape, weight.shape[1], job.first_row]
            for first, end in ((0, full_tiles), (full_tiles, tiles)):
                newest = end - 1 - share
                numbers += [newest, max(0, (newest - first) // shares + 1), shares]
            numbers.append(0)  # alignment
            parts = pointers.view(np.uint8), np.array(numbers, np.int32).view(np.uint8)
            structs.append(np.concatenate(parts))
        return structs


def _last_wave(tiles: int, wave_tiles: int) -> tuple[int, int]:
    """Count the full waves of tiles before the last wave, and the tiles of the last one."""
    full_waves = (tiles - 1) // wave_tiles
    return full_waves, tiles - full_waves * wave_tiles


def share_processors(works: Sequence[tuple[int, int]], tiles: int, processors: int) -> list[int]:
    """Divide the sums over all tiles into as many shares as the multiprocessors can take at once.

    `works` has, for each layer, the number of blocks that work on a share of the tiles, and the
    work of a block for a tile. The result has the number of each layer's shares.
    """
    shares = [1] * len(works)
    left = processors - sum(blocks for blocks, _ in works)
    while fitting := [
        i for i, (blocks, _) in enumerate(works) if blocks <= left and shares[i] < tiles
    ]:
        slowest = max(fitting, key=lambda i: works[i][1] / shares[i])
        shares[slowest] += 1
        left -= works[slowest][0]
    return shares


def _shape(network: NetworkPlan, limit_bytes: int) -> PaddedNetwork:
    return fitting_network(network, _BLOCK_TILES, _pass_fixed_bytes, limit_bytes, backward=True)


def _pass_fixed_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of a block of wide_pass.cu, except its ring of weights, in bytes."""
    hidden, channels = len(shape.hidden), shape.network.layers[-1].fan_out
    arguments = 8 * (11 + 2 * hidden) + 8 * (hidden + 1)
    tile = shape.tile_bytes + 4 * vector_count(shape) * shape.widest + 2 * 3 * 8 * 72
    tile += 4 * TILE_ROWS * channels + 4 * (16 + 4 * channels)
    return arguments + shape.constants_bytes + shape.block_tiles * tile + 256
