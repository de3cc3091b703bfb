"""One batch forwards and backwards, with all gradients, in one kernel: for products of linear maps.

On cards of compute capability 9.0, in 16-bit products. Of a tile of 64 points nothing goes to
global memory but a copy of its features, and what it adds to the second weight's gradient; see
`product_pass.cu`.
"""

from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import Buffers, PartialGradient
from neuralfield.engines.cuda.hopper.padded_network import (
    SHARED_LIMIT_BYTES,
    TILE_THREADS,
    addresses,
    listed,
    parameter_offsets,
)
from neuralfield.engines.cuda.hopper.wgmma import operand_wgmma_source, wgmma_source
from neuralfield.engines.cuda.launch import Launch, card_limits
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.plan import (
    ACTIVATIONS,
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    NetworkPlan,
)
from neuralfield.system.device import Array, Device

_TILES = 2
"""Of a block, with a warpgroup each."""

_UNIT = 16
"""Columns of each factor that are made at a time."""

_MOST_FEATURES, _MOST_SUMS, _MOST_UNIT_SUMS = 128, 144, 32
"""Sums that a thread has room for: of the first weight's gradient, and of a unit's factors."""

_GAP = 8
"""Numbers between the factors in parts of gradients: a warp's rows are in different banks."""

_MOST_PADDED = 128
"""Columns of the second weight: a warpgroup adds up 64 of its bias."""


