"""The file of a large image: overlapping tiles, each of which is the file of a coded image.

docs/format.md describes it. Sizes are checked before anything is allocated. Tiles are decoded when
they are needed, and blended by integer arithmetic.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from neuralfield.coding import nfz
from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError

MAGIC = nfz.MAGIC + nfz.TILES
VERSION = 1
MAX_MEGAPIXELS = 2000.0
MOST_TILE_PX = 4096
MOST_STRIP_PIXELS = 1 << 28
"""Pixels of a row of tiles, which a decoder holds in memory."""

_HEADER = struct.Struct("<4sBBHHII")


def to_bytes(tiling: Tiling, channels: int, contents: Sequence[bytes]) -> bytes:
    """Return the content of a file, given the files of its tiles, row by row."""
    sizes = (channels, tiling.tile_px, tiling.overlap_px, tiling.width, tiling.height)
    lengths = np.array([len(content) for content in contents], "<u4")
    head = _HEADER.pack(MAGIC, VERSION, *sizes) + lengths.tobytes()
    return b"".join([head, struct.pack("<I", zlib.crc32(head)), *contents])


def strip_pixels(tiling: Tiling) -> int:
    """Return an upper limit of the pixels of a row of tiles."""
    return tiling.width * min(tiling.tile_px, tiling.height)


@dataclass(frozen=True, eq=False)
class TiledImage:
    """The content of a file whose header and table have been checked."""

    content: bytes
    where: str
    tiling: Tiling
    channels: int
    ends: np.ndarray  # int64, where the first tile begins, and where each ends

    @classmethod
    def from_bytes(cls, content: bytes, where: str = "content") -> "TiledImage":
        """Read the header and the table of a file; `where` names it in errors.

        Raises `InputError` if they are damaged, cut or of a newer version.
        """
        if content[4:5] not in (b"", bytes([VERSION])):
            found = f"has version {content[4]} of the format of tiles"
            raise InputError(where, found, f"version {VERSION}", "update neuralfield")
        try:
            _, _, channels, tile_px, overlap_px, width, height = _HEADER.unpack_from(content)
            if channels not in (1, 3, 4) or not 1 <= overlap_px <= tile_px // 3:
                raise ValueError(f"sizes {channels}, {tile_px}, {overlap_px}")
            if not 1 <= min(width, height) <= max(width, height) <= nfz.LONGEST_SIDE_PX:
                raise ValueError(f"sides of {width:,} x {height:,} pixels")
            tiling = Tiling(width, height, tile_px, overlap_px)
            if tile_px > MOST_TILE_PX or strip_pixels(tiling) > MOST_STRIP_PIXELS:
                raise ValueError(f"tiles of {tile_px:,} pixels in a row of {width:,}")
            lengths = np.frombuffer(content, "<u4", tiling.count, _HEADER.size)
            end = _HEADER.size + lengths.nbytes
            if content[end : end + 4] != struct.pack("<I", zlib.crc32(content[:end])):
                raise ValueError("the checksum of its table is wrong")
            ends = end + 4 + np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
            if ends[-1] != len(content):
                raise ValueError(f"{len(content):,} bytes in place of {ends[-1]:,}")
        except (ValueError, struct.error) as error:
            raise nfz.damaged(where, error) from error
        return cls(content, where, tiling, channels, ends)

    def bands(
        self, region: tuple[int, int, int, int], levels_of: Callable[[bytes, str], np.ndarray]
    ) -> Iterator[np.ndarray]:
        """Yield the levels of a region from top to bottom: uint8, shape (rows, width, channels).

        The region is left, top, width and height in px. The tiles that it touches are decoded by
        `levels_of`, given the file of each and its name in errors, and those of a row are in memory
        together. Raises `InputError` if one is damaged.
        """
        left, top, width, height = region
        right, bottom = left + width, top + height
        columns = _touched(self.tiling.columns, left, right)
        rows = _touched(self.tiling.rows, top, bottom)
        first, _ = self.tiling.columns[columns[0]]
        above = None
        for row in rows:
            start, end = self.tiling.rows[row]
            strip = self._strip(row, columns, levels_of)
            if above is not None:
                strip[: len(above)] = _blended(above, strip[: len(above)])
            if row != rows[-1]:
                end -= self.tiling.overlap_px
                above = strip[end - start :].copy()
            # empty if the region is only in the overlap with the next row
            if (band := strip[max(top - start, 0) : min(bottom, end) - start]).size:
                yield band[:, left - first : right - first]

    def _strip(
        self, row: int, columns: range, levels_of: Callable[[bytes, str], np.ndarray]
    ) -> np.ndarray:
        """Decode neighbouring tiles of a row, and blend them."""
        first, last = self.tiling.columns[columns[0]][0], self.tiling.columns[columns[-1]][1]
        overlap = self.tiling.overlap_px
        strip = np.empty((self.tiling.tile(row, 0).height, last - first, self.channels), np.uint8)
        for column in columns:
            tile, number = self.tiling.tile(row, column), row * len(self.tiling.columns) + column
            content = self.content[self.ends[number] : self.ends[number + 1]]
            levels = levels_of(content, where := f"{self.where}, tile {tile.name}")
            if levels.shape != (tile.height, tile.width, self.channels):
                raise nfz.damaged(where, f"its shape is {levels.shape}")
            place = strip[:, tile.left - first : tile.right - first].swapaxes(0, 1)
            levels = levels.swapaxes(0, 1)
            if column != columns[0]:
                levels[:overlap] = _blended(place[:overlap], levels[:overlap])
            place[:] = levels
        return strip


def _touched(spans: Sequence[tuple[int, int]], start: int, end: int) -> range:
    """Return the columns, or rows, of tiles that have a pixel from `start` to before `end`."""
    touched = [i for i, (first, last) in enumerate(spans) if first < end and last > start]
    return range(touched[0], touched[-1] + 1)


def _blended(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Blend levels across an overlap, along the first axis, by weights that are linear."""
    count = len(before)
    rising = np.arange(1, 2 * count, 2, dtype=np.int32)[:, None, None]
    return ((2 * count - rising) * before + rising * after + count) // (2 * count)
