"""Restoring a drawing that was scanned, photographed or compressed, before a network is trained."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import numpy as np

from neuralfield.images.contour_fit import (
    FINE,
    SMOOTH,
    SOFT,
    SOFTER,
    Contours,
    Splines,
    error_ratio,
    fit_contours,
)
from neuralfield.images.degradation import (
    CLEAN_NOISE,
    Degradation,
    estimate_degradation,
    highest_around,
    noise_of_paper,
)
from neuralfield.images.image import ImageData
from neuralfield.images.jpeg_file import MOST_PIXELS, Jpeg
from neuralfield.images.kind import ToneCount
from neuralfield.images.one_ink import OneInk, one_ink
from neuralfield.images.paper_noise import PaperNoise
from neuralfield.images.patch_filter import filter_guided
from neuralfield.images.reduction_kernel import find_kernel
from neuralfield.system.device import limit_blas_to_one_core
from neuralfield.system.errors import ConfigError, WrongTypeError

ESTIMATES = {"ink": 0.9, "noise": 0.5, "blur_px": 3.0}
"""The estimates that can be given instead, and the largest value of each."""

LEVELS = ("clean", "own")
"""What restored drawings have: white paper, or the colours of the scan's own paper and ink."""

_LEAST_PX = 64
"""Least side of the image: a smaller one shows too little of the paper."""

_MOST_NOISE, _DARKEST_PAPER, _MOST_OTHER_TONES, _LEAST_WHITE = 0.1, 0.5, 0.2, 0.5
"""Limits of what may be a drawing: in photographs, "noise" is detail, and a fifth of the pixels
has tones other than those of paper and ink; drawings in thin blurred lines have up to 15 %."""

_FEW_OTHER_TONES, _UNEXPLAINED, _MANY_UNEXPLAINED = 0.1, 0.05, 0.02
"""A drawing with a larger share of other tones needs `_LEAST_WHITE`. Largest errors of contours
that explain a drawing, with few other tones and with many: those of photographs and mixed pages are
larger. Up to twice the first, paper is made white without contours."""

_LEAST_BLACK, _LEAST_OF_BOTH, _LEAST_AGREEMENT = 0.01, 0.6, 0.2
"""Least shares of black, and of black and white together, in a restored drawing, and least
agreement of its paper (`neuralfield.images.kind.Tones`). Pages of mixed kind have less."""

_THIN_AGREEMENT, _MOST_ERROR = 0.5, 0.03
"""Lines that are so thin that nothing is black are restored if the paper's agreement is larger and
contours explain the image up to this error, which they do not where lines are grey and wider."""

_SMALL_ERROR, _SOFT_GAIN = 0.012, 1.5
"""Softer contours are not tried below this error, and are kept if theirs is as many times smaller:
they follow noise more. Chosen on 38 scans of set a; 1.3 to 1.6 do as well."""

_NOT_WHITE = 0.9
"""Largest value of pixels at which that error is measured."""

_SPECKS = 6
"""Largest speck of the filtered image as a multiple of the noise; beside lines, those of JPEG."""

_MOST_SPECKS = 0.05
"""Largest share of specks in the ink; they have below 1 % of it, and light lines 7 % or more."""

_LEAST_INK = 0.85
"""Least share of the ink that contours must have, else paper is made white without them: those of
29 scans and blurred drawings had 0.96 or more, and 0.74 or less where thin lines had vanished."""

_INK_BELOW = 0.95
"""Largest value of pixels that count as ink in this share."""

_LEAST_NOISE, _MOST_ERROR_RATIO = 0.006, 0.7
"""Least noise of JPEG files whose luma is fitted, up to a quality of about 95, and largest ratio of
squared errors at small steps to those of the quantisation: files with other noise have more."""


class Restored(NamedTuple):
    """A restored drawing, and how it had been degraded."""

    image: ImageData
    degradation: Degradation
    colours: str = ""  # those of ink that is not black and of its paper, in words

    def __str__(self) -> str:
        return f"{self.degradation}{self.colours}"


