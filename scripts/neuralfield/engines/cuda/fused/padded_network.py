"""A network with widths padded to whole tiles, and its weights as a stream, for fused kernels.

See `padded_network.cuh` and `pack.cu`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import NetworkArrays, WeightCopy
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import ACTIVATIONS, TILE_ROWS, NetworkPlan, no_kernels_for
from neuralfield.system.device import Array, Device

TILE_THREADS = 128
"""Number of threads of a warpgroup, which works on a tile."""

_LEAST_CAPABILITY = 80
"""Minimum compute capability, times 10, with the instructions that the kernels need."""

_SHARED_KIB = {80: 163, 87: 163, 90: 227, 100: 227, 103: 227, 110: 227}
_LEAST_SHARED_KIB = 99
"""Maximum shared memory of a block by compute capability (times 10), and that of all others from
8.0 on."""

_WIDEST = 256
_MOST_LAYERS = 12
_MOST_CHANNELS = 4
STAGE_BYTES = 16384
_BARRIER_BYTES = 16
"""The two barriers that guard a stage."""

_ALL_CHUNKS_BYTES = 1 << 30
_LEAST_STAGES = 2
"""Minimum number of stages of the ring of weights: one is filled while the other is used."""

_PACKING_GRID_WIDTH, _PACKING_THREADS = 32, 256


def shared_limit_bytes(compute_capability: int) -> int:
    """Return the maximum shared memory of a block of a GPU; a capability of 90 is 9.0."""
    return 1024 * _SHARED_KIB.get(compute_capability, _LEAST_SHARED_KIB)


def require_fused_kernels(network: NetworkPlan, precision: str, compute_capability: int) -> None:
    """Raise `NotCovered` if fused kernels cannot compute a network; a capability of 90 is 9.0."""
    widest = max(layer.values_out for layer in network.layers)
    if network.has_features:
        widest = max(widest, network.layers[0].fan_in)
    if any(layer.activation == "product" for layer in network.layers):
        raise no_kernels_for("products of linear maps")
    if compute_capability < _LEAST_CAPABILITY:
        raise no_kernels_for(f"compute capability {compute_capability / 10}, less than 8.0")
    if precision != "mixed":
        raise no_kernels_for(f"precision {precision}, not mixed")
    network.require_16_bits()
    if widest > _WIDEST:
        raise no_kernels_for(f"a layer of {widest} values, more than {_WIDEST}")
    if not 2 <= len(network.layers) <= _MOST_LAYERS:
        raise no_kernels_for(f"{len(network.layers)} layers, not 2 to {_MOST_LAYERS}")
    if len({(layer.activation, layer.wavelet_scale) for layer in network.layers[:-1]}) > 1:
        raise no_kernels_for("different activations")
    if network.layers[-1].fan_out > _MOST_CHANNELS:
        channels = f"{network.layers[-1].fan_out} channels, more than {_MOST_CHANNELS}"
        raise no_kernels_for(channels)


class PaddedNetwork:
    """A network with padded widths, as padded_network.cuh processes it.

    `block_tiles` maps a maximum width of layers to the number of tiles that a block works on at
    once for networks up to that width. `hidden` are the layers with an activation; `matrices` are
    the indices of those that are matrix products (a first layer of two coordinates needs none).
    `widths` are the padded widths of the values after each hidden layer, and `input_width` is that
    of the values before the first one.
    """

    def __init__(self, network: NetworkPlan, block_tiles: Mapping[int, int]) -> None:
        self.network, self.hidden = network, network.layers[:-1]
        has_features = network.has_features
        self.matrices = list(range(0 if has_features else 1, len(self.hidden)))
        self.widths = [padded(layer.fan_out) for layer in self.hidden]
        self.input_width = padded(self.hidden[0].fan_in if has_features else 1)
        self.widest = max(self.input_width, *self.widths)
        self.block_tiles = block_tiles[min(w for w in block_tiles if w >= self.widest)]

    @property
    def tile_bytes(self) -> int:
        """The shared memory of a tile's values."""
        return 2 * TILE_ROWS * self.widest

    @property
    def constants_bytes(self) -> int:
        """The shared memory of the struct Constants."""
        channels = self.network.layers[-1].fan_out
        return 4 * self.widest * (3 + len(self.hidden) + channels) + 4 * channels

    def fan_in(self, index: int) -> int:
        """Return the padded width of a hidden layer's input."""
        return self.widths[index - 1] if index else self.input_width

    def stream_shapes(self, *, backward: bool) -> list[tuple[int, int]]:
        """List padded rows and columns of the stream's matrices. With `backward`, those of their
        transposes follow, from the last layer to the second.
        """
        shapes = [(self.fan_in(i), self.widths[i]) for i in self.matrices]
        if backward:
            shapes += [(self.widths[i], self.fan_in(i)) for i in reversed(self.matrices) if i]
        return shapes

    def ring(
        self, fixed_bytes: int, limit_bytes: int, *, backward: bool, stage_bytes: int = STAGE_BYTES
    ) -> tuple[int, int]:
        """Return the number of stages of the ring of weights, and a block's bytes of shared memory.

        `limit_bytes` is the maximum shared memory of a block, `fixed_bytes` the part of it that is
        used for everything except the ring.
        """
        shapes = self.stream_shapes(backward=backward)
        chunks = sum(_chunks(*shape, stage_bytes) for shape in shapes)
        places = (limit_bytes - fixed_bytes) // (stage_bytes + _BARRIER_BYTES)
        stages = max(1, min(chunks, places))
        return stages, fixed_bytes + stages * (stage_bytes + _BARRIER_BYTES)

    def constants(self, stages: int, *, wgmma: bool, backward: bool) -> dict[str, Any]:
        """Return the constants of a kernel that includes padded_network.cuh: `wgmma` chooses the
        back-end of products, and `backward` says whether it reads transposed weights."""
        return self.network.constants() | {
            "HIDDEN": len(self.hidden),
            "WIDTHS": self.widths,
            "REAL_WIDTHS": [layer.fan_out for layer in self.hidden],
            "INPUT_WIDTH": self.input_width,
            "FOURIER_COUNT": self.hidden[0].fan_in // 2,
            "ACTIVATION": ACTIVATIONS.index(str(self.hidden[0].activation)),
            "FREQUENCIES": [f"{layer.frequency!r}f" for layer in self.hidden],
            "INVERSE_FREQUENCIES": [f"{1 / layer.frequency!r}f" for layer in self.hidden],
            "CHANNELS": self.network.layers[-1].fan_out,
            "BLOCK_TILES": self.block_tiles,
            "STAGES": stages,
            "STAGE_BYTES": STAGE_BYTES,
            "BACKWARD": backward,
            "MIXED": True,
            "WGMMA": wgmma,
        }


