"""Sizes of networks in the kernels of `narrow_pass.cu` and `narrow_batch.cu`."""

from typing import Any

from neuralfield.engines.cuda.fused.fused_pass import vector_count
from neuralfield.engines.cuda.fused.padded_network import PaddedNetwork
from neuralfield.engines.cuda.hopper.wgmma import operand_wgmma_source, wgmma_source
from neuralfield.engines.kernel_plan import (
    ACTIVATIONS_WITH_KEPT_DERIVATIVES,
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    NetworkPlan,
)

_AFFINE_ROWS, _FIRST_AFFINE_ROWS, _OUTPUT_COLUMNS = 8, 16, 8
"""Rows of the matrix with a layer's biases, rows of the one with a first layer of two coordinates,
and columns of the one with the output's weights: see put_affine of narrow_pass.cuh, and put_output
of narrow_output.cuh."""


def narrow_network(network: NetworkPlan, block_tiles: int) -> PaddedNetwork:
    """Describe a network for blocks that work on `block_tiles` tiles at once."""
    return PaddedNetwork(network, {256: block_tiles})


def kernel_constants(shape: PaddedNetwork, batch: BatchPlan) -> dict[str, Any]:
    """Return the constants of the kernel's source."""
    return {
        **shape.constants(len(shape.matrices)),
        **batch.constants(),
        "STAGE_BYTES": 2 * shape.widest**2,
        "GRADIENT_SCALE": MIXED_GRADIENT_SCALE,
        "SHARED_BYTES": fixed_bytes(shape),
    }


def kernel_prelude(shape: PaddedNetwork) -> str:
    """Write the matrix products for the network's widths, as text before the kernel's source."""
    widths = {shape.widths[index] for index in shape.matrices}
    operands = set(shape.widths) | {shape.fan_in(index) for index in shape.matrices}
    return wgmma_source(widths | {8, 16}) + operand_wgmma_source(operands | {_OUTPUT_COLUMNS})


def matrices_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of the weights, in bytes."""
    return 2 * shape.widest**2 * len(shape.matrices)


def tiles_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of the buffers of all tiles, in bytes."""
    buffers = len(shape.matrices) + 3
    if shape.hidden[0].activation in ACTIVATIONS_WITH_KEPT_DERIVATIVES:
        buffers += len(shape.hidden) - 1
    return shape.block_tiles * buffers * shape.tile_bytes


def fixed_bytes(shape: PaddedNetwork) -> int:
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