def restore(
    image: ImageData,
    setting: bool | Mapping[str, float | str] = True,
    *,
    jpeg: Jpeg | None = None,
    threads: int = 1,
) -> Restored | None:
    """Restore a drawing in one ink: return it as if reduced from the original by a box filter.

    Paper becomes white and black ink black, unless their own levels are asked for. None is returned
    for other images, and for drawings that are sharp, free of noise, and on even paper.

    Parameters
    ----------
    setting : bool or mapping
        False: nothing is restored. A mapping gives estimates of ``ink`` (its level as a share of
        the paper's), ``noise`` (as a share of the contrast) and ``blur_px``, or has ``levels``:
        "own" keeps the colours of paper and ink, and "clean" makes paper white in drawings that are
        sharp and free of noise, too.
    jpeg : Jpeg, optional
        How the image was compressed; see `neuralfield.images.jpeg_file.read_jpeg`.
    threads : int
        Results do not depend on it.
    """
    given, levels = _parts(setting)
    sides = image.height, image.width
    if setting is False or min(sides) < _LEAST_PX or math.prod(sides) > MOST_PIXELS:
        return None
    with limit_blas_to_one_core():  # otherwise sums would depend on the number of cores
        drawing = one_ink(image)
        if drawing is None:
            return None
        if jpeg is not None and jpeg.luma is not None and drawing.mode == "rgb":
            of_luma = drawing.of_luma(jpeg.luma)
            drawing, jpeg = of_luma or drawing, jpeg if of_luma else jpeg._replace(luma=None)
        found = _restored(drawing, given, jpeg, threads, even_clean=levels == "clean")
    if found is None:
        return None
    shares, degradation = found
    restored = drawing.coloured(shares, degradation, is_own=levels == "own")
    return Restored(restored, degradation, drawing.in_words(degradation))


def _restored(
    source: OneInk,
    given: Mapping[str, float],
    jpeg: Jpeg | None,
    threads: int,
    *,
    even_clean: bool,
) -> tuple[np.ndarray, Degradation] | None:
    """Return shares of paper, shape (height, width); see `restore`."""
    values = source.values
    found, filtered = estimate_degradation(
        values, jpeg=jpeg, is_black=source.is_black, threads=threads, **given
    )
    is_unlike = found.noise > _MOST_NOISE or float(np.median(found.paper)) < _DARKEST_PAPER
    if is_unlike:
        return None
    if found.may_have_ringing and not given and (kernel := find_kernel(values, threads)):
        white = np.ones(values.shape)
        found, filtered = Degradation(white, 0.0, 0.0, 0.0, kernel=kernel), values
    if found.is_none and not (even_clean and found.is_grey):
        return None
    tones = ToneCount().see(_as_image(filtered)).tones
    has_many = tones.others > _FEW_OTHER_TONES
    if tones.others > _MOST_OTHER_TONES or (has_many and tones.white < _LEAST_WHITE):
        return None
    is_explained = False
    if found.kernel is not None:
        contours = fit_contours(filtered, 0.0, FINE, threads, kernel=found.kernel)
        filtered = _with_flat_parts(contours.drawing, filtered, 0.0)
    elif found.blur_px or found.is_noisy:
        fit = partial(
            fit_contours,
            blur_px=found.blur_px,
            threads=threads,
            fits_blur=(found.blur_px > 0 or found.is_scan) and "blur_px" not in given,
            fits_levels=(found.is_scan or not source.is_black) and "ink" not in given,
        )
        contours, error = None if "noise" in given else _fit_luma(found, fit), 0.0
        splines = SMOOTH
        if contours is None:
            contours, error, splines = _explaining(filtered, fit)
        if error > (_MANY_UNEXPLAINED if has_many else 2 * _UNEXPLAINED):
            return None
        estimated = found, _with_flat_parts(filtered, filtered, found.noise)
        is_explained = error <= _MOST_ERROR
        normalised = found.normalised(values)
        noise = noise_of_paper(normalised, found.paper, contours.image)
        if found.is_noisy and "noise" not in given and jpeg is None and noise < CLEAN_NOISE:
            found, filtered = replace(found, noise=0.0), normalised
        if found.is_noisy and found.jpeg is None:
            contours, filtered = _filtered_again(found, values, contours, splines, threads)
        found, filtered = _refined(found, filtered, contours)
        if not found.is_noisy:
            contours = fit_contours(filtered, found.blur_px, FINE, threads)
        drawing = _with_flat_parts(contours.drawing, filtered, found.noise)
        is_ink = filtered < _INK_BELOW  # the clipped noise of white paper makes all of it darker
        is_lost = (1 - drawing)[is_ink].sum() < _LEAST_INK * (1 - filtered)[is_ink].sum()
        filtered = drawing
        if is_lost or error > _UNEXPLAINED:
            found, filtered = estimated
            if not found.is_scan:
                return None
    drawing = _as_image(filtered)
    tones = ToneCount().see(drawing).tones
    is_drawing = tones.black >= _LEAST_BLACK and tones.agreement >= _LEAST_AGREEMENT
    is_drawing |= is_explained and tones.agreement >= _THIN_AGREEMENT
    is_drawing &= tones.black + tones.white >= _LEAST_OF_BOTH
    return (drawing.values()[..., 0], found) if is_drawing else None


