"""One batch forwards and backwards on cards of compute capability 9.0, in 16-bit products.

A tile of 64 points stays in the registers of a warpgroup through all layers, forwards and back;
weights stream past in shared memory. See `wide_pass.cu`, `weight_gradients.cu`.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import Buffers, PartialGradient
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.hopper.gradients import (
    VectorGradients,
    partial_gradients,
    vector_count,
)
from neuralfield.engines.cuda.hopper.padded_network import (
    TILE_THREADS,
    HopperNetwork,
    WeightStream,
    addresses,
    listed,
    padded,
    parameter_offsets,
    reason_against,
)
from neuralfield.engines.cuda.hopper.rounds import (
    SUMMED_IN_A_ROUND,
    TileRange,
    plan_rounds,
    share_out,
    share_processors,
)
from neuralfield.engines.cuda.hopper.wgmma import wgmma_source
from neuralfield.engines.cuda.launch import card_limits
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.plan import (
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    LayerPlan,
    NetworkPlan,
)
from neuralfield.system.device import Array, Device

_MOST_BYTES = 24 << 30
"""Of all layers' values and slopes, which lie in memory at once; a fixed number, for which pass is
taken decides the result."""

_BLOCK_TILES = {64: 4, 128: 3, 256: 2}


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
        """Of a tile, about."""
        return self.rows + self.columns + 128


class HopperPass:
    """Forward, loss and backward for one batch; see `neuralfield.engines.cuda.buffers.Pass`.

    Parameters
    ----------
    device : Device
    network : NetworkPlan
    batch : BatchPlan
    buffers : Buffers
    precision : {"mixed"}
    """

    name = "hopper"

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        batch: BatchPlan,
        buffers: Buffers,
        precision: str,
    ) -> None:
        self.network, self.batch, self._xp = network, batch, device.xp
        self._device = device
        self._allocated: list[Array] = []
        self._launches: list[DependentLaunch] = []
        self._shape = HopperNetwork(network, _BLOCK_TILES)
        self._hidden, self._matrices = self._shape.hidden, self._shape.matrices
        self._processors, self._shared_limit_bytes = card_limits(device)
        self._stream = WeightStream(
            device, self._shape, buffers.parameters, buffers.offsets, backward=True
        )
        self._allocated.append(self._stream.array)
        self._rounds = plan_rounds(batch.tiles, self._processors, self._shape.block_tiles)
        self._counters = self._zeros(3, "uint32")
        self._set_up_pass(buffers)
        self._set_up_weight_gradients()

    @staticmethod
    def reason_against(
        network: NetworkPlan, batch: BatchPlan, precision: str, compute_capability: int
    ) -> str | None:
        """Why this pass cannot do it; None: it can."""
        if batch.points > TILE_ROWS:
            return f"{batch.points} points a pixel, more than {TILE_ROWS}"
        reason = reason_against(network, precision, compute_capability)
        if reason is not None:
            return reason
        if network.encoding == "hashgrid":
            return "hash grids"
        shape = HopperNetwork(network, _BLOCK_TILES)
        values = sum(shape.fan_in(index) + shape.widths[index] for index in shape.matrices)
        needed_bytes = 2 * batch.rows * values
        if needed_bytes > _MOST_BYTES:
            return f"a batch whose layers take {needed_bytes / 2**30:.0f} GiB"
        return None

    @property
    def memory_bytes(self) -> int:
        """What it has allocated."""
        return sum(array.nbytes for array in self._allocated)

    def partial_gradients(self) -> list[PartialGradient]:
        """One for each parameter tensor, in order."""
        return partial_gradients(self._shape, self.batch, self._vectors, self._matrix_gradient)

    def prepare(self) -> None:
        """Pack the weights, which the update does from then on."""
        self._stream.launch()

    def launch(self) -> None:
        """Put the pass on the current stream."""
        for launch in self._launches:
            launch()

    def _zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        self._allocated.append(self._xp.zeros(shape, dtype=dtype))
        return self._allocated[-1]

    def _upload(self, table: np.ndarray) -> Array:
        self._allocated.append(self._xp.asarray(table.view(np.uint8).reshape(-1)))
        return self._allocated[-1]

    def _set_up_pass(self, buffers: Buffers) -> None:
        network, batch, shape = self.network, self.batch, self._shape
        stages, shared_bytes = shape.ring(
            _pass_fixed_bytes(shape), self._shared_limit_bytes, backward=True
        )
        constants = shape.constants(stages) | batch.constants()
        constants |= {"GRADIENT_SCALE": MIXED_GRADIENT_SCALE, "BY_FOURS": False}
        constants |= {"FULL_ROUNDS": self._rounds.full, "LAST_BLOCKS": self._rounds.last_blocks}
        products = {columns for _, columns in shape.stream_shapes(backward=True)}
        module = compile_module(
            Path(__file__).with_name("wide_pass.cu"), constants, wgmma_source(products)
        )
        kernel = module.get_function("hopper_pass")
        kernel.max_dynamic_shared_size_bytes = shared_bytes

        self._blocks = self._rounds.blocks
        self._values = [self._zeros(1, "float16")] * len(shape.hidden)
        self._slopes = list(self._values)
        for index in self._matrices:
            self._values[index] = self._zeros(batch.rows * shape.fan_in(index), "float16")
            self._slopes[index] = self._zeros(batch.rows * shape.widths[index], "float16")
        derivatives = self._zeros(
            self._blocks
            * shape.block_tiles
            * len(shape.hidden)
            * (shape.widest // 16)
            * TILE_THREADS
            * 4,
            "float32",
        )
        self._vectors = VectorGradients(shape, self._blocks, self._zeros)
        self.loss_partials = self._zeros((self._blocks, 2), "float64")
        pointers = [
            buffers.inputs,
            buffers.targets,
            buffers.weights,
            buffers.parameters,
            buffers.frequencies,
            self._stream.array,
            *self._values,
            *self._slopes,
            derivatives,
            self._vectors.vectors,
            self._vectors.output_bias,
            self.loss_partials,
            self._counters,
        ]
        numbers = parameter_offsets(network, buffers.offsets)
        table = np.concatenate(
            [addresses(pointers).view(np.uint8), np.array(numbers, np.int32).view(np.uint8)]
        )
        threads = TILE_THREADS * (shape.block_tiles + 1)
        self._launches.append(
            DependentLaunch(
                self._device, kernel, self._blocks, threads, [self._upload(table)], shared_bytes
            )
        )

    def _set_up_weight_gradients(self) -> None:
        """Share out the matrices over the processors, in proportion to their work."""
        self._partials: dict[int, tuple[Array, Array, int]] = {}
        if not self._matrices:
            return
        rounds, jobs = self._rounds, {index: self._jobs_of(index) for index in self._matrices}
        shapes = sorted({job.shape for layer in jobs.values() for job in layer})
        shares = share_processors(
            [(len(layer), max(job.work for job in layer)) for layer in jobs.values()],
            rounds,
            self._processors,
        )
        early_table: list[np.ndarray] = []
        late_table: list[np.ndarray] = []
        for (index, layer), (count, early) in zip(jobs.items(), shares, strict=True):
            parts = count * (2 if layer[0].alternates else 1)
            rows, columns = sum(job.rows for job in layer), layer[0].columns
            weight = self._zeros((parts, rows, columns), "float32")
            bias = self._zeros((parts, columns), "float32")
            self._partials[index] = weight, bias, parts
            head_start = SUMMED_IN_A_ROUND * rounds.block_tiles * self._processors / count
            ranges = share_out(rounds, count, early, head_start)
            for job in layer:
                structs = self._structs(job, shapes.index(job.shape), ranges)
                early_table += structs[:early]
                late_table += structs[early:]
        table = early_table + late_table
        stage_bytes = max(2 * TILE_ROWS * (rows + columns) for rows, columns, _ in shapes)
        stages = min(8, (self._shared_limit_bytes - 2048) // (stage_bytes + 16))
        shared_bytes = stages * (stage_bytes + 16) + 1024
        constants = {
            "SHAPES": len(shapes),
            "SHAPE_ROWS": listed(shape[0] for shape in shapes),
            "SHAPE_COLUMNS": listed(shape[1] for shape in shapes),
            "SHAPE_ALTERNATES": listed(int(shape[2]) for shape in shapes),
            "WEIGHT_STAGES": stages,
            "FULL_COUNT": rounds.blocks * rounds.block_tiles,
            "LAST_COUNT": rounds.last_blocks * rounds.block_tiles,
        }
        columns = {shape[1] for shape in shapes}
        module = compile_module(
            Path(__file__).with_name("weight_gradients.cu"), constants, wgmma_source(columns)
        )
        kernel = module.get_function("hopper_weights")
        kernel.max_dynamic_shared_size_bytes = shared_bytes
        arguments, threads = [self._upload(np.concatenate(table)), self._counters], 3 * TILE_THREADS
        self._launches.append(
            DependentLaunch(self._device, kernel, len(table), threads, arguments, shared_bytes)
        )

    def _jobs_of(self, index: int) -> list[_WeightJob]:
        layer = self._hidden[index]
        rows, columns = padded(layer.fan_in), padded(layer.fan_out)
        if rows <= 128:
            return [_WeightJob(index, 0, rows, columns, rows <= 64)]
        half = padded(rows // 2)
        return [
            _WeightJob(index, 0, half, columns, False),
            _WeightJob(index, half, rows - half, columns, False),
        ]

    def _structs(
        self, job: _WeightJob, shape: int, shares: list[tuple[TileRange, TileRange]]
    ) -> list[np.ndarray]:
        """The job, as a struct that the kernel reads for each of its shares."""
        weight, bias, _ = self._partials[job.layer]
        each = 2 if job.alternates else 1
        has_bias = job.first_row == 0 and self._hidden[job.layer].has_bias
        structs = []
        for part, ranges in enumerate(shares):
            pointers = addresses(
                [
                    self._values[job.layer],
                    self._slopes[job.layer],
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

    def _matrix_gradient(self, index: int, layer: LayerPlan, scale: float) -> list[PartialGradient]:
        """Of weight and bias."""
        weight, bias, parts = self._partials[index]
        _, rows, columns = weight.shape
        return [
            PartialGradient(
                weight,
                parts,
                rows * columns,
                columns,
                0,
                scale,
                self._stream.copy_of(index, layer.frequency),
            ),
            PartialGradient(bias, parts, columns, columns, 0, scale),
        ]


def _pass_fixed_bytes(shape: HopperNetwork) -> int:
    """Shared memory of wide_pass.cu, but for its ring of weights."""
    hidden, channels = len(shape.hidden), shape.network.layers[-1].fan_out
    arguments = 8 * (11 + 2 * hidden) + 8 * (hidden + 1)
    tile = shape.tile_bytes + 4 * vector_count(shape) * shape.widest + 2 * 3 * 8 * 72
    tile += 4 * TILE_ROWS * channels + 4 * (16 + 4 * channels)
    return arguments + shape.constants_bytes + shape.block_tiles * tile + 256
