"""Estimation of how a drawing was degraded: the levels of paper and ink, noise and blur.

A drawing is ink on paper. A scan or a photograph of it has shaded paper and grey ink, is blurred by
a lens or a reduction, and has noise; JPEG adds ringing near edges. All of it is estimated from the
image alone: `estimate_degradation`.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neuralfield.images.contour_fit import Kernel
from neuralfield.images.jpeg_file import Jpeg
from neuralfield.images.patch_filter import filter_patches

PATCH_THRESHOLD = 2.7
"""Threshold of the patch filter as a multiple of the noise."""

CLEAN_NOISE = 0.003
"""Noise, as a share of the contrast, below which an image counts as free of it: rounding to 8 bits
and slight ringing of a reduction are below it."""

_WHITE = 0.985
"""Minimum level of a paper that counts as white, where a file clips half of the noise."""

_CLIPPED, _UNCLIPPED = 1.75, 1.1
"""Ratios of the noise to its root mean square in pixels of paper after a high pass, for paper that
is white, where a file clips it, and for darker paper; measured."""

_MOST_RINGING, _MOST_RINGING_OF_INK = 0.006, 0.03
"""Largest noise and largest level of ink that are estimated in drawings with ringing."""

_JPEG_NOISE = 0.6 / math.sqrt(12)
"""Ratio of a drawing's noise to the mean step of JPEG's quantisation; measured. Most coefficients
of edges are not 0, so that their errors are spread over a step."""

_MOST_INK = 0.17
"""Largest first guess of the ink's level, as a share of the paper's, if no pixel is all ink: such
lines are grey because they are thin. The fit of contours then finds the level."""

_DARKEST = 0.3
"""Percentile of the darkest pixels."""

_FEWEST, _MOST_BLUR_PX = 30, 1.4

_LEAST_VARIANCE = 0.1
"""Least variance of a blur in squared pixels: smaller ones are found in sharp drawings."""

_UNKNOWN_VARIANCE = 0.5
"""First variance of the blur in noisy drawings without isolated lines and edges, for the fit."""

_SHARP = 0.77
"""Difference of neighbouring pixels, as a share of the contrast, that three in a hundred of those
at edges reach in sharp drawings, but not in those that are blurred by 0.4 pixels or more."""

_EXPLAINED_PAPER, _EXPLAINED_NEAR = 0.97, 0.8
"""Least value of paper in the image that contours explain, and value below which is ink."""

_FEWEST_NOISY = 0.12
"""Least share of pixels of paper close to ink that noise changes; thin lines change some, too."""


@dataclass(frozen=True, eq=False)
class Degradation:
    """How a drawing was degraded.

    Attributes
    ----------
    paper : ndarray of float64, shape (height, width)
        The level of the paper at each pixel, in [0, 1].
    ink : float
        The level of the ink as a share of that of the paper.
    noise : float
        Standard deviation, as a share of the difference between paper and ink.
    blur_px : float
        Standard deviation of the blur in pixels, in addition to the mean over a pixel's square.
    jpeg : Jpeg, optional
        How the file was compressed, if it is a JPEG.
    kernel : Kernel, optional
        The kernel by which the drawing was reduced, if it is not the mean over a pixel's square.
    """

    paper: np.ndarray
    ink: float
    noise: float
    blur_px: float
    jpeg: Jpeg | None = None
    kernel: Kernel | None = None

    @property
    def is_noisy(self) -> bool:
        return self.noise >= CLEAN_NOISE

    @property
    def is_none(self) -> bool:
        """Whether nothing was found that restoring would change."""
        return (
            self.kernel is None
            and not self.is_noisy
            and not self.blur_px
            and float(np.ptp(self.paper)) == 0
        )

    @property
    def is_white(self) -> bool:
        """Whether the paper is white, so that noise that makes it brighter was clipped."""
        return float(np.median(self.paper)) >= _WHITE

    @property
    def may_have_ringing(self) -> bool:
        """Whether the image may have ringing from the kernel by which it was reduced.

        Ringing changes the estimates of the levels slightly, and looks like noise.
        """
        is_sharp = not self.blur_px and self.noise < _MOST_RINGING and self.jpeg is None
        return is_sharp and self.is_white and self.ink < _MOST_RINGING_OF_INK

    @property
    def is_scan(self) -> bool:
        """Whether the paper is grey or shaded."""
        return not self.is_white or float(np.ptp(self.paper)) > 0

    @property
    def is_grey(self) -> bool:
        """Whether the paper is darker than white, or the ink lighter than black."""
        return not self.is_white or self.ink > 0.02

    def normalised(self, values: np.ndarray) -> np.ndarray:
        """Return values in which ink is 0 and paper is 1; float32, of the same shape."""
        return ((values / self.paper - self.ink) / (1 - self.ink)).astype(np.float32)

    def __str__(self) -> str:
        paper = 255 * float(np.median(self.paper))
        levels = f"paper {paper:.0f}, ink {paper * self.ink:.0f}"
        kind = "a scan" if self.is_scan else "noisy" if self.is_noisy else "blurred"
        if self.kernel is not None:
            return f"reduced by a {self.kernel.name} kernel: {levels}"
        if self.jpeg is not None:
            file = f"a JPEG of quality {self.jpeg.quality}"
            kind = f"a scan in {file}" if self.is_scan else file
        return f"{kind}: {levels}, blur {self.blur_px:.1f} px, noise {100 * self.noise:.1f} %"


def estimate_degradation(
    values: np.ndarray,
    *,
    jpeg: Jpeg | None = None,
    is_black: bool = True,
    ink: float | None = None,
    noise: float | None = None,
    blur_px: float | None = None,
    threads: int = 1,
) -> tuple[Degradation, np.ndarray]:
    """Estimate the degradation of a drawing.

    Parameters
    ----------
    values : ndarray of float32, shape (height, width)
        The drawing, in [0, 1].
    jpeg : Jpeg, optional
        How the file was compressed, if it is a JPEG.
    is_black : bool
        Whether ink on white paper is black if no pixel is all ink.
    ink, noise, blur_px : float, optional
        Given instead of estimated; see `Degradation`.
    threads : int
        Results do not depend on it.

    Returns
    -------
    Degradation
    ndarray of float32, shape (height, width)
        The drawing with ink 0 and paper 1, and with less noise.
    """
    paper, own_ink = paper_and_ink(values)
    if not is_black:
        own_ink = own_ink or float(np.percentile(values / paper, _DARKEST))
    found = Degradation(paper, own_ink if ink is None else ink, 0.0, 0.0)
    normalised = found.normalised(values)
    if noise is None:
        noise = noise_of_paper(normalised, paper)
        if jpeg is not None:
            noise = max(noise, _JPEG_NOISE * jpeg.mean_step)
    found = Degradation(found.paper, found.ink, noise, 0.0, jpeg)
    filtered = normalised
    if found.is_noisy:
        filtered = filter_patches(normalised, PATCH_THRESHOLD * noise, threads)
    if blur_px is None:
        blur_px = _blur_px(filtered, noise)
    return replace(found, blur_px=blur_px), filtered


def paper_and_ink(values: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the level of the paper at each pixel of a drawing, and the ink's as a share of it.

    The paper is a polynomial of second order, fitted to flat pixels that are close to it; the
    ink is the median of flat dark pixels.
    """
    darkest, lightest = np.percentile(values, (1, 97))
    middle = (darkest + lightest) / 2
    spread = highest_around(values, 1) + highest_around(-values, 1)
    flat = max(0.03, 2 * float(np.percentile(spread, 20)))
    histogram = np.bincount(np.rint(255 * values).astype(np.int64).ravel(), minlength=256)
    around = np.convolve(histogram, np.ones(17), "same")
    around[np.arange(256) / 255 <= middle] = 0
    paper, reach = np.full(values.shape, int(np.argmax(around)) / 255), 0.22
    terms, is_paper = _polynomials(values.shape), np.ones(values.shape, bool)
    for number in range(8):
        near = (np.abs(values - paper) < reach) & (values > 0.9 * middle)
        is_paper = near & (spread < (max(flat, 0.12) if number < 2 else flat))
        count = terms.shape[-1]
        if is_paper.sum() < max(200, 0.01 * values.size):
            is_paper, count = near, 1
        if not is_paper.any():
            return np.ones(values.shape), 0.0
        found = np.linalg.lstsq(terms[is_paper][:, :count], values[is_paper], rcond=None)[0]
        paper = terms[..., :count] @ found
        error = 1.4826 * float(np.median(np.abs(values - paper)[is_paper]))
        reach = max(3.5 * error, 0.012) if number else 0.15
    if np.ptp(paper) < 2.5 / 255:
        paper = np.full(values.shape, float(np.median(values[is_paper])))
    paper = np.maximum(paper, 0.05)
    return paper, _ink(values / paper, spread < max(0.06, flat), float(np.median(paper)))


