"""The decoder of coded images for NVIDIA GPUs: the pixels are those of the CPU, bit for bit."""

from collections.abc import Sequence

import numpy as np

from neuralfield.coding.coded_image import LARGEST_VALUE, VALUE_BITS, CodedImage, Layer
from neuralfield.coding.context import INPUTS, SURROUNDINGS, WAVE_STEP
from neuralfield.coding.decoding import Symbols
from neuralfield.coding.laplace import LARGEST_MEAN, LARGEST_SCALE, LEAST_SCALE, TABLES
from neuralfield.coding.nfz import code_latents
from neuralfield.engines.cuda.latents.layout import shared_constants
from neuralfield.engines.cuda.launch import THREADS, blocks_for
from neuralfield.engines.cuda.source import Module, compile_module
from neuralfield.system.device import Array, Device

_ROW, _RING, _PAD, _BYTES_AFTER, _MOST_STATES = 20, 16, 4, 32, 16
"""Numbers of a row of weights, waves that are kept, zeros around them, and zeros after the stream;
see ``decode.cu``. Streams of more states, which no encoder writes, are read on the CPU."""

_MOST_SHARED_BYTES = 24 << 10
"""Beside the static shared memory, within the 48 KiB of every GPU."""


class CudaDecoder:
    """Decodes the latents of a file (see `neuralfield.coding.nfz.from_bytes`), and its pixels.

    One multiprocessor decodes the latents, wave after wave, and all compute the pixels.
    """

    def __init__(self, device: Device) -> None:
        self._xp = device.xp

    def read_latents(
        self,
        latents: Sequence[np.ndarray],
        rate: Sequence[Layer],
        largest: Sequence[int],
        symbols: Symbols,
    ) -> None:
        """Decode the latents of all grids, which are overwritten, from a stream."""
        if symbols.states.size > _MOST_STATES:
            return code_latents(latents, rate, largest, symbols)
        starts = np.cumsum([0, *(grid.size for grid in latents)])
        grids = [(*latents[k].shape, largest[k], starts[k]) for k in range(len(latents))]
        weights = np.zeros((2 * INPUTS + 2, _ROW), np.int32)
        weights[:, :INPUTS] = np.concatenate([layer.weights for layer in rate])
        found = self._xp.zeros(int(starts[-1]), "int8")
        states, cursor = self._xp.asarray(symbols.states), self._xp.asarray(symbols.cursor)
        arguments = (
            *(self._numbers(grids), self._numbers(weights)),
            self._numbers(np.concatenate([layer.shifted_bias for layer in rate])),
            self._numbers([layer.weight_bits for layer in rate]),
            *(self._numbers(TABLES), self._xp.asarray(np.pad(symbols.stream, (0, _BYTES_AFTER)))),
            *(np.int64(symbols.stream.size), states, cursor, found),
        )
        ring_bytes = _RING * (latents[0].shape[0] + 2 * _PAD)
        is_large = ring_bytes > _MOST_SHARED_BYTES
        ring = self._xp.empty(ring_bytes, "int8") if is_large else np.uintp(0)
        kernel = decoder_module(len(latents), 0, 1, states.size).get_function("decode")
        shared_bytes = 0 if is_large else ring_bytes
        kernel((1,), (THREADS,), (*arguments, ring), shared_mem=shared_bytes)
        symbols.states[:], symbols.cursor[:] = states.get(), cursor.get()
        on_host = found.get()
        for k, grid in enumerate(latents):
            grid[:] = on_host[starts[k] : starts[k + 1]].reshape(grid.shape)

    def pixels(self, image: CodedImage) -> np.ndarray:
        """Compute the levels of a coded image: uint8, shape (height, width, channels)."""
        grids, hidden = len(image.latents), len(image.hidden.weights)
        module = decoder_module(grids, hidden, image.channels, 1)
        enlarge = module.get_function("enlarge")
        latents = self._xp.zeros(0, "int8")
        planes, coarse = latents, (np.int32(0), np.int32(0))
        for k in range(grids - 1, -1, -1):
            shape = tuple(np.int32(side) for side in image.latents[k].shape)
            latents = self._xp.asarray(image.latents[k])
            enlarged = self._xp.empty((grids - k, latents.size), "int16")
            taps = image.filters.weights[k] if k < grids - 1 else ()
            arguments = (
                *(latents, planes, *coarse, self._numbers(taps)),
                *(np.int32(image.filters.weight_bits), enlarged, *shape),
            )
            enlarge((blocks_for(latents.size), grids - k), (THREADS,), arguments)
            planes, coarse = enlarged, shape
        levels = self._xp.empty((image.height, image.width, image.channels), "uint8")
        layers = (image.hidden, image.output)
        arguments = (
            *(latents, planes, *map(self._layer, layers)),
            *(np.int32(layer.weight_bits) for layer in layers),
            *(levels, *coarse),
        )
        module.get_function("synthesise")((blocks_for(latents.size),), (THREADS,), arguments)
        return levels.get()

    def _numbers(self, values: object) -> Array:
        return self._xp.asarray(np.asarray(values, np.int32))

    def _layer(self, layer: Layer) -> Array:
        return self._numbers(np.concatenate([layer.weights.ravel(), layer.shifted_bias]))


def decoder_module(grids: int, hidden: int, channels: int, lanes: int) -> Module:
    """Return the kernels for numbers of grids, hidden values, channels, and states of the coder."""
    constants = shared_constants(grids, hidden, channels) | {
        "LANES": lanes,
        "WAVE_STEP": WAVE_STEP,
        "MEAN_FACTORS": [(1 << VALUE_BITS) // len(group) for group in SURROUNDINGS],
        "VALUE_BITS": VALUE_BITS,
        "LARGEST_VALUE": LARGEST_VALUE,
        "LARGEST_MEAN": LARGEST_MEAN,
        "LEAST_SCALE": f"({LEAST_SCALE})",
        "LARGEST_SCALE": LARGEST_SCALE,
    }
    return compile_module("latents/decode.cu", constants)