class HopperProductPass:
    """Forward, loss and backward for one batch; see `neuralfield.engines.cuda.buffers.Pass`.

    Parameters
    ----------
    device : Device
    network : NetworkPlan
    batch : BatchPlan
    buffers : Buffers
    precision : {"mixed"}
    """

    name = "hopper-product"

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        batch: BatchPlan,
        buffers: Buffers,
        precision: str,
    ) -> None:
        self._network, self._batch, self._xp = network, batch, device.xp
        blocks = min(card_limits(device)[0], -(-batch.tiles // _TILES))
        self._allocated: list[Array] = []
        first, _, last = network.layers
        padded, channels = _padded(network), last.fan_out
        self._gradients = {
            "layers.0.weight": self._zeros(blocks, first.fan_in, first.factors, padded + _GAP),
            "layers.0.bias": self._zeros(blocks, first.factors, padded + _GAP),
            "layers.1.weight": self._zeros(blocks, padded, padded),
            "layers.1.bias": self._zeros(blocks, padded),
            "layers.2.weight": self._zeros(blocks, padded, channels),
            "layers.2.bias": self._zeros(blocks, channels),
        }
        self.loss_partials = self._zeros(blocks, 2, dtype="float64")
        features = self._zeros(blocks, _padded_features(network), _TILES * TILE_ROWS // 2)
        sums = self._zeros(blocks, -(-padded // 64) * 64, padded)
        pointers = [
            *(buffers.inputs, buffers.targets, buffers.weights, buffers.parameters),
            *(buffers.frequencies, features, sums, *self._gradients.values(), self.loss_partials),
        ]
        numbers = np.array(parameter_offsets(network, buffers.offsets), np.int32)
        table = np.concatenate([addresses(pointers).view(np.uint8), numbers.view(np.uint8)])
        arguments = self._xp.asarray(table)
        self._allocated.append(arguments)
        assert buffers.frequencies is not None
        constants = _constants(network, batch, buffers.frequencies.shape[1])
        module = compile_module(
            Path(__file__).with_name("product_pass.cu"), constants, _prelude(network)
        )
        kernel = module.get_function("hopper_product")
        kernel.max_dynamic_shared_size_bytes = SHARED_LIMIT_BYTES
        threads = _TILES * TILE_THREADS
        self._launch = Launch(kernel, (blocks,), (arguments,), threads, SHARED_LIMIT_BYTES)

    @staticmethod
    def reason_against(
        network: NetworkPlan, batch: BatchPlan, precision: str, compute_capability: int
    ) -> str | None:
        """Why this pass cannot do it; None: it can."""
        if compute_capability != 90:
            return f"compute capability {compute_capability / 10}, not 9.0"
        if precision != "mixed":
            return f"precision {precision}, not mixed"
        if batch.points > TILE_ROWS:
            return f"{batch.points} points a pixel, more than {TILE_ROWS}"
        if network.encoding not in ("fourier", "chebyshev"):
            return "other features than waves and polynomials"
        if [layer.activation for layer in network.layers] != ["product", "relu", None]:
            return "other layers than a product and one relu layer"
        first, second, last = network.layers
        if second.fan_out != second.fan_in or last.fan_out > 4:
            return "layers of unequal widths, or more than 4 channels"
        padded = _padded(network)
        features = _padded_features(network)
        sums = features // 64 * first.factors * padded // 4
        unit_sums = first.factors * _UNIT // 2
        if features > _MOST_FEATURES or sums > _MOST_SUMS or unit_sums > _MOST_UNIT_SUMS:
            return "gradients that have no room on a multiprocessor"
        if padded > _MOST_PADDED or _shared_bytes(network) > SHARED_LIMIT_BYTES:
            return "layers that have no room on a multiprocessor"
        return None

    @property
    def memory_bytes(self) -> int:
        """What it has allocated."""
        return sum(array.nbytes for array in self._allocated)

    def partial_gradients(self) -> list[PartialGradient]:
        """One for each parameter tensor, in order."""
        scale = 1 / (MIXED_GRADIENT_SCALE * self._batch.pixels * self._batch.channels)
        return [self._partial(name, scale) for name in self._network.parameter_names]

    def prepare(self) -> None:
        """Nothing: each `launch` begins with the parameters as they are."""

    def launch(self) -> None:
        """Put the pass on the current stream."""
        self._launch()

    def _partial(self, name: str, scale: float) -> PartialGradient:
        array = self._gradients[name]
        layer = self._network.layers[int(name.split(".")[1])]
        stride = array.size // len(array)
        columns = layer.values_out
        return PartialGradient(
            array, len(array), stride, array.shape[-1], 0, scale, columns=columns
        )

    def _zeros(self, *shape: int, dtype: str = "float32") -> Array:
        self._allocated.append(self._xp.zeros(shape, dtype=dtype))
        return self._allocated[-1]


def _padded(network: NetworkPlan) -> int:
    """Columns of each factor, for warpgroups with whole units."""
    step = _TILES * _UNIT
    return -(-network.layers[0].values_out // step) * step


def _padded_features(network: NetworkPlan) -> int:
    """Columns of features: with a constant one, which is among the polynomials if there are any."""
    constant = 0 if network.encoding == "chebyshev" else 1
    return -(-(network.layers[0].fan_in + constant) // 64) * 64


def _shared_bytes(network: NetworkPlan) -> int:
    """At least the shared memory of a block."""
    first, channels = network.layers[0], network.layers[-1].fan_out
    features, padded = _padded_features(network), _padded(network)
    weights = 2 * features * first.factors * padded + 2 * padded**2
    tables = 2 * TILE_ROWS * (first.factors * padded + max(features, 2 * padded))
    notes = TILE_ROWS * (16 + 4 * channels) + 32 * (16 + 8 * channels)
    numbers = features + padded * (3 * channels + 2 + 8)
    return weights + _TILES * (tables + notes) + 4 * numbers + 1024


def _constants(network: NetworkPlan, batch: BatchPlan, waves: int) -> dict[str, Any]:
    first, padded = network.layers[0], _padded(network)
    frequencies = listed(["1.0f"] * 2)
    return {
        **network.constants(),
        **batch.constants(),
        "HIDDEN": 2,
        "WIDTHS": listed([padded] * 2),
        "REAL_WIDTHS": listed([first.values_out] * 2),
        "FOURIER_COUNT": waves,
        "INPUT_WIDTH": _padded_features(network),
        "ACTIVATION": ACTIVATIONS.index("relu"),
        "FREQUENCIES": frequencies,
        "INVERSE_FREQUENCIES": frequencies,
        "BLOCK_TILES": _TILES,
        "STAGES": 1,
        "STAGE_BYTES": 16384,
        "BY_FOURS": False,
        "GRADIENT_SCALE": MIXED_GRADIENT_SCALE,
        "FACTORS": first.factors,
        "PITCH": padded + _GAP,
        "FEATURES": first.fan_in,
        "WIDTH": first.values_out,
        "SHARED_BYTES": SHARED_LIMIT_BYTES,
    }


def _prelude(network: NetworkPlan) -> str:
    padded, factors = _padded(network), network.layers[0].factors
    own = padded // _TILES
    forms = wgmma_source({8, own, factors * own})
    return forms + operand_wgmma_source({factors * _UNIT, padded})