def _ink(shares: np.ndarray, is_flat: np.ndarray, paper: float) -> float:
    darkest = float(np.percentile(shares, _DARKEST))
    is_white = paper >= _WHITE
    dark = shares[is_flat & (shares < 0.55)]
    if dark.size >= max(30, (0.01 if is_white else 0.002) * shares.size):
        found = float(np.median(dark))
        found = float(np.median(dark[dark < found + 0.1]))
        if dark.size >= 0.02 * shares.size or found <= darkest + 0.06:
            return found
    return 0.0 if is_white else min(darkest, _MOST_INK)


def noise_of_paper(
    normalised: np.ndarray, paper: np.ndarray, explained: np.ndarray | None = None
) -> float:
    """Return the noise of the paper close to ink, where that of JPEG is.

    If the image that contours explain is given, gradients of blurred ink do not count as noise.
    """
    if explained is None:
        high, is_paper = normalised, highest_around(-normalised, 2) < -0.8
        is_near = is_paper & (highest_around(-normalised, 5) > -0.6)
    else:
        high, is_paper = normalised - explained, explained > _EXPLAINED_PAPER
        is_near = is_paper & (highest_around(-explained, 4) > -_EXPLAINED_NEAR)
    padded = np.pad(high, 1, "edge")
    around = padded[1:-1, :-2] + padded[1:-1, 2:] + padded[:-2, 1:-1] + padded[2:, 1:-1]
    high = (high - around / 4) / math.sqrt(1.25)
    found = high[is_near if is_near.sum() > 100 else is_paper]
    if found.size <= 100 or np.mean(np.abs(found) > CLEAN_NOISE) < _FEWEST_NOISY:
        return 0.0
    root = float(np.sqrt(np.mean(found**2)))
    if np.median(paper) >= _WHITE:
        return _CLIPPED * root
    return max(_UNCLIPPED * root, _noise_of_grain(normalised))


