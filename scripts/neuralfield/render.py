"""Drawing a trained network again, at any size, in bounded memory."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield.coordinates import WHOLE, Box, axis_centres, extent, grid
from neuralfield.device import Array, Device, namespace_of, to_host
from neuralfield.errors import ConfigError
from neuralfield.fields import CoordinateNetwork
from neuralfield.images.writing import PngBandWriter
from neuralfield.model import Model

_BLOCK_POINTS = {"cpu": 4096, "gpu": 1 << 18}
_BAND_POINTS = 1 << 20
"""Points drawn before their rows are handed on: what bounds the memory of a picture of any size."""

_SAMPLES_OF_TRAINING_PIXEL = 256
"""How finely a field taught means over pixels is averaged over one of them."""

_MOST_SAMPLES = 256
_FIRST_SAMPLES = 16
_FLAT_SPREAD = 0.1
"""Where the first samples of a pixel differ by no more than this, their mean is good to 1 / 256."""

_GOLDEN_FRACTION = (math.sqrt(5) - 1) / 2


def choose_samples(model: Model, width: int, height: int, box: Box = WHOLE) -> int:
    """Samples of each drawn pixel.

    One, at the centre, for a field taught by points, and where a drawn pixel is no more than half
    a training pixel. Else a field taught by footprints is averaged over the drawn pixel as it was
    over the training pixel: 256 samples at the training size and below. Four, for smooth edges,
    where a black-and-white picture taught by points is drawn larger.
    """
    across = max(model.width * (box[2] - box[0]) / width, model.height * (box[3] - box[1]) / height)
    if not model.footprint:
        return 4 if model.mode == "bilevel" and across < 1 else 1
    if across <= 0.5:
        return 1
    return min(_MOST_SAMPLES, math.ceil(_SAMPLES_OF_TRAINING_PIXEL * across**2))


def sample_offsets(count: int) -> np.ndarray:
    """Where in a pixel its samples lie: offsets from its centre, in pixels.

    A golden-ratio lattice, in which no two samples share a row or a column, so that an edge at any
    angle divides them nearly as it divides the area.

    Returns
    -------
    ndarray of float64, shape (count, 2)
    """
    index = np.arange(count) + 0.5
    offsets = np.stack([index / count, index * _GOLDEN_FRACTION % 1], axis=1)
    return offsets - offsets.mean(axis=0)


def size_for_longer_side(model: Model, longer_px: int, box: Box = WHOLE) -> tuple[int, int]:
    """Width and height of a redraw in the picture's own proportions."""
    part_width, part_height = model.width * (box[2] - box[0]), model.height * (box[3] - box[1])
    longer = max(part_width, part_height)
    width, height = (
        max(1, math.floor(longer_px * part / longer + 0.5)) for part in (part_width, part_height)
    )
    return width, height


