"""Forward and backward pass of one batch, with all gradients, in one kernel for narrow networks.

No values of a tile of 64 points go to global memory, except for the features of hash grids and
their gradients; see `narrow_pass.cu`.
"""

from neuralfield.engines.cuda.buffers import PartialGradient, PassArguments
from neuralfield.engines.cuda.fused.fused_pass import FusedPass, vector_count
from neuralfield.engines.cuda.fused.padded_network import (
    TILE_THREADS,
    PaddedNetwork,
    require_fused_kernels,
    shared_limit_bytes,
)
from neuralfield.engines.cuda.fused.wgmma import operand_wgmma_source, wgmma_source
from neuralfield.engines.cuda.launch import Launch, compute_capability, processor_count
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, GridFeatures
from neuralfield.engines.cuda.portable.grid_gradient import (
    TableGradient,
    make_table_gradient,
    table_partial,
)
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import (
    ACTIVATIONS_WITH_KEPT_DERIVATIVES,
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    NetworkPlan,
    no_kernels_for,
)
from neuralfield.system.device import Array

_WIDEST = 64
_MOST_SUMS = {4: 24, 3: 64, 2: 128, 1: 128}
"""Maximum number of gradient sums of a thread, by the number of tiles that a block works on at
once."""

_AFFINE_ROWS, _FIRST_AFFINE_ROWS, _OUTPUT_COLUMNS = 8, 16, 8
"""Rows of the matrix with a layer's biases, rows of the one with a first layer of two coordinates,
and columns of the one with the output's weights: see put_affine of narrow_pass.cuh, and put_output
of narrow_output.cuh."""


class NarrowPass(FusedPass):
    """Forward pass, loss and backward pass of one batch, in mixed precision; see `Pass`."""

    name = "narrow"

    def __init__(self, given: PassArguments) -> None:
        block_tiles = _block_tiles(given.network, compute_capability(given.device))
        shape = _narrow_network(given.network, block_tiles)
        blocks = min(processor_count(given.device), given.batch.tiles)
        super().__init__(given, shape, blocks, backward=False)
        none = [None] * (len(shape.hidden) - len(shape.matrices))
        layers = shape.matrices
        weights = [self._zeros((blocks, shape.fan_in(i), shape.widths[i])) for i in layers]
        biases = [self._zeros((blocks, shape.widths[i])) for i in layers]
        self._parts_of = dict(zip(layers, zip(weights, biases, strict=True), strict=True))
        self._table: TableGradient | None = None
        features = gradients = None
        if given.network.encoding == "hashgrid":
            sides = shape.input_width // 2, given.batch.rows, 2
            features, gradients = (self._zeros(sides, "float16") for _ in range(2))
        arguments = self._arguments_of(
            [features, gradients, self._stream.array, *none, *weights, *none, *biases]
        )
        file, shared_bytes = "fused/narrow_pass.cu", _block_bytes(shape)
        constants = {
            **shape.constants(len(layers), wgmma=self.wgmma, backward=False),
            **given.batch.constants(),
            "STAGE_BYTES": 2 * shape.widest**2,
            "GRADIENT_SCALE": MIXED_GRADIENT_SCALE,
            "SHARED_BYTES": _fixed_bytes(shape),
        }
        prelude = _products(shape) if self.wgmma else ""
        kernel = compile_kernel(file, "narrow_pass", constants, prelude, shared_bytes)
        threads = TILE_THREADS * block_tiles
        self._launches.append(Launch(kernel, (blocks,), (arguments,), threads, shared_bytes))
        if given.network.encoding == "hashgrid":
            self._add_grids(features, gradients)

    @classmethod
    def require_kernels(
        cls, network: NetworkPlan, batch: BatchPlan, precision: str, compute_capability: int
    ) -> None:
        require_fused_kernels(network, precision, compute_capability)
        if network.complex_tensors:
            raise no_kernels_for("complex numbers")
        shape = _narrow_network(network, 1)
        if shape.widest > _WIDEST:
            raise no_kernels_for(f"a layer of {shape.widest} values, more than {_WIDEST}")
        if not shape.matrices:
            raise no_kernels_for("a single hidden layer of two coordinates")
        _block_tiles(network, compute_capability)

    def partial_gradients(self) -> list[PartialGradient]:
        of_layers = super().partial_gradients()
        if self._table is None:
            return of_layers
        scale = 1 / (MIXED_GRADIENT_SCALE * self.batch.pixels * self.batch.channels)
        return [table_partial(self.network, self._table.array, scale), *of_layers]

    def _add_grids(self, features: Array, gradients: Array) -> None:
        """Add a launch before the kernel, which computes the features of the batch's rows, and
        launches after it, which compute the table's gradient."""
        network, rows, buffers = self.network, self.batch.rows, self._buffers
        layout = FeatureLayout.of_pairs(rows)
        grids = GridFeatures(network, buffers, layout)
        self._launches.insert(0, grids.launch(buffers.inputs, rows, rows, features))
        self._table = make_table_gradient(self._device, network, self.batch, layout)
        self._allocated += self._table.arrays
        self._launches += self._table.launches(gradients, buffers.inputs, rows, is_last=True)


def _block_tiles(network: NetworkPlan, compute_capability: int) -> int:
    """Count the tiles that a block can work on at once; raise `NotCovered` if not even one fits."""
    limit_bytes = shared_limit_bytes(compute_capability)
    for block_tiles, most_sums in _MOST_SUMS.items():
        shape = _narrow_network(network, block_tiles)
        if _sums(shape) <= most_sums and _block_bytes(shape) <= limit_bytes:
            return block_tiles
    raise no_kernels_for("gradients that do not fit on a multiprocessor")


def _sums(shape: PaddedNetwork) -> int:
    """Count the sums that a thread keeps for gradients of matrices."""
    return sum(shape.widths[index] for index in shape.matrices) // 2


def _block_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of a block, in bytes."""
    buffers = len(shape.matrices) + 3
    if shape.hidden[0].activation in ACTIVATIONS_WITH_KEPT_DERIVATIVES:
        buffers += len(shape.hidden) - 1
    tiles_bytes = shape.block_tiles * buffers * shape.tile_bytes
    return 2 * shape.widest**2 * len(shape.matrices) + tiles_bytes + _fixed_bytes(shape)


def _narrow_network(network: NetworkPlan, block_tiles: int) -> PaddedNetwork:
    """Describe a network for blocks that work on `block_tiles` tiles at once."""
    return PaddedNetwork(network, {256: block_tiles})


def _products(shape: PaddedNetwork) -> str:
    """Write the matrix products for the network's widths, as text before the kernel's source."""
    widths = {shape.widths[index] for index in shape.matrices}
    operands = set(shape.widths) | {shape.fan_in(index) for index in shape.matrices}
    return wgmma_source(widths | {8, 16}) + operand_wgmma_source(operands | {_OUTPUT_COLUMNS})


def _fixed_bytes(shape: PaddedNetwork) -> int:
    """Return an upper bound on the size of the struct Shared of narrow_pass.cuh, in bytes."""
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