def _noise_of_grain(normalised: np.ndarray) -> float:
    """Return the noise of paper away from ink, also where neighbouring pixels have like noise."""
    values = normalised[highest_around(-normalised, 4) < -_EXPLAINED_NEAR]
    if values.size < 500:
        return 0.0
    middle, high = np.percentile(values, (50, 75))  # light lines are below
    return 1.4826 * float(high - middle)


def _blur_px(filtered: np.ndarray, noise: float) -> float:
    """Estimate the blur from the second moments of isolated lines and edges in rows and columns.

    The variance of a line of width w is that of its profile, w**2 / 12, plus that of the blur, plus
    that of a pixel's square, 1 / 12. Its area is its width.
    """
    steps = np.concatenate([np.abs(np.diff(filtered, axis=axis)).ravel() for axis in (0, 1)])
    steps = steps[steps > 0.1]
    if steps.size and np.percentile(steps, 97) >= _SHARP:
        return 0.0
    is_paper = highest_around(-filtered, 2) < -0.8
    if is_paper.sum() > 50:
        filtered = filtered / np.median(filtered[is_paper])
    filtered = np.where(np.abs(1 - filtered) < 2 * noise, 1, filtered)
    lines, edges = [], []
    for image in (filtered, filtered.T):
        of_lines, of_edges = _variances(image)
        lines.append(of_lines)
        edges.append(of_edges)
    found = [np.concatenate(lines), np.concatenate(edges)]
    fewest = max(_FEWEST, max(map(len, found)) / 4)
    # other ink close to a line or an edge adds to its variance; edges are not sharp, see above
    medians = [float(np.median(variances)) for variances in found if len(variances) >= fewest]
    if len(medians) == 2 and medians[1] < _LEAST_VARIANCE:
        medians.pop()
    variance = min(medians, default=_UNKNOWN_VARIANCE if noise >= CLEAN_NOISE else 0.0)
    return min(math.sqrt(variance), _MOST_BLUR_PX) if variance >= _LEAST_VARIANCE else 0.0


def _variances(image: np.ndarray, reach: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Return the variances of the blur at the lines and at the edges in the rows of an image."""
    profiles = sliding_window_view(image, 2 * reach + 1, axis=1)
    down, across = (
        (sliding_window_view(derivative, 2 * reach + 1, axis=1) ** 2).sum(-1)
        for derivative in np.gradient(image)
    )
    uprightness = across / (across + down + 1e-9)
    is_upright = uprightness > 0.9
    before, after = profiles[..., :2], profiles[..., -2:]
    from_paper, to_paper = ((ends > 0.93).all(-1) for ends in (before, after))
    from_ink, to_ink = ((ends < 0.07).all(-1) for ends in (before, after))

    def moments(masses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        places = np.arange(masses.shape[-1]) - (masses.shape[-1] - 1) / 2
        total = masses.sum(-1)
        safe = np.where(np.abs(total) < 0.1, 1, total)
        mean = (masses * places).sum(-1) / safe
        return total, mean, (masses * (places - mean[..., None]) ** 2).sum(-1) / safe

    area, mean, variance = moments(1 - profiles)
    is_line = from_paper & to_paper & is_upright & (np.abs(mean) <= 0.5)
    is_line &= (area > 0.35) & (area < 4) & (variance < 8)
    lines = uprightness * (variance - area**2 / 12) - 1 / 12
    _, mean, variance = moments(np.diff(profiles, axis=-1))
    is_edge = (from_paper & to_ink) | (from_ink & to_paper)
    is_edge &= is_upright & (np.abs(mean) <= 0.5)
    edges = uprightness * (variance - 1 / 12) - 1 / 12
    return lines[is_line], edges[is_edge]


def _polynomials(shape: tuple[int, ...]) -> np.ndarray:
    """Return the products of powers of x and y up to the second order; shape (h, w, 6)."""
    height, width = shape
    y, x = (2 * np.mgrid[:height, :width] + 1 - np.array([height, width])[:, None, None]) / max(
        height, width
    )
    return np.stack([np.ones_like(x), x, y, x * x, x * y, y * y], -1)


def highest_around(image: np.ndarray, radius: int) -> np.ndarray:
    """Return the maximum in the square around each pixel."""
    for axis in (0, 1):
        margin = [(radius, radius) if axis == a else (0, 0) for a in (0, 1)]
        windows = sliding_window_view(np.pad(image, margin, "edge"), 2 * radius + 1, axis)
        image = np.moveaxis(windows, -1, 0).max(axis=0)
    return image
