"""Rendering with an upscaler: it enlarges its image step by step, and the last step's result is
resampled to the exact size."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield.fields.upscaler import Upscaler, UpscalingNetwork
from neuralfield.images.coordinates import Box
from neuralfield.images.metrics import as_seen
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.upscaler.upscaler_objective import ENLARGING, resized, turned, turned_back

TILE_PX = 128
"""Side of the tiles that the network processes, which bounds the memory of its layers."""

STEP_ROWS = 512
"""Number of rows of an enlarged image that are computed at once."""

BAND_VALUES = 1 << 20
"""Maximum number of values of the render that are computed at once, unless one row has more."""

_FILTER_REACH_PX = 4
"""Number of pixels to keep on each side for a Lanczos filter, which uses three of them."""

Rows = Callable[[int, int], np.ndarray]
"""(top, bottom) -> those rows of an image; float32, shape (bottom - top, width, channels)."""


def upscaled_bands(
    network: UpscalingNetwork,
    settings: Upscaler,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box,
    threads: int = 1,
) -> Iterator[np.ndarray]:
    """Render an image of `width` x `height` pixels from top to bottom, some rows at a time.

    The image is repeatedly enlarged by the network's factor until it is no smaller than the render,
    and then the exact box filter reduces it to the size of the render. The image before the last
    step is in memory as a whole; of the last step's image, and of the render, only a band is. Bands
    are float32 in [0, 1], shape (rows, width, channels). The result does not depend on `threads`.
    """
    image = as_seen(to_host(network.image).astype(np.float32))
    window = np.array(box) * np.tile(image.shape[1::-1], 2)
    ratio = max(width / (window[2] - window[0]), height / (window[3] - window[1]))
    steps = max(0, math.ceil(math.log(ratio, settings.factor) - 1e-6))
    # a step uses less than half of this margin, and enlarges the rest at least twofold
    margin = 2 * (settings.reach_px + 3 * _FILTER_REACH_PX)
    image, window = _cut(image, window, margin)
    with ThreadPoolExecutor(threads) as pool, threadpool_limits(limits=1):
        enlarge = _Enlarger(network, settings, device, pool).rows
        for _ in range(steps - 1):
            rows_count = settings.factor * len(image)
            tops = range(0, rows_count, STEP_ROWS)
            bands = [enlarge(image, top, min(top + STEP_ROWS, rows_count)) for top in tops]
            image, window = _cut(np.concatenate(bands), window * settings.factor, margin)
        rows = partial(enlarge, image) if steps else lambda top, bottom: image[top:bottom]
        factor = settings.factor if steps else 1
        yield from _resampled(rows, factor * len(image), window * factor, width, height)


def _cut(image: np.ndarray, window: np.ndarray, margin: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of an image that a window needs, and where the window lies in it."""
    left, top = (max(0, math.floor(side) - margin) for side in window[:2])
    right, bottom = (math.ceil(side) + margin for side in window[2:])
    return image[top:bottom, left:right], window - np.array([left, top, left, top])


def _resampled(
    rows: Rows, rows_count: int, window: np.ndarray, width: int, height: int
) -> Iterator[np.ndarray]:
    """Resample a window of an image, of which `rows` computes rows, to the exact size, by bands."""
    left, top, right, bottom = window.tolist()
    scale = (bottom - top) / height
    count = max(1, BAND_VALUES // width)
    for first in range(0, height, count):
        last = min(first + count, height)
        start, stop = top + first * scale, min(top + last * scale, rows_count)
        above = math.floor(start)
        light = rows(above, math.ceil(stop))
        part = (left, start - above, right, stop - above)
        yield _without_light(resized(light, (width, last - first), "box", part))


def _without_light(values: np.ndarray) -> np.ndarray:
    """Invert `as_seen`, with results in [0, 1]; fully transparent pixels become black."""
    values = np.clip(values, 0, 1)
    if values.shape[2] < 4:
        return values
    alpha = values[..., 3:]
    colour = np.divide(values[..., :3], alpha, out=np.zeros_like(values[..., :3]), where=alpha > 0)
    return np.concatenate([np.minimum(colour, 1), alpha], axis=2)


@dataclass(frozen=True)
class _Enlarger:
    """A network that enlarges images by its factor, tile by tile on the threads of a pool."""

    network: UpscalingNetwork
    settings: Upscaler
    device: Device
    pool: ThreadPoolExecutor

    def rows(self, image: np.ndarray, top: int, bottom: int) -> np.ndarray:
        """Compute some rows of an image enlarged by the factor.

        They are corrected once so that, when they are reduced, they are closer to the image: by
        back-projection (Irani & Peleg, "Improving resolution by image registration", 1991), as in
        the upscaler's paper.
        """
        factor, (height, width, _) = self.settings.factor, image.shape
        above = max(0, top // factor - _FILTER_REACH_PX)
        below = min(height, -(-bottom // factor) + _FILTER_REACH_PX)
        found = self._network_rows(image, above * factor, below * factor)
        means = found.reshape(below - above, factor, width, factor, -1).mean(axis=(1, 3))
        missing = image[above:below] - means
        part = (0, top / factor - above, width, bottom / factor - above)
        found = found[top - above * factor : bottom - above * factor]
        return np.clip(found + resized(missing, found.shape[1::-1], ENLARGING, part), 0, 1)

    def _network_rows(self, image: np.ndarray, top: int, bottom: int) -> np.ndarray:
        """Correct some rows of an image enlarged by Lanczos with the network, tile by tile."""
        factor, reach = self.settings.factor, self.settings.reach_px
        height, width = (factor * side for side in image.shape[:2])
        above, below = max(0, top - reach), min(height, bottom + reach)
        part = (0, above / factor, image.shape[1], below / factor)
        enlarged = resized(image, (width, below - above), ENLARGING, part)
        beyond = (reach - (top - above), reach - (below - bottom))
        enlarged = np.pad(enlarged, (beyond, (reach, reach), (0, 0)), mode="edge")

        def tile(corner: tuple[int, int]) -> np.ndarray:
            y, x = corner
            side = TILE_PX + 2 * reach
            return self._corrected(enlarged[y : y + side, x : x + side])

        result = np.empty((bottom - top, width, image.shape[2]), np.float32)
        lefts = range(0, width, TILE_PX)
        corners = [(y, x) for y in range(0, bottom - top, TILE_PX) for x in lefts]
        for (y, x), found in zip(corners, self.pool.map(tile, corners), strict=True):
            result[y : y + TILE_PX, x : x + TILE_PX] = found
        return result

    def _corrected(self, enlarged: np.ndarray) -> np.ndarray:
        """Correct a tile with the network; with `ensemble`, average over its eight symmetries."""
        dtype = self.network.image.dtype
        found = []
        for symmetry in range(8 if self.settings.ensemble else 1):
            seen = np.ascontiguousarray(turned(enlarged, symmetry))
            values = self.network(self.device.asarray(seen, dtype=dtype)[None]).data
            found.append(turned_back(to_host(values)[0], symmetry))
        return np.asarray(np.mean(found, axis=0, dtype=np.float32))
