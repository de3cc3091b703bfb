"""Rendering of networks that were trained in mixed precision, from coordinates to means in one
kernel; see `fused_renderer.cu`.
"""

from pathlib import Path

import numpy as np

from neuralfield.engines.cuda.buffers import NetworkArrays
from neuralfield.engines.cuda.fused.padded_network import (
    TILE_THREADS,
    PaddedNetwork,
    WeightStream,
    fitting_network,
    parameter_offsets,
    require_fused_kernels,
    shared_limit_bytes,
)
from neuralfield.engines.cuda.fused.wgmma import uses_wgmma, wgmma_source
from neuralfield.engines.cuda.launch import compute_capability, processor_count
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import TILE_ROWS, NetworkPlan, no_kernels_for
from neuralfield.system.device import Array, Device

_BLOCK_TILES = {64: 6, 128: 4, 256: 2}
"""Number of tiles of a block, by the maximum width of layers: more than in training, because
rendering keeps less in registers."""

_NOTHING = np.uintp(0)
_ALIGNMENT_BYTES = 256
"""Maximum number of bytes of shared memory that are lost to alignment."""


class FusedRenderer:
    """See `neuralfield.rendering.Renderer`; parameters are read only once, by the constructor.

    It is for networks that were trained in mixed precision, and `NotCovered` is raised for others.
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
        capability = compute_capability(device)
        if network.encoding == "hashgrid":
            raise no_kernels_for("hash grids")
        require_fused_kernels(network, "mixed", capability)
        wgmma, shape = uses_wgmma(capability), _shape(network, capability)
        self._tiles, self._processors = shape.block_tiles, processor_count(device)
        self._threads = TILE_THREADS * (shape.block_tiles + wgmma)  # others load weights
        stages, self._shared_bytes = shape.ring(
            _fixed_bytes(shape), shared_limit_bytes(capability), backward=False
        )
        width_px, height_px = training_size_px
        constants = shape.constants(stages, wgmma=wgmma, backward=False) | {
            "PARAMETER_OFFSETS": parameter_offsets(network, arrays.offsets),
            "TRAINING_WIDTH": width_px,
            "TRAINING_HEIGHT": height_px,
        }
        products = {columns for _, columns in shape.stream_shapes(backward=False)}
        path, prelude = Path(__file__).with_name("fused_renderer.cu"), ""
        if wgmma:
            prelude = wgmma_source(products)
        self._kernel = compile_kernel(path, "fused_render", constants, prelude, self._shared_bytes)
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
        blocks = min(self._processors, -(-count // (TILE_ROWS * self._tiles)))
        self._kernel(
            (blocks,),
            (self._threads,),
            (*self._network, *arguments, *sizes),
            shared_mem=self._shared_bytes,
        )
        return means, spreads

    def close(self) -> None:
        """Do nothing: there is only memory to release."""


def _shape(network: NetworkPlan, compute_capability: int) -> PaddedNetwork:
    """Describe a network for blocks with as many tiles as fit."""
    limit_bytes = shared_limit_bytes(compute_capability)
    return fitting_network(network, _BLOCK_TILES, _fixed_bytes, limit_bytes, backward=False)


def _fixed_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of a block, except its ring of weights, in bytes."""
    return shape.constants_bytes + shape.block_tiles * shape.tile_bytes + _ALIGNMENT_BYTES