def _fit_luma(found: Degradation, fit: Callable[..., Contours]) -> Contours | None:
    """Fit contours to the luma of a JPEG file; return None where they do not explain it."""
    jpeg = found.jpeg
    if jpeg is None or jpeg.luma is None or found.noise < _LEAST_NOISE:
        return None
    contrast = float(np.median(found.paper)) * (1 - found.ink)
    steps, luma = jpeg.steps / np.float32(contrast), found.normalised(jpeg.luma)
    contours = fit(luma, splines=SMOOTH, jpeg_steps=steps)
    ratio = error_ratio(luma, contours.image, steps)
    return contours if ratio <= _MOST_ERROR_RATIO else None


def _filtered_again(
    found: Degradation, values: np.ndarray, contours: Contours, splines: Splines, threads: int
) -> tuple[Contours, np.ndarray]:
    """Filter noise again with contours as the guide; fit contours to the result; return both."""
    normalised, explained = found.normalised(values), contours.image
    noise = PaperNoise.of(normalised - explained, explained, found.noise, is_clipped=found.is_white)
    unclipped = noise.unclipped(normalised, values, explained)
    filtered = filter_guided(unclipped, explained, noise.autocovariance, threads)
    contours = fit_contours(filtered, contours.blur_px, splines, threads, first=contours)
    drawing = noise.without_specks(contours.drawing, normalised - contours.image)
    return contours._replace(drawing=drawing), filtered


def _parts(setting: bool | Mapping[str, float | str]) -> tuple[dict[str, float], str | None]:
    """Return the estimates and the levels that are given; raise an error for unsupported ones."""
    if isinstance(setting, bool):
        return {}, None
    if not isinstance(setting, Mapping):
        raise WrongTypeError("restore", repr(setting), "true, false, or a mapping of estimates")
    levels, given = setting.get("levels"), {}
    if levels not in (None, *LEVELS):
        raise ConfigError("restore: levels", repr(levels), "clean or own")
    for name, value in setting.items():
        if name == "levels":
            continue
        if name not in ESTIMATES:
            raise ConfigError(
                f"restore: {name}", "unknown", f"one of levels, {', '.join(ESTIMATES)}"
            )
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise WrongTypeError(f"restore: {name}", repr(value), "a number")
        if not 0 <= value <= ESTIMATES[name]:
            raise ConfigError(f"restore: {name}", repr(value), f"from 0 to {ESTIMATES[name]}")
        given[name] = float(value)
    return given, levels


def _refined(
    found: Degradation, filtered: np.ndarray, contours: Contours
) -> tuple[Degradation, np.ndarray]:
    """Return estimates with those of fitted contours, and the filtered image with their levels."""
    ink, paper = (found.ink + level * (1 - found.ink) for level in contours.levels)
    levels = {"paper": found.paper * paper, "ink": max(0.0, ink / paper)}
    return replace(found, **levels, blur_px=contours.blur_px), contours.levels.normalised(filtered)


def _explaining(
    filtered: np.ndarray, fit: Callable[..., Contours]
) -> tuple[Contours, float, Splines]:
    """Return contours, no softer than needed to explain the image, their error and splines."""
    contours, best = fit(filtered, splines=SMOOTH), SMOOTH
    error = _error(contours.image, filtered)
    for splines in (SOFT, SOFTER):
        if error < _SMALL_ERROR:
            break
        soft = fit(filtered, splines=splines)
        soft_error = _error(soft.image, filtered)
        if _SOFT_GAIN * soft_error > error:
            break
        contours, error, best = soft, soft_error, splines
    return contours, error, best


def _error(explained: np.ndarray, image: np.ndarray) -> float:
    """Return the root mean square of the errors at pixels that are not white."""
    errors = (explained - image)[image < _NOT_WHITE]
    return float(np.sqrt(np.mean(errors**2))) if errors.size else 0.0


def _with_flat_parts(drawing: np.ndarray, filtered: np.ndarray, noise: float) -> np.ndarray:
    """Make all paper and all ink away from edges one tone, without the specks of strong noise.

    Paper stays as it is if that would remove much of the ink: thin blurred lines are as light.
    """
    reach = min(max(_SPECKS * noise, 0.03), 0.2)
    is_paper, ink = -highest_around(-filtered, 2) > 1 - reach, 1 - drawing
    if ink[is_paper].sum() <= _MOST_SPECKS * ink.sum():
        drawing = np.where(is_paper, 1, drawing)
    return np.where(highest_around(filtered, 2) < reach, 0, drawing)


def _as_image(values: np.ndarray) -> ImageData:
    return ImageData.from_values(values[..., None], "grey", 8)
