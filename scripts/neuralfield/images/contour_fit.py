"""A fit of sharp contours between ink and paper to a blurred and noisy image.

The drawing is a smooth function, a grid of cubic B-splines, followed by a steep sigmoid. It is
fitted so that its means over pixels, blurred, are the image. That removes blur, and noise that no
contour explains. The blur's width and the levels of ink and paper are fitted with it: a steep
sigmoid cannot explain them by itself.
"""

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import repeat
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neuralfield.images.jpeg_file import BLOCK_PX, coefficients, from_coefficients, per_block
from neuralfield.images.resizing import resize_channel

_FINE = 4
"""Number of points of the drawing along each side of a pixel."""

_TILE_PX, _MARGIN_PX, _REACH_PX = 104, 8, 4
"""Largest side of the parts that are fitted on their own, how far their images extend over their
neighbours', and how far the blur reaches. The first two, and twice the last, are multiples of a
block of JPEG; matrices with few nonzero elements are multiplied by blocks of this size, too."""

_CONTRAST = 5.0
"""Gradient of the first drawing at contours, as a multiple of the image's."""

_LEARNING_RATE, _BETA1, _BETA2, _EPSILON = 0.1, 0.9, 0.99, 1e-3

_ROUND, _RELAXATION = 10, 1.5
"""After how many steps the blur and the ink's level are fitted again, and the factor on each
change, as contours follow it only later."""

_RAMP = 0.3
"""The share of the steps over which steepness grows."""

_LAST = 0.3
"""The share of the steps, the last ones, in which contours are fitted to a better image."""

_SPLINE_ERROR, _BENDING = 2 / 255, 0.2
"""Error of any drawing of splines, in addition to that of JPEG's quantisation, and weight of the
squared Laplacian of the splines, as a multiple of the mean variance of both errors."""

_PAPER_BLOCK = 0.98
"""Least mean of blocks without ink."""

_LEAST_BLUR_PX, _MOST_BLUR_PX, _MOST_INK, _MOST_PAPER = 0.05, 1.5, 0.3, 0.2
"""Limits of the blur, and largest changes of the levels of ink and paper."""


class Kernel(NamedTuple):
    """A kernel by which an image was reduced, first along rows, and then along columns."""

    name: str
    weights: Callable[[np.ndarray], np.ndarray]  # by the distance in pixels
    clips_rows: bool  # whether values were clipped to [0, 1] in between, too


class Splines(NamedTuple):
    """How finely contours are described."""

    per_px: int  # splines along each side of a pixel
    steepness: float
    steps: int
    softness: float = 1.0  # the first steepness, as a share of the later one
    first_step: int = 20  # after which the blur and the ink's level are fitted


SMOOTH, FINE = Splines(1, 24.0, 150), Splines(2, 8.0, 200)
"""For images with noise, which finer contours would follow, and without."""

SOFT, SOFTER = (SMOOTH._replace(softness=share, first_step=40) for share in (0.7, 0.5))
"""For lines so thin and blurred that they are light grey: others vanish where steepness is large
before contours are in place. Where `SMOOTH` explains an image, it is closer to the original."""


class Levels(NamedTuple):
    """The levels of ink and paper in an image."""

    ink: float = 0.0
    paper: float = 1.0

    def normalised(self, image: np.ndarray) -> np.ndarray:
        """Return the image with ink 0 and paper 1."""
        return (image - np.float32(self.ink)) / np.float32(self.paper - self.ink)

    def changed(self, ink: float, paper: float) -> "Levels":
        """Return levels with changes given as shares of their difference, within limits."""
        contrast = self.paper - self.ink
        ink, paper = self.ink + ink * contrast, self.paper + paper * contrast
        lightest = 1 + _MOST_PAPER
        return Levels(
            min(max(ink, -_MOST_INK), _MOST_INK), min(max(paper, 1 - _MOST_PAPER), lightest)
        )


class Contours(NamedTuple):
    """A fitted drawing, reduced to the image's size by the box filter, and fitted parameters."""

    drawing: np.ndarray  # float32, shape (height, width)
    image: np.ndarray  # what the drawing explains: blurred, with the levels; the same shape
    blur_px: float
    levels: Levels
    weights: list[np.ndarray]  # of the splines of each part


