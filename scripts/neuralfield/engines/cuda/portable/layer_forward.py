"""The forward pass of the portable kernels, which training and rendering share."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import NetworkArrays
from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, GridFeatures
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.kernel_plan import (
    ACTIVATIONS,
    ACTIVATIONS_WITH_KEPT_DERIVATIVES,
    LayerPlan,
    NetworkPlan,
    no_kernels_for,
)
from neuralfield.system.device import Array, Device

BLOCK_ROWS = 128
"""Number of rows of a block of the kernels; arrays of activations have whole blocks."""

MAX_WIDTH = 512

_WIDTH_STEP = 64
_FACTOR_COLUMNS = {True: 32, False: 64}
"""Number of columns of each factor in a tile of `forward_product`, in mixed precision or not."""
_LAYER_WEIGHTS = np.dtype(
    [
        *((name, "u8") for name in ("weight", "bias", "forward", "backward", "scaled_bias")),
        *((name, "i4") for name in ("fan_in", "fan_out", "padded_in", "padded_out")),
        *((name, "i4") for name in ("part", "padded_part")),
        ("frequency", "f4"),
    ],
    align=True,
)
"""The struct LayerWeights of layers.cu."""


@dataclass(frozen=True)
class Activations:
    """The arrays that a chunk of rows passes through."""

    values: list[Array | None]  # the input of each layer; None for coordinates
    derivatives: list[Array | None]
    """Derivatives of `ACTIVATIONS_WITH_KEPT_DERIVATIVES`; for products, all factors side by side.
    """

    @property
    def arrays(self) -> list[Array]:
        return [array for array in (*self.values, *self.derivatives) if array is not None]

    def kept(self, index: int) -> Array | None:
        """Return what the derivative of the activation before layer `index` is computed from."""
        return self.values[index] if self.derivatives[index] is None else self.derivatives[index]


@cache
def layer_kernels(
    activation: str, is_mixed: bool, factors: int = 1, wavelet_scale: float = 0.0
) -> Any:
    """Compile layers.cu for one activation, with the factors of a product."""
    constants = {
        "ACTIVATION": ACTIVATIONS.index(activation),
        "MIXED": is_mixed,
        "FACTORS": factors,
        "WAVELET_SCALE": wavelet_scale,
    }
    return compile_module("portable/layers.cu", constants)


def padded(width: int) -> int:
    """Round a width up to a multiple of the width of the kernels' tiles."""
    return -(-width // _WIDTH_STEP) * _WIDTH_STEP


def tile_side(*widths: int) -> int:
    """Choose the larger side of square tiles, 128 or 64, that divides all padded widths."""
    return 64 if any(width % 128 for width in widths) else 128


def require_layer_kernels(network: NetworkPlan, compute_capability: int) -> None:
    """Raise `NotCovered` if the portable kernels cannot compute a network; a `compute_capability`
    of 75 is 7.5.
    """
    if compute_capability < 75:
        raise no_kernels_for("a GPU with compute capability below 7.5")
    if max(max(layer.fan_in, layer.values_out) for layer in network.layers) > MAX_WIDTH:
        raise no_kernels_for(f"a layer wider than {MAX_WIDTH}")
    if network.layers[0].activation == "product" and not network.has_features:
        raise no_kernels_for("products of linear maps of the coordinates")


def whole_blocks(rows: int) -> int:
    """Round a number of rows up to whole blocks."""
    return -(-rows // BLOCK_ROWS) * BLOCK_ROWS


class LayerForward:
    """A network's weights in the layout of the kernels, and the launches of all layers but the
    last.

    Each `prepare` reads the parameters anew; with `trained`, it makes transposed weights, too. A
    network of one layer is always computed in float32, because fp16 would not make it faster, and
    would round its inputs, which are coordinates, to whole pixels.
    """

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        arrays: NetworkArrays,
        precision: str,
        *,
        trained: bool,
    ) -> None:
        self.xp, self.network = device.xp, network
        self.is_mixed = precision == "mixed" and len(network.layers) > 1
        self.dtype = np.float16 if self.is_mixed else np.float32
        self.has_features = network.has_features or len(network.layers) == 1
        self.widths = [padded(layer.fan_in) for layer in network.layers]
        hidden = zip(network.layers[:-1], self.widths[1:], strict=True)
        self.columns = [layer.factors * width for layer, width in hidden]
        self._arrays = arrays
        if network.encoding == "hashgrid":
            layout = self.feature_layout
            self._grids = GridFeatures(network, arrays, layout)
        self.matrices = list(range(0 if self.has_features else 1, len(network.layers) - 1))
        self._forward, self._bias = {}, {}
        self.transposed: dict[int, Array] = {}
        for index in self.matrices:
            shape = (self.widths[index], self.columns[index])
            self._forward[index] = self.xp.zeros(shape, self.dtype)
            self._bias[index] = self.xp.zeros(shape[1], np.float32)
            if trained and (index or network.encoding == "hashgrid"):
                self.transposed[index] = self.xp.zeros(shape[::-1], self.dtype)
        self.prepare = self._preparation()

    @property
    def feature_layout(self) -> FeatureLayout:
        """The layout of the first layer's input, if that consists of features."""
        return FeatureLayout.of_rows(self.widths[0], is_mixed=self.is_mixed)

    @property
    def arrays(self) -> list[Array]:
        copies = (self._forward, self._bias, self.transposed)
        return [array for group in copies for array in group.values()]

    def row_bytes(self, *, keep: bool) -> int:
        """Return the number of bytes that `allocate` allocates for a row."""
        hidden = list(zip(self.network.layers[:-1], self.widths[1:], strict=True))
        if keep:
            values = sum(width * (1 + _kept_parts(layer)) for layer, width in hidden)
        else:
            values = 2 * max((width for _, width in hidden), default=0)
        return (values + self.has_features * self.widths[0]) * np.dtype(self.dtype).itemsize

    def allocate(self, rows: int, *, keep: bool) -> Activations:
        """Allocate arrays for `rows` rows; without `keep`, all layers use two arrays in turn."""
        widest = max(self.widths[1:], default=0)
        turns = [] if keep else [self.xp.zeros(rows * widest, self.dtype) for _ in range(2)]
        features = self.xp.zeros((rows, self.widths[0]), self.dtype) if self.has_features else None
        values, derivatives = [features], [None]
        for index, layer in enumerate(self.network.layers[:-1]):
            shape = (rows, self.widths[index + 1])
            values.append(self.xp.zeros(shape, self.dtype) if keep else turns[index % 2])
            kept_parts = _kept_parts(layer) if keep else 0
            kept_shape = (rows, kept_parts * self.widths[index + 1])
            derivatives.append(self.xp.zeros(kept_shape, self.dtype) if kept_parts else None)
        return Activations(values, derivatives)

    def kernels(self, index: int) -> Any:
        """Return the module of layers.cu for a layer's activation, or any if it has none."""
        layer = self.network.layers[index]
        name = layer.activation or ACTIVATIONS[0]
        return layer_kernels(name, self.is_mixed, layer.factors, layer.wavelet_scale)

    def parameter(self, name: str) -> Array | None:
        """Return the parameters from `name` on, or None if the network has none of that name."""
        start = self._arrays.offsets.get(name)
        return None if start is None else self._arrays.parameters[start:]

    def launches(self, inputs: Array, rows: int, activations: Activations) -> list[Launch]:
        """List the launches from inputs, float32 of shape (n, 2), to the last layer's input.

        `rows` is a whole number of blocks; rows beyond the inputs are computed as for (0, 0).
        """
        launches = []
        present = np.int32(min(rows, len(inputs)))
        if self.has_features:
            launches.append(self._encoding(inputs, present, rows, activations.values[0]))
        for index, layer in enumerate(self.network.layers[:-1]):
            width, width_after = self.widths[index], self.widths[index + 1]
            before = (activations.values[index], np.int32(width))
            after = (activations.values[index + 1], activations.derivatives[index + 1])
            grid: tuple[int, ...] = (rows // BLOCK_ROWS,)
            if layer.activation == "product":
                name, arguments = "forward_product", (self._forward[index], self._bias[index])
                grid = (-(-layer.values_out // _FACTOR_COLUMNS[self.is_mixed]), *grid)
            elif index in self._forward:
                side = tile_side(width_after)
                name, frequency = f"forward_{side}", np.float32(layer.frequency)
                arguments = (self._forward[index], self._bias[index], frequency)
                grid = (width_after // side, *grid)
            else:
                name, before = "first_forward", (inputs, present)
                arguments = self._first_parameters(layer)
            kernel = self.kernels(index).get_function(name)
            arguments = (*before, *arguments, *after, np.int32(width_after))
            launches.append(Launch(kernel, grid, arguments))
        return launches

    def _first_parameters(self, layer: LayerPlan) -> tuple[Any, ...]:
        weight, bias = self.parameter("layers.0.weight"), self.parameter("layers.0.bias")
        has_ones = np.int32(self.network.encoding == "corners")
        return weight, bias, has_ones, np.int32(layer.fan_out), np.float32(layer.frequency)

    def _encoding(self, inputs: Array, present: Any, rows: int, features: Any) -> Launch:
        if self.network.encoding == "hashgrid":
            return self._grids.launch(inputs, int(present), rows, features)
        # the two kernels below do not depend on the activation
        kernels = self.kernels(0)
        head, tail = (inputs, present, np.int32(rows)), (features, np.int32(self.widths[0]))
        frequencies = self._arrays.frequencies
        if frequencies is not None:
            count = frequencies.shape[1]
            polynomials = self.network.layers[0].fan_in // 2 - count
            grid = (min(-(-rows * (count + polynomials) // THREADS), 1 << 14),)
            middle = (frequencies, np.int32(count), np.int32(polynomials))
            return Launch(kernels.get_function("fourier_features"), grid, (*head, *middle, *tail))
        has_ones = np.int32(self.network.encoding == "corners")
        grid = (-(-rows // THREADS),)
        return Launch(kernels.get_function("plain_inputs"), grid, (*head, has_ones, *tail))

    def _preparation(self) -> Launch | None:
        if not self.matrices:
            return None
        table = np.zeros(len(self.matrices), _LAYER_WEIGHTS)
        for line, index in zip(table, self.matrices, strict=True):
            layer = self.network.layers[index]
            arrays = {
                "weight": self.parameter(f"layers.{index}.weight"),
                "bias": self.parameter(f"layers.{index}.bias"),
                "forward": self._forward[index],
                "backward": self.transposed.get(index),
                "scaled_bias": self._bias[index],
            }
            for name, array in arrays.items():
                line[name] = 0 if array is None else array.data.ptr
            line["fan_in"], line["fan_out"] = layer.fan_in, layer.fan_out
            line["padded_in"], line["padded_out"] = self._forward[index].shape
            line["part"], line["padded_part"] = layer.values_out, self.widths[index + 1]
            line["frequency"] = layer.frequency
        on_gpu = self.xp.asarray(table.view(np.uint8))
        kernels = self.kernels(0)
        return Launch(kernels.get_function("prepare_weights"), (64, len(table)), (on_gpu,))


def _kept_parts(layer: LayerPlan) -> int:
    """Count the numbers that are kept for each value of a layer, for the backward pass."""
    if layer.activation == "product":
        return layer.factors
    return int(layer.activation in ACTIVATIONS_WITH_KEPT_DERIVATIVES)
