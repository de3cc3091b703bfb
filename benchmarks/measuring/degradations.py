"""Degradations of drawings with random parameters: as people have drawings."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from PIL import Image

from neuralfield.images import ImageData, read_image
from neuralfield.images.jpeg_file import Jpeg, read_jpeg

RANGES: dict[str, dict[str, tuple[float, float]]] = {
    "a": {
        "quality": (60, 90),
        "noise": (0.01, 0.04),
        "blur_px": (0.4, 1.0),
        "paper": (0.8, 0.96),
        "ink": (0.06, 0.22),
        "shade": (0.02, 0.10),
    },
    "b": {
        "quality": (50, 95),
        "noise": (0.01, 0.05),
        "blur_px": (0.3, 1.2),
        "paper": (0.72, 0.98),
        "ink": (0.03, 0.28),
        "shade": (0.0, 0.15),
    },
    "c": {
        "quality": (53, 92),
        "noise": (0.012, 0.045),
        "blur_px": (0.35, 1.1),
        "paper": (0.75, 0.97),
        "ink": (0.04, 0.25),
        "shade": (0.01, 0.13),
    },
    "d": {
        "quality": (51, 94),
        "noise": (0.011, 0.048),
        "blur_px": (0.32, 1.15),
        "paper": (0.73, 0.97),
        "ink": (0.03, 0.26),
        "shade": (0.0, 0.14),
    },
    "e": {
        "quality": (48, 95),
        "noise": (0.01, 0.05),
        "blur_px": (0.3, 1.2),
        "paper": (0.7, 0.98),
        "ink": (0.02, 0.28),
        "shade": (0.0, 0.16),
    },
}
"""Ranges of the parameters of each set: the quality of JPEG, the standard
deviation of noise, which is half as large in scans, and of blur in training pixels, the levels of
paper and ink, and the largest change of both by shading, as a share."""

DEGRADATIONS = ("exact", "jpeg", "noise", "blur", "filter", "levels", "scan")
"""``filter``: reduced by bicubic, Lanczos or Hamming; ``scan``: all others together."""

_FILTERS = ("box", "bicubic", "lanczos", "hamming")


class Degraded(NamedTuple):
    """A degraded training image, and how it was compressed."""

    image: ImageData
    jpeg: Jpeg | None


def degraded(master: np.ndarray, name: str, letter: str, number: int, side: int) -> Degraded:
    """Reduce a drawing to `side` pixels, and degrade it by parameters that depend on `number`.

    `master` is float32, shape (height, height, 1), 0 is ink and 1 paper.
    """
    random = np.random.default_rng([ord(letter), number, DEGRADATIONS.index(name)])
    is_scan, factor = name == "scan", len(master) // side

    def sample(key: str) -> float:
        return float(random.uniform(*RANGES[letter][key]))

    values = master[..., 0]
    if name == "blur" or is_scan:
        values = _blurred(values, sample("blur_px") * factor)
    reduction = "box"
    if name == "filter" or is_scan:
        reduction = str(random.choice(_FILTERS[1:] if name == "filter" else _FILTERS[:3]))
    values = _reduced(values, side, reduction)
    if name == "levels" or is_scan:
        paper, ink, shade = sample("paper"), sample("ink"), sample("shade")
        values = (ink + (paper - ink) * values) * (1 + shade * _shading(random, side))
    if name == "noise" or is_scan:
        level = sample("noise") * (0.5 if is_scan else 1)
        values = np.clip(values, 0, 1) + level * _noise(random, np.clip(values, 0, 1))
    image = ImageData.from_values(values[..., None], "grey", 8)
    is_compressed = name == "jpeg" or is_scan
    return _compressed(image, int(sample("quality"))) if is_compressed else Degraded(image, None)


def _reduced(values: np.ndarray, side: int, name: str) -> np.ndarray:
    factor = len(values) // side
    if name == "box":
        return values.reshape(side, factor, side, factor).mean(axis=(1, 3))
    whole = Image.fromarray(values.astype(np.float32))
    return np.asarray(whole.resize((side, side), Image.Resampling[name.upper()]))


def _shading(random: np.random.Generator, side: int) -> np.ndarray:
    """Return a smooth field of second order, about from -1 to 1."""
    y, x = np.mgrid[:side, :side] / side * 2 - 1
    angle, bowl = random.uniform(0, 2 * np.pi), random.uniform(-1, 1)
    field = np.cos(angle) * x + np.sin(angle) * y + bowl * (x * x + y * y - 0.67)
    return np.clip(field / 1.5, -2, 2)


def _noise(random: np.random.Generator, values: np.ndarray) -> np.ndarray:
    """Return white noise, or noise like that of film: grains, and more of them on paper."""
    noise = random.standard_normal(values.shape)
    if random.integers(2):
        noise = _blurred(noise, 0.6)
        noise *= (0.6 + 0.8 * values) / noise.std()
    return noise


def _blurred(values: np.ndarray, sigma_px: float) -> np.ndarray:
    """Blur an image by a Gaussian."""
    reach = int(4 * sigma_px + 0.5)
    taps = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma_px**2))
    taps /= taps.sum()
    for axis in (0, 1):
        margin = [(reach, reach) if axis == a else (0, 0) for a in (0, 1)]
        padded, length = np.pad(values, margin, "edge"), values.shape[axis]
        parts = (padded.take(range(i, i + length), axis) for i in range(2 * reach + 1))
        values = sum(tap * part for tap, part in zip(taps, parts, strict=True))  # type: ignore[assignment]
    return values


def _compressed(image: ImageData, quality: int) -> Degraded:
    """Write a JPEG file, and read it as that of a user."""
    with TemporaryDirectory() as folder:
        path = Path(folder) / "drawing.jpg"
        Image.fromarray(image.pixels[..., 0]).save(path, quality=quality)
        found = read_image(path)
        return Degraded(found, read_jpeg(path, found))