def fit_contours(
    image: np.ndarray,
    blur_px: float,
    splines: Splines,
    threads: int,
    *,
    fits_blur: bool = False,
    fits_levels: bool = False,
    jpeg_steps: np.ndarray | None = None,
    first: Contours | None = None,
    kernel: Kernel | None = None,
) -> Contours:
    """Fit the drawing behind an image.

    `image` is float32, shape (height, width); paper is 1 and ink 0, or close to them with
    `fits_levels`. `blur_px` is the blur's standard deviation, or its first value. For the luma of a
    JPEG file, `jpeg_steps` are those of the quantisation, shape (8, 8): coefficients with small
    steps then have large weights. With `first`, the last steps are taken again from contours with
    the same splines, and with their levels. With `kernel`, the image was reduced by it instead of
    blurred, and then clipped to [0, 1]. Results do not depend on the number of threads, if the BLAS
    takes one core for each product.
    """
    variances = None if jpeg_steps is None else _variances(jpeg_steps)
    tiles = _tiles(image, splines, variances, kernel)
    levels, start = Levels(), 0
    if first is not None:
        levels, start = first.levels, round((1 - _LAST) * splines.steps)
        for tile, weights in zip(tiles, first.weights, strict=True):
            tile.weights = weights.copy()
    with ThreadPoolExecutor(threads) as pool:
        now = repeat(_blurring(blur_px, kernel)), repeat(levels)
        for step in range(start, splines.steps, _ROUND):
            steps = range(step, min(step + _ROUND, splines.steps))
            list(pool.map(_Tile.fit, tiles, repeat(steps), *now))
            if step < splines.first_step or not (fits_blur or fits_levels):
                continue
            terms = [fits_blur, fits_levels, fits_levels]
            sums = np.sum(list(pool.map(_Tile.normal_equations, tiles, *now)), axis=0)
            change = np.zeros(3)
            change[terms] = _RELAXATION * _solved(sums[:, [*terms, True]][terms])
            variance = blur_px**2 + float(change[0])
            blur_px = math.sqrt(min(max(variance, _LEAST_BLUR_PX**2), _MOST_BLUR_PX**2))
            levels = levels.changed(float(change[1]), float(change[2]))
            now = repeat(_blurring(blur_px, kernel)), repeat(levels)
        drawings = list(pool.map(_Tile.drawings, tiles, *now))
    found = np.empty((2, *image.shape), np.float32)
    for tile, both in zip(tiles, drawings, strict=True):
        part = found[:, tile.corner[0] :, tile.corner[1] :]
        kept = both[:, : part.shape[1], : part.shape[2]]
        part[:, : kept.shape[1], : kept.shape[2]] = kept
    return Contours(found[0], found[1], blur_px, levels, [tile.weights for tile in tiles])


