"""One batch forwards and backwards, with all gradients, in one kernel: for narrow networks.

On cards of compute capability 9.0, in 16-bit products. Nothing of a tile of 64 points goes to
global memory, but for features of hash grids and their slopes; see `narrow_pass.cu`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import Buffers, PartialGradient
from neuralfield.engines.cuda.hopper.gradients import VectorGradients, partial_gradients
from neuralfield.engines.cuda.hopper.narrow_network import (
    fixed_bytes,
    kernel_constants,
    kernel_prelude,
    matrices_bytes,
    narrow_network,
    tiles_bytes,
)
from neuralfield.engines.cuda.hopper.padded_network import (
    SHARED_LIMIT_BYTES,
    TILE_THREADS,
    HopperNetwork,
    WeightStream,
    addresses,
    parameter_offsets,
    reason_against,
)
from neuralfield.engines.cuda.launch import Launch, card_limits
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, GridFeatures
from neuralfield.engines.cuda.portable.grid_gradient import (
    TableGradient,
    make_table_gradient,
    table_partial,
)
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.plan import (
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    LayerPlan,
    NetworkPlan,
)
from neuralfield.system.device import Array, Device

_WIDEST = 64
_MOST_SUMS = {4: 24, 3: 64, 2: 128}
"""How many sums of gradients a thread has room for, by the tiles that a block works on at once."""

LAUNCH_TILES, _TILE = 5.0, 0.7
"""Times on an H200, as multiples of what a tile takes that has a multiprocessor to itself: what a
step costs beside its tiles; a tile of many, by throughput."""


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
        shape = narrow_network(network, block_tiles)
        self._shape, self._threads = shape, TILE_THREADS * block_tiles
        self.block_tiles = block_tiles
        self._stream = WeightStream(
            device, shape, buffers.parameters, buffers.offsets, backward=False
        )
        self._allocated: list[Array] = [self._stream.array]
        self.blocks = min(card_limits(device)[0], batch.tiles)

        self._shared_bytes = _block_bytes(shape)
        module = compile_module(
            Path(__file__).with_name("narrow_pass.cu"),
            kernel_constants(shape, batch),
            kernel_prelude(shape),
        )
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
        shape = narrow_network(network, 1)
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
        return LAUNCH_TILES + _TILE * -(-tiles // processors)

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


def _block_tiles(network: NetworkPlan) -> int | None:
    """How many tiles a block can work on at once; None: not one."""
    for block_tiles, most_sums in _MOST_SUMS.items():
        shape = narrow_network(network, block_tiles)
        if _sums(shape) <= most_sums and _block_bytes(shape) <= SHARED_LIMIT_BYTES:
            return block_tiles
    return None


def _sums(shape: HopperNetwork) -> int:
    """Of gradients of matrices, that a thread has."""
    return sum(shape.widths[index] for index in shape.matrices) // 2


def _block_bytes(shape: HopperNetwork) -> int:
    """Shared memory of a block."""
    return matrices_bytes(shape) + tiles_bytes(shape) + fixed_bytes(shape)
