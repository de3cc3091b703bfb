"""A large image that is generated for each measurement: terrain, line art and text.

The image consists of squares that several processes generate one by one. Each square depends only
on its place, so that the file does not depend on the number of processes. Terrain is fractal noise
with detail down to two pixels, and is continuous across squares; drawings and pages of text fill
squares of their own.
"""

import os
import struct
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw, ImageFilter, ImageFont

SQUARE_PX = 1024
"""Side of the squares that are generated one by one; a multiple of the side of the file's tiles."""

_TILE_PX = 256
_TILE_BYTES = 3 * _TILE_PX**2

_ROUGHNESS = 0.84
"""Ratio of the amplitude of an octave of the noise to that of the octave of twice its size."""

_LEVELS, _COLOUR_LEVELS = (1, 9), (5, 9)
"""Binary logarithms of the sides of the noise's smallest and largest cells in pixels, for
brightness and for colour."""

_GROUND = np.array([(0.24, 0.33, 0.16), (0.80, 0.72, 0.56)], np.float32)
_WATER = np.array([(0.06, 0.16, 0.30), (0.22, 0.44, 0.54)], np.float32)
_TINTS = np.array([(0.10, -0.02, -0.10), (-0.06, 0.08, -0.04)], np.float32)
_PAPER, _INK = 243, 24
_BLUR_PX = 0.8
"""Standard deviation of the blur of drawings, so that edges are as soft as in a good scan."""

_WORDS = (
    "the of and a in that for with from map road river hill bridge harbour station granite valley"
    " copper window between against through morning January October eleven 24 1869 north-east"
)


