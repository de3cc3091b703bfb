"""Groups of similar patches on a GPU; see `gpu_patches.cu`."""

from pathlib import Path

import numpy as np

from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.patch_groups import (
    FIRST_TURNS,
    GROUP,
    LEAST_VARIANCE,
    PATCH_PX,
    REACH_PX,
    ROUNDING,
    stride_of_channel,
)
from neuralfield.rendering.corrected_renderer import Weights, lanczos_weights
from neuralfield.rendering.gpu_resampling import resample_axis
from neuralfield.system.device import Array, Device

_KERNELS = (
    *("find_missing", "mix", "find_similar"),
    *("find_bases", "filter_groups", "take_means"),
)

_COMPARING, _ITERATING = 128, PATCH_PX**4
"""Number of threads that find a group, and that find the bases of a row of groups."""


class GpuPatches:
    """See `neuralfield.rendering.cpu_patches.CpuPatches`."""

    def __init__(
        self, small: np.ndarray, height: int, width: int, stride_px: int, device: Device
    ) -> None:
        xp, (channels, small_height, small_width) = device.xp, small.shape
        self._stride_px = stride_px
        self._xp, self._small = xp, device.asarray(np.ascontiguousarray(small))
        # number of corners along each axis: one for every stride, and the last one
        self._rows, self._columns = (
            -(-max(side - PATCH_PX, 0) // stride_px) + 1 for side in (height, width)
        )
        constants = {
            "CHANNELS": channels,
            "HEIGHT": height,
            "WIDTH": width,
            "SCALE": height // small_height,
            "PATCH": PATCH_PX,
            "GROUP": GROUP,
            "REACH": REACH_PX,
            "STRIDE": stride_px,
            "GROUP_COLUMNS": self._columns,
            "FIRST_TURNS": FIRST_TURNS,
            "LEAST_VARIANCE": f"{LEAST_VARIANCE}f",
            "ROUNDING": f"{ROUNDING}f",
            "COMPARING": _COMPARING,
            "THREADS": THREADS,
        }
        module = compile_module(Path(__file__).with_name("gpu_patches.cu"), constants)
        self._kernels = {name: module.get_function(name) for name in _KERNELS}
        self._found = xp.empty((self._rows * self._columns, GROUP), np.uint16)
        self._bases = xp.zeros((self._rows * self._columns, PATCH_PX**2, PATCH_PX**2), np.float32)
        self._sums = xp.zeros((height * width, 2), np.int64)
        self._missing = xp.empty(small.shape, np.float32)
        self._down = self._weights(height, small_height)
        self._across = self._weights(width, small_width)

    def consistent(self, channels: Array, rounds: int) -> Array:
        corrected = self._xp.array(channels, np.float32, order="C")
        for _ in range(rounds):
            self._compute("find_missing", self._missing.size, corrected, self._small, self._missing)
            high = resample_axis(self._missing, 1, *self._down)
            resample_axis(high, 2, *self._across, added_to=corrected)
        return corrected

    def mixed(self, channels: Array, matrix: np.ndarray) -> Array:
        mixed = self._xp.empty_like(channels, order="C")
        weights = self._xp.asarray(matrix, np.float32, order="C")
        self._compute("mix", mixed[0].size, channels, weights, mixed)
        return mixed

    def find(self, image: Array) -> None:
        grid = (len(self._found),)
        self._launch("find_similar", grid, (image, self._found), _COMPARING)

    def filtered(self, channels: Array, threshold: float) -> Array:
        filtered = self._xp.empty_like(channels)
        for channel, (image, total) in enumerate(zip(channels, filtered, strict=True)):
            stride_px = np.int32(stride_of_channel(channel, self._stride_px))
            arguments = image, self._found, stride_px, np.float32(threshold)
            self._launch("find_bases", (self._rows,), (*arguments, self._bases), _ITERATING)
            arguments = *arguments, self._bases, self._sums
            self._launch("filter_groups", (len(self._found),), arguments, GROUP)
            self._compute("take_means", total.size, self._sums, total)
        return filtered

    def close(self) -> None:
        pass

    def _compute(self, name: str, count: int, *arguments: Array) -> None:
        """Launch a kernel in which each thread computes one number."""
        self._launch(name, (-(-count // THREADS),), arguments, THREADS)

    def _launch(
        self, name: str, grid: tuple[int], arguments: tuple[Array, ...], threads: int
    ) -> None:
        Launch(self._kernels[name], grid, arguments, threads)()

    def _weights(self, length: int, small_length: int) -> Weights:
        """Return the indices and weights with which Lanczos enlarges an axis."""
        positions = (np.arange(length) + 0.5) * small_length / length - 0.5
        indices, weights = lanczos_weights(positions[:, None], small_length)
        return self._xp.asarray(indices), self._xp.asarray(weights, np.float32)
