"""Division of a large image into overlapping tiles, and the weights that blend their renders."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from neuralfield.system.device import Array, namespace_of
from neuralfield.system.errors import ConfigError


@dataclass(frozen=True)
class Tile:
    """A rectangle of an image, in px from its top left; `right` and `bottom` are exclusive."""

    row: int
    column: int
    left: int
    top: int
    right: int
    bottom: int

    @property
    def name(self) -> str:
        """Name of the tile's folder: ``{row}_{column}``."""
        return f"{self.row}_{self.column}"

    @property
    def edges(self) -> tuple[int, int, int, int]:
        return self.left, self.top, self.right, self.bottom

    @property
    def width(self) -> int:
        return self.right - self.left

    @property
    def height(self) -> int:
        return self.bottom - self.top


@dataclass(frozen=True)
class Tiling:
    """The division of an image into tiles of nearly equal size, with sides of at most `tile_px`.

    Neighbouring tiles overlap by `overlap_px` pixels. At most two tiles of a row or column overlap
    at any position, because an overlap of more than a third of a tile raises `ConfigError`. In an
    overlap, one tile's weight falls as a cosine while the other's rises, so that the weights of all
    tiles are continuous and add up to 1 everywhere.
    """

    width: int
    height: int
    tile_px: int
    overlap_px: int

    def __post_init__(self) -> None:
        if not 1 <= self.overlap_px <= self.tile_px // 3:
            expected = f"1 to {self.tile_px // 3} pixels, a third of a tile"
            raise ConfigError("tiles.overlap", self.overlap_px, expected)

    @cached_property
    def columns(self) -> list[tuple[int, int]]:
        """Left and right edges of each column of tiles, in px."""
        return _spans(self.width, self.tile_px, self.overlap_px)

    @cached_property
    def rows(self) -> list[tuple[int, int]]:
        """Top and bottom edges of each row of tiles, in px."""
        return _spans(self.height, self.tile_px, self.overlap_px)

    @property
    def count(self) -> int:
        sides = (self.width, self.height)
        across, down = (_count(side, self.tile_px, self.overlap_px) for side in sides)
        return across * down

    def __iter__(self) -> Iterator[Tile]:
        """Yield the tiles, row by row."""
        places = product(range(len(self.rows)), range(len(self.columns)))
        return (self.tile(row, column) for row, column in places)

    def tile(self, row: int, column: int) -> Tile:
        (left, right), (top, bottom) = self.columns[column], self.rows[row]
        return Tile(row, column, left, top, right, bottom)

    def named(self, name: str) -> Tile:
        row, column = map(int, name.split("_"))
        return self.tile(row, column)

    def weights(self, spans: list[tuple[int, int]], index: int, positions_px: Array) -> Array:
        """Return weights, at positions along an axis, of column or row `index`; see `Tiling`.

        `spans` are the `columns` or the `rows`.
        """
        xp = namespace_of(positions_px)
        start, end = spans[index]
        weights = xp.ones_like(positions_px)
        if index > 0:
            weights *= _rise((positions_px - start) / self.overlap_px)
        if index < len(spans) - 1:
            weights *= 1 - _rise((positions_px - (end - self.overlap_px)) / self.overlap_px)
        return weights

    def at_seams(self, spans: list[tuple[int, int]], positions_px: Array) -> Array:
        """Return whether positions are at most one overlap away from an inner edge of `spans`."""
        xp = namespace_of(positions_px)
        near = xp.zeros(positions_px.shape, bool)
        for start, _ in spans[1:]:
            # the edges of two neighbours are one overlap apart
            middle = start + self.overlap_px / 2
            near |= xp.abs(positions_px - middle) <= 1.5 * self.overlap_px
        return near


def _count(length: int, tile_px: int, overlap_px: int) -> int:
    """Return the number of tiles along a side."""
    return max(1, -(-(length - overlap_px) // (tile_px - overlap_px)))


def _spans(length: int, tile_px: int, overlap_px: int) -> list[tuple[int, int]]:
    """Divide a side into overlapping parts whose lengths differ by at most one pixel."""
    count = _count(length, tile_px, overlap_px)
    if count == 1:
        return [(0, length)]
    own = length - overlap_px
    return [(i * own // count, (i + 1) * own // count + overlap_px) for i in range(count)]


def _rise(share: Array) -> Array:
    """Compute a half cosine that rises from 0 to 1 as `share` does, and is constant outside."""
    xp = namespace_of(share)
    return (1 - xp.cos(xp.pi * xp.clip(share, 0, 1))) / 2
