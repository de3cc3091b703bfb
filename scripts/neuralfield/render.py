"""Drawing a trained network again, at any size, in bounded memory."""

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from neuralfield.coordinates import WHOLE, Box, axis_centres, extent, grid
from neuralfield.device import Array, Device, to_host
from neuralfield.errors import ConfigError
from neuralfield.fields import CoordinateNetwork
from neuralfield.images.writing import PngBandWriter
from neuralfield.model import Model

_BLOCK_POINTS = {"cpu": 4096, "gpu": 1 << 18}
_BAND_POINTS = 1 << 22
"""Points drawn before their rows are handed on: what bounds the memory of a picture of any size."""

_SAMPLES_ACROSS_TRAINING_PIXEL = 4
"""How finely a field taught means over pixels is averaged when it is drawn small."""


def choose_supersample(model: Model, width: int, height: int, box: Box = WHOLE) -> int:
    """Samples along each side of a drawn pixel.

    One, at the centre, for a field taught by points. A field taught by footprints is averaged over
    the drawn pixel as it was over the training pixel: 4 x 4 samples at the training size, fewer
    for finer pixels, more for coarser ones (at most 16 x 16).
    """
    if not model.footprint:
        return 1
    across = max(model.width * (box[2] - box[0]) / width, model.height * (box[3] - box[1]) / height)
    return min(16, max(2, math.ceil(_SAMPLES_ACROSS_TRAINING_PIXEL * across)))


def size_for_longer_side(model: Model, longer_px: int, box: Box = WHOLE) -> tuple[int, int]:
    """Width and height of a redraw in the picture's own proportions."""
    part_width, part_height = model.width * (box[2] - box[0]), model.height * (box[3] - box[1])
    longer = max(part_width, part_height)
    width, height = (max(1, round(longer_px * part / longer)) for part in (part_width, part_height))
    return width, height


def render_bands(
    model: Model,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box = WHOLE,
    supersample: int | str = "auto",
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
    supersample : int or "auto"
        Samples along each side of a pixel; see `choose_supersample`.
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
    samples = (
        choose_supersample(model, width, height, box) if supersample == "auto" else supersample
    )
    samples = int(samples)
    dtype = model.metadata.get("precision", "float32")
    network = model.network(device, dtype)
    half_width, half_height = extent(model.width, model.height)
    columns = axis_centres(device.xp, width * samples, half_width, box[0], box[2]).astype(dtype)
    rows = axis_centres(device.xp, height * samples, half_height, box[1], box[3]).astype(dtype)
    rows_per_band = max(1, _BAND_POINTS // (width * samples * samples))
    with ThreadPoolExecutor(threads) as pool, threadpool_limits(limits=1):
        for top in range(0, height, rows_per_band):
            bottom = min(height, top + rows_per_band)
            band = rows[top * samples : bottom * samples]
            values = _draw(network, grid(columns, band), device, pool)
            values = values.reshape(bottom - top, samples, width, samples, model.channels)
            yield np.clip(to_host(values.mean(axis=(1, 3))), 0, 1).astype(np.float32)


def render(
    model: Model,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box = WHOLE,
    supersample: int | str = "auto",
    threads: int = 1,
) -> np.ndarray:
    """Draw a whole picture in memory; parameters as `render_bands`.

    Returns
    -------
    ndarray of float32, shape (height, width, channels), in [0, 1]
    """
    bands = render_bands(
        model, width, height, device=device, box=box, supersample=supersample, threads=threads
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
    supersample: int | str = "auto",
    threads: int = 1,
    bit_depth: int = 8,
) -> None:
    """Draw a picture of any size into a PNG, never holding more than a band of it."""
    dtype = np.uint8 if bit_depth == 8 else np.uint16
    with PngBandWriter(path, width, height, model.channels, bit_depth) as writer:
        for band in render_bands(
            model, width, height, device=device, box=box, supersample=supersample, threads=threads
        ):
            writer.write_rows(np.rint(band * (2**bit_depth - 1)).astype(dtype))


def _draw(
    network: CoordinateNetwork, points: Array, device: Device, pool: ThreadPoolExecutor
) -> Array:
    size = _BLOCK_POINTS[device.kind]
    blocks = [points[start : start + size] for start in range(0, len(points), size)]
    return device.xp.concatenate(list(pool.map(lambda block: network(block).data, blocks)))
