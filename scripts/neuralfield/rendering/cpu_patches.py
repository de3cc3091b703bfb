"""Groups of similar patches on a processor."""

import numpy as np

from neuralfield.engines.cpu.kernels.patches import filter_groups, find_similar
from neuralfield.engines.patch_groups import GROUP, PATCH_PX, REACH_PX, stride_of_channel
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.images.resizing import back_projected

_BAND_PX = 16


class CpuPatches:
    """Groups of similar patches of an image; channels have the shape (channels, height, width).

    All threads work on bands of the image in parallel.
    """

    def __init__(
        self, small: np.ndarray, height: int, width: int, stride_px: int, threads: int
    ) -> None:
        self._small, self._stride_px, self._pool = small, stride_px, ThreadPool(threads)
        last = max(height - PATCH_PX, 0), max(width - PATCH_PX, 0)
        tops, lefts = (np.append(np.arange(0, end, stride_px), end) for end in last)
        self._corners = np.repeat(tops, len(lefts)), np.tile(lefts, len(tops))
        self._corners = tuple(places.astype(np.int32) for places in self._corners)
        self._found = np.empty((len(self._corners[0]), GROUP), np.uint16)
        edges = np.arange(0, height + _BAND_PX, _BAND_PX)
        self._starts = np.searchsorted(self._corners[0], edges)

    def consistent(self, channels: np.ndarray, rounds: int) -> np.ndarray:
        """Correct the channels by those of the small image, see `back_projected`."""
        found = np.empty_like(channels, order="C")

        def correct(number: int, _thread: int) -> None:
            found[number] = back_projected(channels[number], self._small[number], rounds)

        self._pool.run(correct, len(channels))
        return found

    def mixed(self, channels: np.ndarray, matrix: np.ndarray) -> np.ndarray:
        """Compute each channel as a sum of channels, with a row of the matrix as weights."""
        mixed = np.zeros_like(channels, order="C")
        for total, weights in zip(mixed, matrix.astype(np.float32), strict=True):
            for weight, channel in zip(weights, channels, strict=True):
                if weight:
                    total += weight * channel
        return mixed

    def find(self, image: np.ndarray) -> None:
        """Find the groups of an image of shape (height, width)."""

        def find_in_band(band: int, _thread: int) -> None:
            part = self._starts[band : band + 2]
            find_similar(image, *self._corners, *part, self._found)

        self._pool.run(find_in_band, len(self._starts) - 1)

    def filtered(self, channels: np.ndarray, threshold: float) -> np.ndarray:
        """Filter the groups in each channel: transformed numbers below the threshold become 0."""
        height, beyond_px = channels.shape[1], REACH_PX + PATCH_PX
        totals: list[np.ndarray] = [channels] * (len(self._starts) - 1)
        tops = [max(_BAND_PX * band - REACH_PX, 0) for band in range(len(totals))]

        def filter_band(band: int, _thread: int) -> None:
            rows = min(_BAND_PX * (band + 1) + beyond_px, height) - tops[band]
            totals[band] = np.zeros((2, len(channels), rows, channels.shape[2]), np.float32)
            part = self._starts[band : band + 2]
            for channel, image in enumerate(channels):
                stride_px = stride_of_channel(channel, self._stride_px)
                given = image, *self._corners, *part, stride_px, self._found, limit, tops[band]
                filter_groups(*given, *totals[band][:, channel])

        limit = np.float32(threshold)
        self._pool.run(filter_band, len(totals))
        sums = np.zeros_like(channels)
        weights = np.zeros_like(channels)
        # in a fixed order, whichever thread finished first
        for top, (own_sums, own_weights) in zip(tops, totals, strict=True):
            rows = slice(top, top + own_sums.shape[1])
            sums[:, rows] += own_sums
            weights[:, rows] += own_weights
        for axis in (1, 2):  # the weight of a patch counts for all of its pixels
            along = np.moveaxis(weights, axis, 0)
            for shift in (1, PATCH_PX // 2):  # sums over 2, and then over 4
                along[shift:] += along[:-shift]
        return sums / weights

    def close(self) -> None:
        self._pool.close()
