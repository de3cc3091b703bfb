"""One batch forwards and backwards, with all gradients, in one kernel: for narrow networks.

On cards of compute capability 9.0, in 16-bit products. Nothing of a tile of 64 points goes to
global memory, but for features of hash grids and their slopes; see `hopper_narrow.cu`.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from neuralfield.device import Array, Device
from neuralfield.engines.cuda.buffers import Buffers, PartialGradient
from neuralfield.engines.cuda.card import card_limits
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.hopper.gradients import (
    VectorGradients,
    partial_gradients,
    vector_count,
)
from neuralfield.engines.cuda.hopper.network import (
    SHARED_LIMIT_BYTES,
    TILE_THREADS,
    HopperNetwork,
    WeightStream,
    addresses,
    parameter_offsets,
    reason_against,
)
from neuralfield.engines.cuda.launch import Launch
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, GridFeatures
from neuralfield.engines.cuda.portable.grid_gradient import (
    TableGradient,
    make_table_gradient,
    table_partial,
)
from neuralfield.engines.cuda.stages.sampling import SamplingBatch
from neuralfield.engines.cuda.stages.update import STRANDS
from neuralfield.kernels.plan import (
    ACTIVATIONS_WITH_SLOPES,
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    LayerPlan,
    NetworkPlan,
)
from neuralfield.kernels.source import compile_module
from neuralfield.kernels.wgmma import operand_wgmma_source, wgmma_source

_WIDEST = 64
_MOST_SUMS = {4: 24, 3: 64, 2: 128}
"""How many sums of gradients a thread has room for, by the tiles that a block works on at once."""

_AFFINE_ROWS, _FIRST_AFFINE_ROWS, _OUTPUT_COLUMNS = 8, 16, 8
"""Of the matrices with biases, that of a first layer of two coordinates, and that of the output's
weights: see put_affine of hopper_narrow.cuh, and put_output."""

_WORKERS, _SUMMERS, _MOST_SUMMER_SUMS = 3, 2, 32
"""Of a block that works on networks' strands: warpgroups with a tile each, those that add up
gradients, and how many sums of them such a thread has room for."""

_LAUNCH_TILES, _TILE, _STRAND_TILE = 5.0, 0.7, 0.7
"""Times on an H200, as multiples of what a tile takes that has a multiprocessor to itself: what a
step costs beside its tiles; a tile of many, by throughput; a tile of a strand, likewise."""


class HopperNarrowPass:
    """Forward, loss and backward for one batch; see `neuralfield.engines.cuda.buffers.Pass`.

    Parameters
    ----------
    device : Device
    network : NetworkPlan
    batch : BatchPlan
    buffers : Buffers
    precision : {"mixed"}
    """

    name = "hopper-narrow"

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        batch: BatchPlan,
        buffers: Buffers,
        precision: str,
    ) -> None:
        self.network, self.batch, self._xp = network, batch, device.xp
        block_tiles = _block_tiles(network)
        assert block_tiles is not None
        shape = _shape(network, block_tiles)
        self._shape, self._threads = shape, TILE_THREADS * block_tiles
        self.block_tiles = block_tiles
        self._stream = WeightStream(
            device, shape, buffers.parameters, buffers.offsets, backward=False
        )
        self._allocated: list[Array] = [self._stream.array]
        self.blocks = min(card_limits(device)[0], batch.tiles)

        self._shared_bytes = _block_bytes(shape)
        module = compile_module("hopper_narrow.cu", _constants(shape, batch), _prelude(shape))
        self._kernel = module.get_function("hopper_narrow")
        self._kernel.max_dynamic_shared_size_bytes = self._shared_bytes
        self._table: TableGradient | None = None
        self._before: list[Launch] = []
        self._after: list[Launch] = []
        self._set_up_arguments(buffers, self._set_up_grids(device, buffers))

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
        if network.complex_tensors:
            return "complex numbers"
        shape = _shape(network, 1)
        if shape.widest > _WIDEST:
            return f"a layer of {shape.widest} values, more than {_WIDEST}"
        if not shape.matrices:
            return "a single hidden layer of two coordinates"
        if _block_tiles(network) is None:
            return "gradients that have no room on a multiprocessor"
        return None

    @property
    def memory_bytes(self) -> int:
        """What it has allocated."""
        of_table = self._table.memory_bytes if self._table else 0
        return sum(array.nbytes for array in self._allocated) + of_table

    def partial_gradients(self) -> list[PartialGradient]:
        """One for each parameter tensor, in order."""
        of_layers = partial_gradients(self._shape, self.batch, self._vectors, self._matrix_gradient)
        if self._table is None:
            return of_layers
        scale = 1 / (MIXED_GRADIENT_SCALE * self.batch.pixels * self.batch.channels)
        return [table_partial(self.network, self._table.array, scale), *of_layers]

    @staticmethod
    def step_tiles(tiles: int, processors: int) -> float:
        """How long a step takes, about: a tile that has a multiprocessor for itself takes 1."""
        return _LAUNCH_TILES + _TILE * -(-tiles // processors)

    def prepare(self) -> None:
        """Pack the weights, which the update does from then on."""
        self._stream.launch()

    def launch(self) -> None:
        """Put the pass on the current stream."""
        for launch in self._before:
            launch()
        self._kernel(
            (self.blocks,), (self._threads,), (self.arguments,), shared_mem=self._shared_bytes
        )
        for launch in self._after:
            launch()

    def _zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        self._allocated.append(self._xp.zeros(shape, dtype=dtype))
        return self._allocated[-1]

    def _set_up_grids(self, device: Device, buffers: Buffers) -> tuple[Array | None, Array | None]:
        """Features of the batch's rows and their slopes, with what comes before and after the
        kernel; nothing where there are no grids."""
        network, rows = self.network, self.batch.rows
        if network.encoding != "hashgrid":
            return None, None
        features, slopes = (
            self._zeros((self._shape.input_width // 2, rows, 2), "float16") for _ in range(2)
        )
        layout = FeatureLayout.of_pairs(rows)
        grids = GridFeatures(network, buffers.parameters, buffers.offsets, layout)
        self._before = [grids.launch(buffers.inputs, rows, rows, features)]
        self._table = make_table_gradient(device, network, self.batch, layout)
        self._after = self._table.launches(slopes, buffers.inputs, rows, is_last=True)
        return features, slopes

    def _set_up_arguments(
        self, buffers: Buffers, features_and_slopes: tuple[Array | None, Array | None]
    ) -> None:
        shape, blocks = self._shape, self.blocks
        none = [None] * (len(shape.hidden) - len(shape.matrices))
        self._weights = [
            self._zeros((blocks, shape.fan_in(i), shape.widths[i]), "float32")
            for i in shape.matrices
        ]
        self._biases = [self._zeros((blocks, shape.widths[i]), "float32") for i in shape.matrices]
        self._vectors = VectorGradients(shape, blocks, self._zeros)
        self.loss_partials = self._zeros((blocks, 2), "float64")
        pointers = [
            buffers.inputs,
            buffers.targets,
            buffers.weights,
            buffers.parameters,
            buffers.frequencies,
            *features_and_slopes,
            self._stream.array,
            *none,
            *self._weights,
            *none,
            *self._biases,
            self._vectors.vectors,
            self._vectors.output_bias,
            self.loss_partials,
        ]
        numbers = np.array(parameter_offsets(self.network, buffers.offsets), np.int32)
        table = np.concatenate([addresses(pointers).view(np.uint8), numbers.view(np.uint8)])
        self.arguments = self._xp.asarray(table)
        self._allocated.append(self.arguments)

    def arguments_for(self, batch: Sequence[Array]) -> Array:
        """What the kernel is given, with other inputs, targets and weights."""
        table = self.arguments.copy()
        places = addresses(batch).view(np.uint8)
        table[: places.size] = self._xp.asarray(places)
        return table

    def _matrix_gradient(self, index: int, layer: LayerPlan, scale: float) -> list[PartialGradient]:
        """Of weight and bias."""
        shape, blocks = self._shape, self.blocks
        place, rows, columns = shape.matrices.index(index), shape.fan_in(index), shape.widths[index]
        copy = self._stream.copy_of(index, layer.frequency)
        weight, bias = self._weights[place], self._biases[place]
        return [
            PartialGradient(weight, blocks, rows * columns, columns, 0, scale, copy),
            PartialGradient(bias, blocks, columns, columns, 0, scale),
        ]


class HopperNarrowBatch:
    """The same for several trainings in one launch, with the sums that each has alone.

    Parts of the gradients are as `stages.update.STRANDS` has them, in the passes' own arrays.

    Parameters
    ----------
    device : Device
    passes : sequence of HopperNarrowPass
        Of networks and batches of one shape, which there is room for: see `has_room`.
    sampling : SamplingBatch
        Which draws their samples.
    """

    def __init__(
        self, device: Device, passes: Sequence[HopperNarrowPass], sampling: SamplingBatch
    ) -> None:
        alone = passes[0]
        shape = _shape(alone.network, _WORKERS)
        constants = _constants(shape, alone.batch) | {
            "UNITS": alone.blocks,
            "UNIT_CHAINS": alone.block_tiles,
            "STRANDS": STRANDS,
            "EXCHANGE_BYTES": _exchange_bytes(shape, alone),
        }
        module = compile_module("hopper_narrow_batch.cu", constants, _prelude(shape))
        kernel = module.get_function("hopper_narrow_batch")
        shared_bytes = _batch_bytes(shape, alone)
        kernel.max_dynamic_shared_size_bytes = shared_bytes
        even = [each.arguments for each in passes]
        odd = [each.arguments_for(batch) for each, batch in zip(passes, sampling.odd, strict=True)]
        members = device.xp.concatenate([*even, *odd])
        strands = min(STRANDS, alone.blocks)
        blocks = _network_blocks(strands, len(passes), card_limits(device)[0])
        grid, threads = (blocks, len(passes)), TILE_THREADS * (_WORKERS + _SUMMERS)
        arguments = members, sampling.step_drawn
        self._pass = DependentLaunch(device, kernel, grid, threads, arguments, shared_bytes)

    @staticmethod
    def has_room(alone: HopperNarrowPass) -> bool:
        """Whether a network's sums fit into registers, and what else there is into shared memory.

        Parameters
        ----------
        alone : HopperNarrowPass
        """
        shape = _shape(alone.network, _WORKERS)
        fits = _batch_bytes(shape, alone) <= SHARED_LIMIT_BYTES
        return _summer_sums(shape) <= _MOST_SUMMER_SUMS and fits

    @staticmethod
    def step_tiles(tiles: int, members: int, processors: int) -> float:
        """How long a step of so many members takes, about, as in `HopperNarrowPass.step_tiles`."""
        blocks = _network_blocks(STRANDS, members, processors)
        rounds = -(-blocks * members // processors)
        return _LAUNCH_TILES + _STRAND_TILE * rounds * tiles / blocks

    def launch(self) -> None:
        """Put the pass on the current stream."""
        self._pass()


def _network_blocks(strands: int, members: int, processors: int) -> int:
    """Of a launch for so many networks: those that each has.

    As few as take no more time than more would: the time is what the busiest multiprocessor takes
    for its strands, one after another.
    """

    def rounds(blocks: int) -> int:
        return -(-blocks * members // processors) * -(-strands // blocks)

    return min(range(1, strands + 1), key=rounds)


def _constants(shape: HopperNetwork, batch: BatchPlan) -> dict[str, Any]:
    return {
        **shape.constants(len(shape.matrices)),
        **batch.constants(),
        "STAGE_BYTES": 2 * shape.widest**2,
        "GRADIENT_SCALE": MIXED_GRADIENT_SCALE,
        "SHARED_BYTES": _fixed_bytes(shape),
    }


def _prelude(shape: HopperNetwork) -> str:
    widths = {shape.widths[index] for index in shape.matrices}
    operands = set(shape.widths) | {shape.fan_in(index) for index in shape.matrices}
    return wgmma_source(widths | {8, 16}) + operand_wgmma_source(operands | {_OUTPUT_COLUMNS})


def _shape(network: NetworkPlan, block_tiles: int) -> HopperNetwork:
    return HopperNetwork(network, {256: block_tiles})


def _block_tiles(network: NetworkPlan) -> int | None:
    """How many tiles a block can work on at once; None: not one."""
    for block_tiles, most_sums in _MOST_SUMS.items():
        shape = _shape(network, block_tiles)
        if _sums(shape) <= most_sums and _block_bytes(shape) <= SHARED_LIMIT_BYTES:
            return block_tiles
    return None


def _sums(shape: HopperNetwork) -> int:
    """Of gradients of matrices, that a thread has."""
    return sum(shape.widths[index] for index in shape.matrices) // 2


def _summer_sums(shape: HopperNetwork) -> int:
    """The same of the summer that has more of them: see best_split of hopper_strands.cuh."""
    counts = [0] * len(shape.hidden)
    for index in shape.matrices:
        counts[index] = shape.widths[index] // 2
    splits = range(len(counts))
    return min(max(sum(counts[:split]), sum(counts[split:])) for split in splits)


def _exchange_bytes(shape: HopperNetwork, alone: HopperNarrowPass) -> int:
    """Of the struct Exchange of hopper_strands.cuh."""
    units, channels = alone.blocks, shape.network.layers[-1].fan_out
    chains = min(-(-alone.batch.tiles // units), alone.block_tiles)
    weights_bytes = _SUMMERS * 4 * TILE_THREADS * _summer_sums(shape) if chains > 1 else 0
    totals_bytes = (-(-units // STRANDS) * chains + _WORKERS) * 4 * (16 + 4 * channels)
    errors_bytes = _WORKERS * 32 * 4 * (2 + channels)
    barriers_bytes = _WORKERS * 8 * (len(shape.hidden) + _SUMMERS)
    return weights_bytes + totals_bytes + errors_bytes + barriers_bytes + 16


def _batch_bytes(shape: HopperNetwork, alone: HopperNarrowPass) -> int:
    """Shared memory of a block that works on strands."""
    tables = len(shape.matrices) + 1 + len(shape.hidden)
    tables_bytes = _WORKERS * tables * shape.tile_bytes
    fixed_bytes = _fixed_bytes(shape) + _exchange_bytes(shape, alone)
    return _matrices_bytes(shape) + tables_bytes + fixed_bytes


def _block_bytes(shape: HopperNetwork) -> int:
    """Shared memory of a block, beside sums of strands."""
    return _matrices_bytes(shape) + _tiles_bytes(shape) + _fixed_bytes(shape)


def _matrices_bytes(shape: HopperNetwork) -> int:
    """Shared memory of the weights."""
    return 2 * shape.widest**2 * len(shape.matrices)


def _tiles_bytes(shape: HopperNetwork) -> int:
    """Shared memory of all tiles' tables."""
    tables = len(shape.matrices) + 3
    if shape.hidden[0].activation in ACTIVATIONS_WITH_SLOPES:
        tables += len(shape.hidden) - 1
    return shape.block_tiles * tables * shape.tile_bytes


def _fixed_bytes(shape: HopperNetwork) -> int:
    """At least the struct Shared of hopper_narrow.cuh."""
    hidden, channels = len(shape.hidden), shape.network.layers[-1].fan_out
    arguments = 8 * (11 + 2 * hidden) + 8 * (hidden + 1)
    affine_rows = _AFFINE_ROWS * len(shape.matrices)
    affine_rows += _FIRST_AFFINE_ROWS * (hidden - len(shape.matrices))
    constants = 2 * (affine_rows * shape.widest + _OUTPUT_COLUMNS * shape.widths[-1])
    constants += shape.constants_bytes + 16 * 16
    notes = 1 if shape.network.has_features else 2
    tile = max(4 * vector_count(shape) * shape.widest, 16 * notes * TILE_ROWS)
    tile += 4 * TILE_ROWS * channels + 4 * (16 + 4 * channels)
    return arguments + constants + shape.block_tiles * tile + 256
