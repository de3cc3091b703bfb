"""Forward and backward pass of one batch, with 16-bit matrix products.

Products are those of warpgroups on GPUs of compute capability 9.0, and those of warps on others. A
tile of 64 points stays in the registers of 128 threads through all layers, forwards and backwards,
while the weights are streamed through shared memory. See `wide_pass.cu`, `weight_gradients.cu`.
"""

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
    padded,
    shared_limit_bytes,
)
from neuralfield.engines.cuda.fused.waves import (
    TileRange,
    head_start,
    plan_waves,
    share_out,
    share_processors,
)
from neuralfield.engines.cuda.hopper.wgmma import wgmma_source
from neuralfield.engines.cuda.launch import compute_capability, gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import MIXED_GRADIENT_SCALE, TILE_ROWS, BatchPlan, NetworkPlan

_MOST_BYTES = 24 << 30
"""Maximum number of bytes of all layers' values and gradients, which are in memory at the same
time. The limit is the same on every GPU, because the result depends on the choice of the pass."""

_BLOCK_TILES = {64: 4, 128: 3, 256: 2}

_ALL_CHUNKS_BYTES = 1 << 30
_LARGE_STAGES = 4
"""Minimum number of stages of twice the size: products of warps use them if they fit in shared
memory, because the warps then wait less often."""