def render_bands(
    model: Model,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box = WHOLE,
    samples: int | str = "auto",
    threads: int = 1,
) -> Iterator[np.ndarray]:
    """Draw a picture from top to bottom, some rows at a time.

    Parameters
    ----------
    model : Model
    width, height : int
        Size of the redraw in pixels.
    device : Device
    box : (left, top, right, bottom)
        The part of the picture to draw, in fractions of its sides.
    samples : int or "auto"
        Samples of each pixel, of which the mean is drawn; see `choose_samples`.
    threads : int
        CPU cores to use.

    Yields
    ------
    ndarray of float32, shape (rows, width, channels), in [0, 1]

    Raises
    ------
    ConfigError
        An empty or inverted box, or a size below 1.
    """
    if width < 1 or height < 1:
        raise ConfigError("render: size", f"{width} x {height}", "at least 1 x 1 pixels")
    if not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1):
        raise ConfigError(
            "render: box", list(box), "0 <= left < right <= 1, 0 <= top < bottom <= 1"
        )
    if samples == "auto":
        samples = choose_samples(model, width, height, box)
    # weights taught in mixed precision are float32
    dtype = "float64" if model.metadata.get("precision") == "float64" else "float32"
    network = model.network(device, dtype)
    half_width, half_height = extent(model.width, model.height)
    columns = axis_centres(device.xp, width, half_width, box[0], box[2])
    rows = axis_centres(device.xp, height, half_height, box[1], box[3])
    sides = np.array(
        [half_width * (box[2] - box[0]) / width, half_height * (box[3] - box[1]) / height]
    )
    pixel = device.asarray(2 * sides)
    rows_per_band = max(1, _BAND_POINTS // width)
    with ThreadPoolExecutor(threads) as pool, threadpool_limits(limits=1):
        draw = partial(_draw, network, device, pool, dtype)
        for top in range(0, height, rows_per_band):
            band = rows[top : top + rows_per_band]
            values = _average(draw, grid(columns, band), pixel, int(samples))
            values = to_host(values).reshape(len(band), width, model.channels)
            yield np.clip(values, 0, 1).astype(np.float32)


def _average(draw: Callable[[Array], Array], centres: Array, pixel: Array, samples: int) -> Array:
    """The mean of samples over each pixel: all of them only where the first ones differ.

    Parameters
    ----------
    draw : callable
        From points (n, 2) to values (n, channels).
    centres : array, shape (n, 2)
    pixel : array, shape (2,)
        Sides of a pixel.
    samples : int
    """
    if samples > _FIRST_SAMPLES:
        values, spread = _mean_and_spread(draw, centres, pixel, _FIRST_SAMPLES)
        uneven = (spread > _FLAT_SPREAD).nonzero()[0]
        if len(uneven):
            values[uneven], _ = _mean_and_spread(draw, centres[uneven], pixel, samples)
        return values
    return _mean_and_spread(draw, centres, pixel, samples)[0]


def _mean_and_spread(
    draw: Callable[[Array], Array], centres: Array, pixel: Array, samples: int
) -> tuple[Array, Array]:
    """Mean of the samples of each pixel, and the largest difference between any two."""
    xp = namespace_of(centres)
    offsets = xp.asarray(sample_offsets(samples)) * pixel
    total = lowest = highest = draw(centres + offsets[0])
    for offset in offsets[1:]:
        values = draw(centres + offset)
        total = total + values
        lowest, highest = xp.minimum(lowest, values), xp.maximum(highest, values)
    return total / samples, (highest - lowest).max(axis=1)


def render(
    model: Model,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box = WHOLE,
    samples: int | str = "auto",
    threads: int = 1,
) -> np.ndarray:
    """Draw a whole picture in memory; parameters as `render_bands`.

    Returns
    -------
    ndarray of float32, shape (height, width, channels), in [0, 1]
    """
    bands = render_bands(
        model, width, height, device=device, box=box, samples=samples, threads=threads
    )
    return np.concatenate(list(bands))


def render_to_png(
    model: Model,
    path: Path,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box = WHOLE,
    samples: int | str = "auto",
    threads: int = 1,
    bit_depth: int = 8,
) -> None:
    """Draw a picture of any size into a PNG, never holding more than a band of it."""
    dtype = np.uint8 if bit_depth == 8 else np.uint16
    with PngBandWriter(path, width, height, model.channels, bit_depth) as writer:
        for band in render_bands(
            model, width, height, device=device, box=box, samples=samples, threads=threads
        ):
            writer.write_rows(np.rint(band * (2**bit_depth - 1)).astype(dtype))


def _draw(
    network: CoordinateNetwork, device: Device, pool: ThreadPoolExecutor, dtype: str, points: Array
) -> Array:
    size = _BLOCK_POINTS[device.kind]
    points = points.astype(dtype)
    blocks = [points[start : start + size] for start in range(0, len(points), size)]
    return device.xp.concatenate(list(pool.map(lambda block: network(block).data, blocks)))
