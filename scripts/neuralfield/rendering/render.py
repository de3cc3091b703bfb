"""Rendering a trained network at any size, in bounded memory."""

import math
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Required, TypedDict, Unpack

import numpy as np

from neuralfield.images.coordinates import WHOLE, Box, axis_centres, extent
from neuralfield.images.image import ImageShape
from neuralfield.images.saving import write_bands
from neuralfield.rendering import Renderer, make_renderer
from neuralfield.rendering.host_bands import bands_on_host
from neuralfield.rendering.levels import to_levels
from neuralfield.rendering.transparent_paper import PaperAndInk
from neuralfield.system.device import Array, Device, namespace_of
from neuralfield.system.errors import CheckpointError, ConfigError
from neuralfield.tasks.image.mosaic import Mosaic, Trained

BAND_POINTS = {"cpu": 1 << 20, "gpu": 1 << 22}
"""Maximum number of pixels that are rendered at a time, unless a single row has more: this bounds
the memory for images of any height."""

_SAMPLES_OF_TRAINING_PIXEL = 256
"""Number of samples of a training pixel, for a field that was fitted to means over pixels."""

_MOST_SAMPLES = 256
_FIRST_SAMPLES = 16
_FLAT_SPREAD = 0.1
"""If the first samples of a pixel differ by no more than this, their mean is good to 1 / 256."""

_EDGES = {"film": 1 / 8, "image": 0.01}
"""Neighbours that differ by more than this have an edge between them: in a frame of a time-lapse,
and in a black-and-white image. With samples only at these edges, a black-and-white image differs by
at most 5 of 255 levels from one with all samples everywhere (74 dB at 1,024 pixels), and takes a
third of the time."""

_GOLDEN_FRACTION = (math.sqrt(5) - 1) / 2


class Options(TypedDict, total=False):
    """The parameters that all functions here pass on to `render_bands`."""

    device: Required[Device]
    box: Box
    samples: int | str
    only_edges: bool
    threads: int
    bit_depth: int
    paper: bool


def choose_samples(model: Trained, width: int, height: int, box: Box = WHOLE) -> int:
    """Choose the number of samples of each rendered pixel.

    A field fitted to points gets one sample, at the centre, with two exceptions. A black-and-white
    image that is rendered larger gets four samples, for smooth edges; the CPU takes them only at
    edges. A mosaic that is rendered smaller than its training image gets up to 16 samples, because
    one point does not represent a whole pixel.

    A field fitted to footprints gets one sample if a rendered pixel is at most half a training
    pixel. Otherwise it is averaged over the rendered pixel as it was over the training pixel, with
    256 samples at the training size and below.
    """
    across = max(model.width * (box[2] - box[0]) / width, model.height * (box[3] - box[1]) / height)
    if model.footprint and _one_pixel_sides(model):
        across = max(across, 1.0)  # each rendered pixel covers the whole of that side
    if isinstance(model, Mosaic) and not model.footprint and across > 1:
        return min(_FIRST_SAMPLES, math.ceil(across**2))
    if not model.footprint:
        return 4 if model.mode == "bilevel" and across < 1 else 1
    if across <= 0.5:
        return 1
    return min(_MOST_SAMPLES, math.ceil(_SAMPLES_OF_TRAINING_PIXEL * across**2))


def _one_pixel_sides(model: Trained) -> list[int]:
    """Find the axes, 0 for x and 1 for y, along which the training image is one pixel.

    Such an image does not determine how its function varies along these axes, so a render is
    constant along them. It has the value at the centre, or the mean over the pixel, whichever the
    field was fitted to.
    """
    if isinstance(model, Mosaic):
        return []
    return [axis for axis, side in enumerate((model.width, model.height)) if side == 1]


def sample_offsets(count: int) -> np.ndarray:
    """Return offsets of a pixel's samples from its centre, in pixels; float64, shape (count, 2).

    They form a golden-ratio lattice, in which no two samples share a row or a column, so that an
    edge at any angle divides them nearly as it divides the area.
    """
    index = np.arange(count) + 0.5
    offsets = np.stack([index / count, index * _GOLDEN_FRACTION % 1], axis=1)
    return offsets - offsets.mean(axis=0)


