"""Rendering on GPUs of compute capability 9.0, from coordinates to means in one kernel.

See `hopper_renderer.cu`.
"""

from pathlib import Path

import numpy as np

from neuralfield.engines.cuda.buffers import NetworkArrays
from neuralfield.engines.cuda.fused import padded_network
from neuralfield.engines.cuda.fused.padded_network import (
    TILE_THREADS,
    PaddedNetwork,
    WeightStream,
    parameter_offsets,
)
from neuralfield.engines.cuda.hopper.wgmma import wgmma_source
from neuralfield.engines.cuda.launch import gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import TILE_ROWS, NetworkPlan
from neuralfield.system.device import Array, Device

_BLOCK_TILES = {64: 6, 128: 4, 256: 2}
"""Number of tiles of a block, by the maximum width of layers: more than in training, because
rendering keeps less in registers."""

_NOTHING = np.uintp(0)
_ALIGNMENT_BYTES = 256
"""Maximum number of bytes of shared memory that are lost to alignment."""


def unsupported_reason(network: NetworkPlan, compute_capability: int) -> str | None:
    """Return why this kernel cannot render a network trained in mixed precision, or None."""
    if network.encoding == "hashgrid":
        return "hash grids"
    return padded_network.unsupported_reason(network, "mixed", compute_capability)


class HopperRenderer:
    """See `neuralfield.rendering.Renderer`; parameters are read only once, by the constructor.

    `training_size_px` is the size of the training image, whose corners the encoding uses.
    """

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        arrays: NetworkArrays,
        training_size_px: tuple[int, int],
    ) -> None:
        self._xp = device.xp
        self._channels = network.layers[-1].fan_out
        shape = PaddedNetwork(network, _BLOCK_TILES)
        self._block_tiles = shape.block_tiles
        self._processors, limit_bytes = gpu_limits(device)
        fixed_bytes = shape.constants_bytes + shape.block_tiles * shape.tile_bytes
        stages, self._shared_bytes = shape.ring(
            fixed_bytes + _ALIGNMENT_BYTES, limit_bytes, backward=False
        )
        width_px, height_px = training_size_px
        constants = shape.constants(stages) | {
            "PARAMETER_OFFSETS": parameter_offsets(network, arrays.offsets),
            "TRAINING_WIDTH": width_px,
            "TRAINING_HEIGHT": height_px,
        }
        products = {columns for _, columns in shape.stream_shapes(backward=False)}
        path, prelude = Path(__file__).with_name("hopper_renderer.cu"), wgmma_source(products)
        self._kernel = compile_kernel(path, "hopper_render", constants, prelude, self._shared_bytes)
        stream = WeightStream(device, shape, arrays, backward=False)
        stream.launch()
        features = _NOTHING if arrays.frequencies is None else arrays.frequencies
        self._network = (arrays.parameters, features, stream.array)

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        count = len(columns) * len(rows) if which is None else len(which)
        numbers = _NOTHING if which is None else which.astype(np.int32)
        means = self._xp.empty((count, self._channels), np.float32)
        spreads = self._xp.empty(count, np.float32)
        arguments = (columns, rows, offsets, numbers, means, spreads)
        sizes = (np.int32(count), np.int32(len(columns)), np.int32(len(offsets)))
        blocks = min(self._processors, -(-count // (TILE_ROWS * self._block_tiles)))
        self._kernel(
            (blocks,),
            (TILE_THREADS * (self._block_tiles + 1),),
            (*self._network, *arguments, *sizes),
            shared_mem=self._shared_bytes,
        )
        return means, spreads

    def close(self) -> None:
        """Do nothing: there is only memory to release."""