def error_ratio(luma: np.ndarray, explained: np.ndarray, jpeg_steps: np.ndarray) -> float:
    """Return the ratio of squared errors to the expected ones in blocks that have ink, for the
    quarter of the coefficients with the smallest steps; see `fit_contours`."""
    height, width = (side - side % BLOCK_PX for side in luma.shape)
    whole = slice(height), slice(width)

    def blocks(values: np.ndarray) -> np.ndarray:
        return values.reshape(-1, BLOCK_PX, width // BLOCK_PX, BLOCK_PX).swapaxes(1, 2)

    has_ink = blocks(explained[whole]).mean(axis=(2, 3)) < _PAPER_BLOCK
    ratios = blocks(coefficients((luma - explained)[whole]))[has_ink] ** 2 / _variances(jpeg_steps)
    is_small = jpeg_steps <= np.percentile(jpeg_steps, 25)
    return float(ratios[:, is_small].mean()) if has_ink.any() else 0.0


def _variances(jpeg_steps: np.ndarray) -> np.ndarray:
    """Return the expected squared errors of coefficients."""
    return jpeg_steps**2 / 12 + _SPLINE_ERROR**2


class _Band(NamedTuple):
    """A matrix that repeats a block of few columns along its diagonal, each `stride` farther."""

    block: np.ndarray
    stride: int

    def times(self, values: np.ndarray) -> np.ndarray:
        """Multiply the matrix by values along their first axis."""
        columns = self.block.shape[1]
        windows = sliding_window_view(values, columns, axis=0)[:: self.stride].swapaxes(1, 2)
        return np.matmul(self.block, windows).reshape(-1, values.shape[1])

    def adjoint(self, values: np.ndarray) -> np.ndarray:
        """Multiply the transposed matrix by values along their first axis."""
        rows, columns = self.block.shape
        parts = np.matmul(self.block.T, values.reshape(-1, rows, values.shape[1]))
        sums = np.zeros((len(parts) + 1, self.stride, values.shape[1]), np.float32)
        sums[:-1] = parts[:, : self.stride]
        sums[1:, : columns - self.stride] += parts[:, self.stride :]
        count = (len(parts) - 1) * self.stride + columns
        return sums.reshape(-1, values.shape[1])[:count]


class _Tile:
    """A part of an image that is fitted on its own by Adam.

    Matrices are multiplied along the first axis of an array and then along that of its transpose;
    the fine drawing is therefore transposed.
    """

    def __init__(
        self,
        corner: tuple[int, int],
        image: np.ndarray,  # with a margin
        weights: np.ndarray,
        splines: Splines,
        variances: np.ndarray | None,  # of the coefficients' errors, shape (8, 8)
        kernel: Kernel | None,
    ) -> None:
        self.corner = corner
        self._image, self.weights, self._splines = image, weights, splines
        self._steepness, self._is_clipped = _steepness(splines, 0), kernel is not None
        self._clips_rows = kernel is not None and kernel.clips_rows
        self._sampling = _sampling(splines.per_px)
        self._mean, self._square = np.zeros((2, *weights.shape), np.float32)
        self._bending, self._precisions, self._count = np.float32(0), None, 0
        if variances is not None:
            self._bending = np.float32(_BENDING * variances.mean())
            self._precisions = per_block(image.shape, variances.mean() / variances)

    def fit(self, steps: range, blurring: _Band, levels: Levels) -> None:
        target = levels.normalised(self._image)
        for step in steps:
            self._steepness = _steepness(self._splines, step)
            scale = self._steepness * np.float32(self._splines.per_px**2)
            drawing = self._fine()
            across = blurring.times(drawing)
            is_inside = None
            if self._clips_rows:
                is_inside = (across > 0) & (across < 1)
                np.clip(across, 0, 1, out=across)
            error = blurring.times(across.T) - target
            if self._is_clipped:
                error[((target >= 1) & (error > 0)) | ((target <= 0) & (error < 0))] = 0
            if self._precisions is not None and step >= _RAMP * self._splines.steps:
                error = from_coefficients(coefficients(error) * self._precisions)
            back = blurring.adjoint(error).T
            if is_inside is not None:
                back *= is_inside
            back = blurring.adjoint(back)
            back *= drawing
            back *= 1 - drawing
            gradient = self._sampling.adjoint(self._sampling.adjoint(back).T)
            gradient *= scale
            if self._bending:
                gradient += self._bending * _laplacian(_laplacian(self.weights))
            self._mean += np.float32(1 - _BETA1) * (gradient - self._mean)
            self._square += np.float32(1 - _BETA2) * (gradient**2 - self._square)
            rate = _LEARNING_RATE * min(1, 2 * (1 - step / self._splines.steps))
            self._count += 1
            rate /= 1 - _BETA1**self._count
            root = np.sqrt(self._square * np.float32(1 / (1 - _BETA2**self._count)))
            self.weights -= np.float32(rate) * self._mean / (root + np.float32(_EPSILON))

    def normal_equations(self, blurring: _Band, levels: Levels) -> np.ndarray:
        """Return the sums of a linear fit of the blur's variance and of the levels of ink and paper
        to the error; the derivative by the variance is half the Laplacian. Float64, (3, 4)."""
        found = blurring.times(blurring.times(self._fine()).T)
        error = levels.normalised(self._image) - found
        terms = np.stack([_laplacian(found) / 2, 1 - found, found, error], -1)
        inside = slice(_MARGIN_PX, -_MARGIN_PX)
        rows = terms[inside, inside].reshape(-1, 4).astype(np.float64)
        return rows[:, :3].T @ rows

    def drawings(self, blurring: _Band, levels: Levels) -> np.ndarray:
        """Return the means over pixels, and the image that they explain, without the margin.

        The shape is (2, height, width).
        """
        fine = self._fine()
        contrast = np.float32(levels.paper - levels.ink)
        across = blurring.times(fine)
        if self._clips_rows:
            np.clip(across, 0, 1, out=across)
        blurred = blurring.times(across.T) * contrast + np.float32(levels.ink)
        shape = fine.shape[1] // _FINE, _FINE, fine.shape[0] // _FINE, _FINE
        means = fine.T.reshape(shape).mean(axis=(1, 3))
        return np.stack(
            [
                image[margin:-margin, margin:-margin]
                for image, margin in ((means, _MARGIN_PX + _REACH_PX), (blurred, _MARGIN_PX))
            ]
        )

    def _fine(self) -> np.ndarray:
        """Return the drawing at all points, transposed."""
        z = self._sampling.times(self._sampling.times(self.weights).T)
        z *= np.float32(0.5) * self._steepness
        np.tanh(z, out=z)
        z *= np.float32(0.5)
        z += np.float32(0.5)
        return z


def _laplacian(values: np.ndarray) -> np.ndarray:
    """Return the sums of the differences from the four neighbours."""
    padded = np.pad(values, 1, "edge")
    around = padded[:-2, 1:-1] + padded[2:, 1:-1] + padded[1:-1, :-2] + padded[1:-1, 2:]
    return around - 4 * values


def _tiles(
    image: np.ndarray, splines: Splines, variances: np.ndarray | None, kernel: Kernel | None
) -> list[_Tile]:
    around = 2 * BLOCK_PX + _TILE_PX
    padded = np.pad(image, around, "edge")
    size = splines.per_px * padded.shape[1], splines.per_px * padded.shape[0]
    first = resize_channel(padded, size, "lanczos") - np.float32(0.5)
    first *= np.float32(_CONTRAST / (splines.softness * splines.steepness))
    sides = []
    for side in image.shape:
        count = -(-side // _TILE_PX)
        sides.append(-(-side // (count * BLOCK_PX)) * BLOCK_PX)
    tiles = []
    for y in range(0, image.shape[0], sides[0]):
        for x in range(0, image.shape[1], sides[1]):
            window, weights = [], []
            for start, side in zip((y + around, x + around), sides, strict=True):
                window.append(slice(start - _MARGIN_PX, start + side + _MARGIN_PX))
                reach = _MARGIN_PX + _REACH_PX
                ends = start - reach, start + side + reach
                weights.append(slice(splines.per_px * ends[0] - 2, splines.per_px * ends[1] + 2))
            tiles.append(
                _Tile(
                    (y, x),
                    padded[tuple(window)],
                    first[tuple(weights)].copy(),
                    splines,
                    variances,
                    kernel,
                )
            )
    return tiles


def _steepness(splines: Splines, step: int) -> np.float32:
    grown = min(1, step / (_RAMP * splines.steps))
    return np.float32(splines.steepness * (splines.softness + (1 - splines.softness) * grown))


def _solved(equations: np.ndarray) -> np.ndarray:
    """Solve normal equations, shape (n, n + 1); without a solution, nothing changes."""
    count = len(equations)
    return np.linalg.lstsq(equations[:, :count], equations[:, count], rcond=1e-6)[0]


def _sampling(per_px: int) -> _Band:
    """Return the values of cubic B-splines at the points of the drawing."""
    stride = per_px * BLOCK_PX
    points = (np.arange(_FINE * BLOCK_PX) + 0.5) * per_px / _FINE - 0.5
    t = np.abs(points[:, None] - np.arange(-2, stride + 2))
    near, far = (4 - 6 * t**2 + 3 * t**3) / 6, np.clip(2 - t, 0, None) ** 3 / 6
    return _Band(np.where(t < 1, near, far).astype(np.float32), stride)


def _blurring(blur_px: float, kernel: Kernel | None = None) -> _Band:
    """Return the weights with which points of the drawing add up to blurred means over pixels, or
    to those of a kernel."""
    points = (np.arange(_FINE * (BLOCK_PX + 2 * _REACH_PX)) + 0.5) / _FINE - 0.5 - _REACH_PX
    distances = points - np.arange(BLOCK_PX)[:, None]
    if kernel is not None:
        weights = kernel.weights(np.abs(distances))
    elif blur_px:
        fine = np.arange(-0.5 + 1 / 64, 0.5, 1 / 32)  # the square of a pixel
        weights = np.exp(-((distances[..., None] - fine) ** 2) / (2 * blur_px**2)).sum(axis=-1)
    else:
        weights = (np.abs(distances) < 0.5).astype(np.float64)
    weights /= weights.sum(axis=1, keepdims=True)
    return _Band(weights.astype(np.float32), _FINE * BLOCK_PX)