def fitting_network(
    network: NetworkPlan,
    block_tiles: Mapping[int, int],
    fixed_bytes: Callable[[PaddedNetwork], int],
    limit_bytes: int,
    *,
    backward: bool,
) -> PaddedNetwork:
    """Describe a network for blocks with as many tiles as fit beside a ring of weights, at most
    `block_tiles`; raise `NotCovered` if not even one fits. For `fixed_bytes`, see
    `PaddedNetwork.ring`."""
    for fewer in range(max(block_tiles.values())):
        tiles = {widest: max(1, count - fewer) for widest, count in block_tiles.items()}
        shape = PaddedNetwork(network, tiles)
        stages, shared_bytes = shape.ring(fixed_bytes(shape), limit_bytes, backward=backward)
        chunks, _ = shape.ring(0, _ALL_CHUNKS_BYTES, backward=backward)
        if stages >= min(chunks, _LEAST_STAGES) and shared_bytes <= limit_bytes:
            return shape
    raise no_kernels_for("layers that do not fit on a multiprocessor")


class WeightStream:
    """Weights in float16, in the order in which the kernels work through them.

    Each `launch` reads the parameters anew. With `backward`, transposes follow the matrices.
    """

    def __init__(
        self,
        device: Device,
        network: PaddedNetwork,
        arrays: NetworkArrays,
        *,
        backward: bool,
    ) -> None:
        self._parameters, self._matrices = arrays.parameters, network.matrices
        shapes = network.stream_shapes(backward=backward)
        starts = np.cumsum([0, *(rows * columns for rows, columns in shapes)]).tolist()
        self.array = device.xp.zeros(max(starts[-1], 8), dtype="float16")
        if not self._matrices:
            return
        count = len(self._matrices)
        transposed = [index for index in reversed(self._matrices) if index] if backward else []
        backward_starts = dict(zip(transposed, starts[count:-1], strict=True))
        layers = [network.hidden[index] for index in self._matrices]
        constants = {
            "MATRICES": count,
            "MATRIX_ROWS": [layer.fan_in for layer in layers],
            "MATRIX_COLUMNS": [layer.fan_out for layer in layers],
            "MATRIX_FACTORS": [f"{layer.frequency!r}f" for layer in layers],
            "MATRIX_OFFSETS": [arrays.offsets[f"layers.{i}.weight"] for i in self._matrices],
            "FORWARD_STARTS": starts[:count],
            "BACKWARD_STARTS": [backward_starts.get(i, -1) for i in self._matrices],
        }
        self._pack = compile_kernel("fused/pack.cu", "pack_weights", constants)
        self._starts = dict(zip(self._matrices, starts[:count], strict=True))
        self._backward_starts = backward_starts

    def copy_of(self, index: int, factor: float) -> WeightCopy:
        """Return the places of a layer's matrix and its transpose in the stream."""
        backward = self._backward_starts.get(index)
        return WeightCopy(
            self.array[self._starts[index] :],
            None if backward is None else self.array[backward:],
            factor,
        )

    def launch(self) -> None:
        """Launch the kernel that packs the weights, on the current CUDA stream."""
        if self._matrices:
            grid = (_PACKING_GRID_WIDTH, len(self._matrices))
            self._pack(grid, (_PACKING_THREADS,), (self._parameters, self.array))


def parameter_offsets(network: NetworkPlan, offsets: Mapping[str, int]) -> list[int]:
    """Return the struct Offsets: the index of each layer's weight, then that of each layer's bias,
    which is -1 if the layer has none."""
    kinds, layers = ("weight", "bias"), range(len(network.layers))
    return [offsets.get(f"layers.{index}.{kind}", -1) for kind in kinds for index in layers]


def padded(width: int) -> int:
    """Round a width up to a multiple of 16, which the kernels' products need."""
    return -(-width // 16) * 16


def addresses(arrays: Sequence[Array | None]) -> np.ndarray:
    """Return the addresses of arrays on the GPU; 0 for None."""
    return np.array([0 if array is None else array.data.ptr for array in arrays], np.uint64)


def _chunks(rows: int, columns: int, stage_bytes: int) -> int:
    """Count the copies, each of at most a stage, that load a matrix."""
    fitting = stage_bytes // (2 * columns) // 16 * 16
    return -(-rows // min(fitting, rows))