_LEAST_STAGES = 2
"""Minimum number of stages of the ring of weights: one is filled while the other is used."""


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

    name = "hopper"

    def __init__(self, given: PassArguments) -> None:
        self._processors, _ = gpu_limits(given.device)
        capability = compute_capability(given.device)
        self._shared_limit_bytes = shared_limit_bytes(capability)
        shape = _shape(given.network, self._shared_limit_bytes)
        assert shape is not None
        # with products of warps, the sums of gradients do not begin before the pass has ended
        tiles, leaves_room = given.batch.tiles, not self.by_warps
        self._waves = plan_waves(
            tiles, self._processors, shape.block_tiles, leaves_room=leaves_room
        )
        super().__init__(given, shape, self._waves.blocks, backward=True)
        self._counters = self._zeros(3, "uint32")
        self._set_up_pass()
        self._set_up_weight_gradients()

    @classmethod
    def _lacking(
        cls, network: NetworkPlan, batch: BatchPlan, compute_capability: int
    ) -> str | None:
        if network.encoding == "hashgrid":
            return "hash grids"
        shape = _shape(network, shared_limit_bytes(compute_capability))
        if shape is None:
            return "layers that do not fit on a multiprocessor"
        values = sum(shape.fan_in(index) + shape.widths[index] for index in shape.matrices)
        needed_bytes = 2 * batch.rows * values
        if needed_bytes > _MOST_BYTES:
            return f"a batch whose layers take {needed_bytes / 2**30:.0f} GiB"
        return None

    def _set_up_pass(self) -> None:
        batch, shape = self.batch, self._shape
        fixed_bytes, limit_bytes = _pass_fixed_bytes(shape), self._shared_limit_bytes
        stage_bytes = STAGE_BYTES
        if self.by_warps and fixed_bytes + _LARGE_STAGES * 2 * STAGE_BYTES < limit_bytes:
            stage_bytes = 2 * STAGE_BYTES
        stages, shared_bytes = shape.ring(
            fixed_bytes, limit_bytes, backward=True, stage_bytes=stage_bytes
        )
        constants = shape.constants(stages) | batch.constants()
        constants |= {"GRADIENT_SCALE": MIXED_GRADIENT_SCALE, "BY_FOURS": False}
        constants |= {"FULL_WAVES": self._waves.full, "LAST_BLOCKS": self._waves.last_blocks}
        constants |= {"WARP_PRODUCTS": self.by_warps, "STAGE_BYTES": stage_bytes}
        constants |= {"NEIGHBOURS": self._sharers if self._waves.blocks % 2 == 0 else 1}
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
        waves, jobs = self._waves, {index: self._jobs_of(index) for index in self._shape.matrices}
        shapes = sorted({job.shape for layer in jobs.values() for job in layer})
        shares = share_processors(
            [(len(layer), max(job.work for job in layer)) for layer in jobs.values()],
            waves,
            self._processors,
            overlaps=not self.by_warps,
        )
        table: list[np.ndarray] = []
        late: list[tuple[int, tuple[np.ndarray, ...]]] = []
        for (index, layer), (count, early) in zip(jobs.items(), shares, strict=True):
            parts = count * (2 if layer[0].alternates else 1)
            rows, columns = sum(job.rows for job in layer), layer[0].columns
            weight = self._zeros((parts, rows, columns))
            bias = self._zeros((parts, columns))
            self._parts_of[index] = weight, bias
            ahead = head_start(waves, self._processors, count, early)
            ranges = share_out(waves, count, early, ahead)
            structs = [self._structs(job, shapes.index(job.shape), ranges) for job in layer]
            # jobs that sum over the same tiles are neighbours
            of_shares = list(zip(*structs, strict=True))
            table += chain(*of_shares[:early])
            late += [(place - count, of_shares[place]) for place in range(early, count)]
        # blocks start in the order of the table, in which the late shares of all layers take turns
        late.sort(key=lambda placed: placed[0])
        table += chain(*(share for _, share in late))
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
            "FULL_COUNT": waves.blocks * waves.block_tiles,
            "LAST_COUNT": waves.last_blocks * waves.block_tiles,
            "WARP_PRODUCTS": self.by_warps,
        }
        file = f"{'warps' if self.by_warps else 'hopper'}/weight_gradients.cu"
        prelude = self._products({shape[1] for shape in shapes})
        kernel = compile_kernel(file, "weight_gradients", constants, prelude, shared_bytes)
        arguments = [self._upload(np.concatenate(table))]
        if not self.by_warps:
            arguments.append(self._counters)
        threads = 2 * TILE_THREADS + self._producer_threads
        self._launches.append(
            DependentLaunch(self._device, kernel, len(table), threads, arguments, shared_bytes)
        )

    @property
    def _sharers(self) -> int:
        """The number of neighbouring blocks that load the gradients of a tile together."""
        jobs = {len(self._jobs_of(index)) for index in self._shape.matrices}
        return 2 if jobs == {2} and not self.by_warps else 1

    @property
    def _producer_threads(self) -> int:
        """The number of threads of a block that only load data for the others."""
        return 0 if self.by_warps else TILE_THREADS

    def _products(self, columns: set[int]) -> str:
        """Write products with these numbers of columns, as text before a kernel's source."""
        return "" if self.by_warps else wgmma_source(columns)

    def _jobs_of(self, index: int) -> list[_WeightJob]:
        layer = self._shape.hidden[index]
        rows, columns = padded(layer.fan_in), padded(layer.fan_out)
        if rows <= 128:
            return [_WeightJob(index, 0, rows, columns, rows <= 64 and not self.by_warps)]
        half = padded(rows // 2)
        return [
            _WeightJob(index, 0, half, columns, False),
            _WeightJob(index, half, rows - half, columns, False),
        ]

    def _structs(
        self, job: _WeightJob, shape: int, shares: list[tuple[TileRange, TileRange]]
    ) -> list[np.ndarray]:
        """Return, for each share, the struct from which the kernel reads the job."""
        weight, bias = self._parts_of[job.layer]
        each = 2 if job.alternates else 1
        has_bias = self._shape.hidden[job.layer].has_bias
        has_bias = has_bias and (job.first_row == 0 or self._sharers > 1)
        structs = []
        for part, ranges in enumerate(shares):
            pointers = addresses(
                [
                    self._values[job.layer],
                    self._gradients[job.layer],
                    weight[part * each, job.first_row :],
                    bias[part * each] if has_bias else None,
                ]
            )
            numbers = [shape, weight.shape[1], job.first_row]
            for tiles in ranges:
                numbers += [tiles.newest, tiles.count, tiles.step]
            structs.append(pointers.view(np.uint8))
            structs.append(np.array([*numbers, 0], np.int32).view(np.uint8))
        return list(np.concatenate(structs).reshape(len(shares), -1))


class WarpWidePass(WidePass):
    """`WidePass` with products of warps, for GPUs of compute capability 8.0 and more."""

    name = "fused"
    by_warps = True


def _shape(network: NetworkPlan, limit_bytes: int) -> PaddedNetwork | None:
    """Describe a network for blocks with as many tiles as fit; return None if not even one fits."""
    for fewer in range(max(_BLOCK_TILES.values())):
        tiles = {widest: max(1, count - fewer) for widest, count in _BLOCK_TILES.items()}
        shape = PaddedNetwork(network, tiles)
        stages, shared_bytes = shape.ring(_pass_fixed_bytes(shape), limit_bytes, backward=True)
        chunks, _ = shape.ring(0, _ALL_CHUNKS_BYTES, backward=True)
        if stages >= min(chunks, _LEAST_STAGES) and shared_bytes <= limit_bytes:
            return shape
    return None


def _pass_fixed_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of a block of wide_pass.cu, except its ring of weights, in bytes."""
    hidden, channels = len(shape.hidden), shape.network.layers[-1].fan_out
    arguments = 8 * (11 + 2 * hidden) + 8 * (hidden + 1)
    tile = shape.tile_bytes + 4 * vector_count(shape) * shape.widest + 2 * 3 * 8 * 72
    tile += 4 * TILE_ROWS * channels + 4 * (16 + 4 * channels)
    return arguments + shape.constants_bytes + shape.block_tiles * tile + 256