@dataclass(frozen=True)
class TiledTiff:
    """The fixed layout of a tiled, uncompressed BigTIFF of 8-bit RGB."""

    width: int
    height: int

    @property
    def across(self) -> int:
        """The number of tiles in a row."""
        return -(-self.width // _TILE_PX)

    @property
    def down(self) -> int:
        """The number of rows of tiles."""
        return -(-self.height // _TILE_PX)

    @property
    def first_byte(self) -> int:
        """The offset of the first tile in bytes."""
        return 4096 + 16 * self.across * self.down

    def header(self) -> bytes:
        """Return all bytes before the tiles."""
        count = self.across * self.down
        lists_at = 2048  # after the tags: offsets of tiles, then their lengths
        short, long, long8 = 3, 4, 16
        bits = struct.unpack("<Q", struct.pack("<4H", 8, 8, 8, 0))[0]
        tags = [
            (256, long, 1, self.width),
            (257, long, 1, self.height),
            (258, short, 3, bits),
            (259, short, 1, 1),  # not compressed
            (262, short, 1, 2),  # RGB
            (277, short, 1, 3),
            (284, short, 1, 1),
            (322, long, 1, _TILE_PX),
            (323, long, 1, _TILE_PX),
            (324, long8, count, lists_at if count > 1 else self.first_byte),
            (325, long8, count, lists_at + 8 * count if count > 1 else _TILE_BYTES),
        ]
        packed = struct.pack("<2sHHHQ", b"II", 43, 8, 0, 16) + struct.pack("<Q", len(tags))
        packed += b"".join(struct.pack("<HHQQ", *tag) for tag in tags) + struct.pack("<Q", 0)
        places = self.first_byte + _TILE_BYTES * np.arange(count, dtype="<u8")
        lists = places.tobytes() + np.full(count, _TILE_BYTES, "<u8").tobytes()
        return (packed.ljust(lists_at, b"\0") + lists).ljust(self.first_byte, b"\0")

    def write(self, file: int, left: int, top: int, pixels: np.ndarray) -> None:
        """Write an array of whole tiles to an open file."""
        rows = pixels.reshape(-1, _TILE_PX, pixels.shape[1] // _TILE_PX, _TILE_PX, 3)
        for row, tiles in enumerate(rows.transpose(0, 2, 1, 3, 4), top // _TILE_PX):
            shown = tiles[: self.across - left // _TILE_PX]
            if row < self.down:
                number = row * self.across + left // _TILE_PX
                os.pwrite(file, shown.tobytes(), self.first_byte + _TILE_BYTES * number)


def write_gigapixel(path: Path, side_px: int, processes: int) -> None:
    """Write the upper left corner of the image, `side_px` on each side, as a tiled BigTIFF."""
    tiff = TiledTiff(side_px, side_px)
    with path.open("wb") as file:
        file.write(tiff.header())
        file.truncate(tiff.first_byte + _TILE_BYTES * tiff.across * tiff.down)
    starts = range(0, side_px, SQUARE_PX)
    jobs = [(path, tiff, left, top) for top in starts for left in starts]
    spawn = get_context("spawn")
    with ProcessPoolExecutor(processes, spawn) as pool:
        for _ in pool.map(_write_square, jobs, chunksize=4):
            pass


def _write_square(job: tuple[Path, TiledTiff, int, int]) -> None:
    path, tiff, left, top = job
    file = os.open(path, os.O_WRONLY)
    try:
        tiff.write(file, left, top, square(left // SQUARE_PX, top // SQUARE_PX))
    finally:
        os.close(file)


def square(column: int, row: int) -> np.ndarray:
    """Return a square of the image; uint8, shape (side, side, 3)."""
    generator = np.random.default_rng([column, row])
    kind = generator.random()
    if kind < 0.05:
        return _on_paper(_text(generator), generator)
    if kind < 0.1:
        return _on_paper(_line_art(generator), generator)
    terrain = _terrain(column, row)
    if kind < 0.2:
        ink = _line_art(generator)[..., None]
        colour = generator.integers(0, 256, 3)
        return (terrain + (colour - terrain.astype(np.int16)) * ink // 255).astype(np.uint8)
    return terrain


def _terrain(column: int, row: int) -> np.ndarray:
    """Return an image of land and water, with varying colours."""
    height = _fractal(column, row, 0, *_LEVELS)
    shape = _fractal(column, row, 1, 3, _LEVELS[1])
    tints = np.stack([_fractal(column, row, 2 + n, *_COLOUR_LEVELS) for n in range(2)], axis=2)
    is_land = np.clip(40 * shape + 0.5, 0, 1)[..., None]
    # the noise is smoother on water, and rougher on high land
    light = np.clip(0.5 + height * (0.35 + 0.65 * is_land[..., 0] + shape), 0, 1)[..., None]
    ground = _GROUND[0] + light * (_GROUND[1] - _GROUND[0]) + 2 * tints @ _TINTS
    water = _WATER[0] + light * (_WATER[1] - _WATER[0])
    return np.rint(255 * np.clip(water + is_land * (ground - water), 0, 1)).astype(np.uint8)


def _fractal(column: int, row: int, seed: int, first: int, last: int) -> np.ndarray:
    """Return noise around 0, a sum of octaves; float32, shape (side, side)."""
    total = np.zeros((SQUARE_PX, SQUARE_PX), np.float32)
    for level in range(first, last + 1):
        cells = SQUARE_PX >> level
        columns, rows = (np.arange(cells + 1) + place * cells for place in (column, row))
        values = _noise(columns, rows, 16 * seed + level)
        values *= np.float32(_ROUGHNESS ** (last - level))
        total += _interpolated(_interpolated(values, level).T, level).T
    return total


def _interpolated(values: np.ndarray, level: int) -> np.ndarray:
    """Interpolate smoothly between columns."""
    rising = ((np.arange(1 << level) + 0.5) / (1 << level)).astype(np.float32)
    rising = rising * rising * (3 - 2 * rising)
    between = values[:, :-1, None] + (values[:, 1:] - values[:, :-1])[..., None] * rising
    return between.reshape(len(values), -1)


def _noise(columns: np.ndarray, rows: np.ndarray, seed: int) -> np.ndarray:
    """Return a number from -0.5 to 0.5 for each corner of cells, determined by its place alone."""
    mixed = columns.astype(np.uint32) * np.uint32(73856093)
    mixed = mixed ^ (rows.astype(np.uint32) * np.uint32(19349663))[:, None]
    mixed ^= np.uint32((seed + 1) * 83492791 & 0xFFFFFFFF)
    for _ in range(2):
        mixed = (mixed ^ (mixed >> np.uint32(15))) * np.uint32(0x2C1B3C6D)
    mixed ^= mixed >> np.uint32(16)
    return (mixed >> np.uint32(8)).astype(np.float32) / np.float32(1 << 24) - np.float32(0.5)


def _on_paper(ink: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    """Return ink, from 0 to 255, on paper with a random hue."""
    paper = _PAPER - generator.integers(0, 16, 3)
    return (paper + (_INK - paper) * ink[..., None].astype(np.int32) // 255).astype(np.uint8)


def _line_art(generator: np.random.Generator) -> np.ndarray:
    """Draw circles, rays and curves with lines of different widths; return the ink as uint8."""

    def draw(page: ImageDraw.ImageDraw, scale: int) -> None:
        side = SQUARE_PX * scale
        for _ in range(12):
            x, y = generator.integers(0, side, 2).tolist()
            width = int(generator.integers(2, 5)) * scale // 2
            radius, gap = generator.integers(8, 60, 2).tolist()
            for ring in range(int(generator.integers(1, 8))):
                reach = scale * (radius + ring * gap)
                page.ellipse((x - reach, y - reach, x + reach, y + reach), outline=255, width=width)
            turns = np.linspace(0, 2 * np.pi, int(generator.integers(3, 40)), endpoint=False)
            for angle in turns.tolist():
                reach = 2 * scale * radius
                end = (x + reach * np.cos(angle), y + reach * np.sin(angle))
                page.line((x, y, *end), fill=255, width=width)
        for _ in range(16):
            along = np.linspace(0, side, 200)
            bend, phase, high = generator.random(3)
            waves = side * (high + 0.1 * np.sin(12 * bend * along / side + 6 * phase))
            points = np.stack([along, waves], axis=1).ravel().tolist()
            page.line(points, fill=255, width=int(generator.integers(1, 4)) * scale)

    return _drawn(draw, 2)


def _text(generator: np.random.Generator) -> np.ndarray:
    """Set a page of text in one of several sizes; return the ink as uint8."""
    size_px = int(generator.choice([24, 36, 48, 72]))

    def draw(page: ImageDraw.ImageDraw, scale: int) -> None:
        columns = 2 * SQUARE_PX // size_px
        for top in range(size_px, SQUARE_PX - 2 * size_px, 3 * size_px // 2):
            line = " ".join(generator.choice(_WORDS.split(), columns // 5))[:columns]
            page.text((2 * size_px, top), line, fill=255, font=_font(size_px))

    return _drawn(draw, 1)


@cache
def _font(size_px: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size_px)


def _drawn(draw: Callable[[ImageDraw.ImageDraw, int], None], scale: int) -> np.ndarray:
    """Draw a square at a multiple of its size, and reduce it to get smooth edges."""
    page = Image.new("L", (SQUARE_PX * scale, SQUARE_PX * scale))
    draw(ImageDraw.Draw(page), scale)
    return np.asarray(page.reduce(scale).filter(ImageFilter.GaussianBlur(_BLUR_PX)))