def size_for_longer_side(
    model: Trained | ImageShape, longer_px: int, box: Box = WHOLE
) -> tuple[int, int]:
    """Return width and height of a render in the image's own proportions."""
    part_width, part_height = model.width * (box[2] - box[0]), model.height * (box[3] - box[1])
    longer = max(part_width, part_height)
    width, height = (
        max(1, math.floor(longer_px * part / longer + 0.5)) for part in (part_width, part_height)
    )
    return width, height


def render_bands(
    model: Trained,
    width: int,
    height: int,
    *,
    device: Device,
    box: Box = WHOLE,
    samples: int | str = "auto",
    only_edges: bool = False,
    threads: int = 1,
    bit_depth: int | None = None,
    paper: bool = True,
) -> Generator[np.ndarray, None, None]:
    """Yield a render of `width` x `height` pixels from top to bottom, some rows at a time: float32
    in [0, 1], or levels of `bit_depth` bits, uint8 or uint16; shape (rows, width, channels).

    Rows are valid until the next ones are requested, because their memory is then used again; a GPU
    renders the next rows in the meantime. Each pixel is the mean of `samples` samples; for "auto"
    see `choose_samples`. With `only_edges`, the CPU takes one sample of a pixel that is like its
    neighbours. This is for frames of time-lapses: it is faster than a few samples everywhere, but
    can miss thin lines. Without `paper`, a drawing in one ink gets an alpha channel, in which paper
    is transparent; `InputError` is raised for other images. Raises `ConfigError` for an empty or
    inverted box or a size below 1, and `CheckpointError`, on the CPU, if weights are so large that
    values are not finite.
    """
    if width < 1 or height < 1:
        raise ConfigError("render: size", f"{width} x {height}", "at least 1 x 1 pixels")
    if not (0 <= box[0] < box[2] <= 1 and 0 <= box[1] < box[3] <= 1):
        raise ConfigError(
            "render: box", list(box), "0 <= left < right <= 1, 0 <= top < bottom <= 1"
        )
    tones = None
    if not paper and model.channels < 4:
        seen = render(model, model.width, model.height, device=device, threads=threads)
        tones = PaperAndInk.of(seen)
    count = choose_samples(model, width, height, box) if samples == "auto" else int(samples)
    columns, rows, pixel = _positions(model, width, height, box, device.xp)
    every = device.asarray(sample_offsets(count) * pixel)
    first = device.asarray(sample_offsets(min(count, _FIRST_SAMPLES)) * pixel)
    edge = _edge(model, samples, only_edges) if device.kind == "cpu" else None
    rows_per_band = max(1, BAND_POINTS[device.kind] // width)
    with closing(make_renderer(model, device, threads)) as renderer:
        grid = partial(_averaged, renderer, first, every)
        if edge is not None:
            grid = partial(_averaged_at_edges, renderer, every, edge)
        if constant := _one_pixel_sides(model):
            grid = partial(_constant_along, constant, grid)

        def render_band(index: int) -> Array:
            band = rows[index * rows_per_band :][:rows_per_band]
            return _as_stored(grid(columns, band), None if tones else bit_depth)

        bands = partial(bands_on_host, device, -(-height // rows_per_band), render_band)
        # `map` keeps the only reference, so that bands end before the renderer is closed
        yield from map(partial(tones.transparent, bit_depth), bands()) if tones else bands()


def _positions(
    model: Trained, width: int, height: int, box: Box, xp: ModuleType
) -> tuple[Array, Array, np.ndarray]:
    """Return x and y of the pixels' centres, and the sides of a pixel, in coordinates."""
    half_width, half_height = extent(model.width, model.height)
    columns = axis_centres(xp, width, half_width, box[0], box[2])
    rows = axis_centres(xp, height, half_height, box[1], box[3])
    sides = [half_width * (box[2] - box[0]) / width, half_height * (box[3] - box[1]) / height]
    for axis in _one_pixel_sides(model):
        (columns, rows)[axis][...] = 0
        sides[axis] = (half_width, half_height)[axis] if model.footprint else 0.0
    return columns, rows, 2 * np.array(sides)


def _edge(model: Trained, samples: int | str, only_edges: bool) -> float | None:
    """Return the difference of neighbours that get several samples on the CPU; None if all do.

    A GPU takes as long for all samples as for those at edges.
    """
    if only_edges:
        return _EDGES["film"]
    is_drawing = model.mode == "bilevel" and not model.footprint
    return _EDGES["image"] if samples == "auto" and is_drawing else None


def _averaged(renderer: Renderer, first: Array, every: Array, columns: Array, rows: Array) -> Array:
    """Average samples over each pixel, with all samples only if the pixel's first samples differ.

    `first`, shape (n, 2), are the offsets of the samples of every pixel, and `every`, likewise, are
    those of all samples of an uneven pixel. As of all functions of positions here, the result has
    the shape (rows, columns, channels).
    """
    values, spreads = renderer.pixels(columns, rows, first)
    if len(first) < len(every):
        # a function, because CuPy's operators import SciPy if the other operand is a number
        uneven = namespace_of(spreads).greater(spreads, _FLAT_SPREAD).nonzero()[0]
        if len(uneven):
            values[uneven], _ = renderer.pixels(columns, rows, every, uneven)
    return values.reshape(len(rows), len(columns), -1)


def _averaged_at_edges(
    renderer: Renderer, every: Array, edge: float, columns: Array, rows: Array
) -> Array:
    """Average samples over pixels at edges, on the CPU; other pixels have only the first sample."""
    values, _ = renderer.pixels(columns, rows, every[:1])
    shown = values.reshape(len(rows), len(columns), -1)
    uneven = np.zeros(shown.shape[:2], bool)
    uneven[1:] |= (down := _is_edge(shown[1:], shown[:-1], edge))
    uneven[:-1] |= down
    uneven[:, 1:] |= (across := _is_edge(shown[:, 1:], shown[:, :-1], edge))
    uneven[:, :-1] |= across
    which = uneven.ravel().nonzero()[0]
    if len(which) and len(every) > 1:
        rest, _ = renderer.pixels(columns, rows, every[1:], which)
        values[which] += (rest - values[which]) * ((len(every) - 1) / len(every))
    return shown


def _is_edge(values: np.ndarray, others: np.ndarray, edge: float) -> np.ndarray:
    """Return for each pixel whether any channel differs by more than `edge`."""
    return np.greater(np.abs(values - others), edge).max(axis=-1)


def _constant_along(
    axes: list[int], grid: Callable[[Array, Array], Array], columns: Array, rows: Array
) -> Array:
    """Render one column or row for all, along the axes on which the image does not vary."""
    values = grid(columns[:1] if 0 in axes else columns, rows[:1] if 1 in axes else rows)
    xp = namespace_of(values)
    return xp.ascontiguousarray(xp.broadcast_to(values, (len(rows), len(columns), values.shape[2])))


def _as_stored(values: Array, bit_depth: int | None) -> Array:
    """Clip values, or round them to levels; raise an error on the CPU if one is not finite."""
    xp = namespace_of(values)
    # not checked on a GPU, because the host would have to wait for it
    if xp is np and not np.isfinite(values).all():
        found, expected = "values that are not finite", "weights that give finite values"
        raise CheckpointError("model", found, expected, "train the network again")
    if bit_depth is not None:
        return to_levels(values, bit_depth)
    return xp.clip(values, 0, 1).astype(np.float32, copy=False)


def render(model: Trained, width: int, height: int, **options: Unpack[Options]) -> np.ndarray:
    """Render an image in memory: float32 of shape (height, width, channels); see `render_bands`."""
    channels = model.channels if options.get("paper", True) else 4
    image = np.empty((max(0, height), max(0, width), channels), np.float32)
    top = 0
    for band in render_bands(model, width, height, **options):
        image[top : top + len(band)] = band
        top += len(band)
    return image


def render_to_png(
    model: Trained, path: Path, width: int, height: int, **options: Unpack[Options]
) -> None:
    """Render an image of any size into a PNG, by default of 8 bits, holding at most a band."""
    bit_depth = options.setdefault("bit_depth", 8)
    write_bands(path, render_bands(model, width, height, **options), width, height, bit_depth)
