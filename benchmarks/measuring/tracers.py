"""Programs that trace bitmaps, and a program that draws SVG files.

Each tracer traces the training image alone, and the image enlarged by Lanczos and thresholded
half-way between ink and paper, as practitioners do.
"""

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from neuralfield.images.resizing import resize_channel

Setting = tuple[str, Callable[[], str]]
"""The name of a way to trace an image, and a function that returns the SVG."""

ENLARGED = 8, 10
"""Factors by which images are enlarged for tracers."""

_NUMBERS = {"m": 2, "l": 2, "h": 1, "v": 1, "c": 6, "s": 4, "q": 4}
"""Number of numbers of a segment, by its command; a further pair after "m" is a line."""


def potrace_settings(
    values: np.ndarray, middle: float, factors: Sequence[int]
) -> Iterator[Setting]:
    """Yield ways to trace an image, shape (height, width), enlarged by these factors."""
    for times, corners, joining in product(factors, (1.0, 1.3), (0.2, 1.0)):
        options = ["--alphamax", str(corners), "--opttolerance", str(joining)]
        options += ["--turdsize", str(max(2, times))]
        yield f"{times}x {' '.join(options)}", partial(_potrace, values, middle, times, options)


def vtracer_settings(
    values: np.ndarray, middle: float, factors: Sequence[int]
) -> Iterator[Setting]:
    """Yield ways to trace an image by vtracer; none if it is not installed."""
    if find_spec("vtracer") is None:
        return
    smooth = {"corner_threshold": 90, "length_threshold": 10.0, "splice_threshold": 90}
    for times, options in product(factors, ({}, {"corner_threshold": 45}, smooth)):
        text = " ".join(f"{name}={value}" for name, value in options.items())
        yield f"{times}x {text}".strip(), partial(_vtracer, values, middle, times, options)


def rasterized(svg: str, size_px: int) -> np.ndarray:
    """Return what rsvg-convert makes of a square SVG, on white, from 0 to 1."""
    if not shutil.which("rsvg-convert"):
        sys.exit("rsvg-convert: not found; install librsvg2-bin (Debian) or librsvg")
    command = ["rsvg-convert", "-w", str(size_px), "-h", str(size_px), "-b", "white"]
    png = subprocess.run(command, input=svg.encode(), capture_output=True, check=True).stdout
    return np.asarray(Image.open(io.BytesIO(png)).convert("L"), np.float32) / 255


def segment_count(svg: str) -> int:
    """Return the number of lines and curves of all paths."""
    count = 0
    for data in re.findall(r'\sd="([^"]*)"', svg):
        for command, text in re.findall(r"([a-yA-Y])([^a-zA-Z]*)", data):
            numbers = len(re.findall(r"-?\d*\.?\d+", text))
            count += numbers // _NUMBERS[command.lower()] - (command in "mM")
    return count


def _bitmap(values: np.ndarray, middle: float, times: int) -> Image.Image:
    height, width = values.shape
    large = resize_channel(values, (times * width, times * height), "lanczos")
    return Image.fromarray(large > middle)


def _potrace(values: np.ndarray, middle: float, times: int, options: list[str]) -> str:
    with TemporaryDirectory() as folder:
        path = Path(folder, "drawing.bmp")
        _bitmap(values, middle, times).save(path)
        command = ["potrace", "--svg", *options, "--output", "-", str(path)]
        return subprocess.run(command, capture_output=True, check=True, text=True).stdout


def _vtracer(values: np.ndarray, middle: float, times: int, options: dict) -> str:
    vtracer = import_module("vtracer")
    with TemporaryDirectory() as folder:
        source, target = Path(folder, "drawing.png"), Path(folder, "drawing.svg")
        _bitmap(values, middle, times).convert("RGB").save(source)
        vtracer.convert_image_to_svg_py(str(source), str(target), colormode="binary", **options)
        svg = target.read_text()
    height, width = values.shape
    box = f' viewBox="0 0 {times * width} {times * height}"'  # without which it is not scaled
    return svg.replace("<svg ", f"<svg{box} ", 1)
