"""Rendering with many models, each in its own tile; they are blended where tiles overlap."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.images.tiling import Tile
from neuralfield.rendering.array_renderer import mean_and_spread
from neuralfield.system.device import Array, Device, to_host
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import Mosaic

if TYPE_CHECKING:
    from neuralfield.rendering import Renderer


class _Part(NamedTuple):
    """Neighbouring columns or rows of pixels that the same columns or rows of tiles cover."""

    pixels: slice
    tiles: range


class MosaicRenderer:
    """See `neuralfield.rendering.Renderer`; `make_renderer` makes the renderer of a tile's model.

    The threads of `pool`, which is closed with the renderer, load the models. Models stay in memory
    as long as a render from top to bottom may need them: a band of rows crosses at most two rows of
    tiles.
    """

    def __init__(
        self,
        mosaic: Mosaic,
        device: Device,
        make_renderer: Callable[[Model], "Renderer"],
        pool: ThreadPool,
    ) -> None:
        self._xp, self._tiling, self._channels = device.xp, mosaic.tiling, mosaic.channels
        self._load, self._pool = mosaic.load, pool
        self._most_open = 2 * len(mosaic.tiling.columns)
        self._sides = (mosaic.width, mosaic.height)
        self._make_renderer = make_renderer
        self._renderers: OrderedDict[Tile, Renderer] = OrderedDict()

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        xp, width = self._xp, len(columns)
        reach = to_host(abs(offsets).max(axis=0))
        count = len(rows) * width if which is None else len(which)
        means = xp.empty((count, self._channels), np.float32)
        spreads = xp.empty(count, np.float32)
        places = None if which is None else (which // width, which % width)
        parts_across = list(self._parts(0, columns, reach[0]))
        for down in self._parts(1, rows, reach[1]):
            self._open([tile for across in parts_across for tile in self._tiles(across, down)])
            for across in parts_across:
                own, chosen = self._own_pixels(across.pixels, down.pixels, width, places)
                if own.size:
                    positions = columns[across.pixels], rows[down.pixels], offsets
                    tiles = self._tiles(across, down)
                    means[own], spreads[own] = self._rendered(tiles, *positions, chosen)
        return means, spreads

    def close(self) -> None:
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()
        self._pool.close()

    def _rendered(
        self, tiles: list[Tile], columns: Array, rows: Array, offsets: Array, which: Array | None
    ) -> tuple[Array, Array]:
        """Compute means and spreads of pixels that are covered by the same tiles."""
        if len(tiles) == 1:
            return self._of_tile(tiles[0], columns, rows, offsets, which)

        def values_at(offset: Array) -> Array:
            blended = 0.0
            for tile in tiles:
                values, _ = self._of_tile(tile, columns, rows, offset[None], which)
                weights = self._weights(tile, columns + offset[0], rows + offset[1], which)
                blended = blended + weights.astype(values.dtype)[:, None] * values
            return blended

        return mean_and_spread(values_at, offsets)

    def _of_tile(
        self, tile: Tile, columns: Array, rows: Array, offsets: Array, which: Array | None
    ) -> tuple[Array, Array]:
        """Render with a tile's model, in coordinates of the whole image."""
        (width, height), longer = self._sides, max(tile.width, tile.height)
        scale = max(width, height) / longer
        x = columns * scale + (width - 2 * tile.left - tile.width) / longer
        y = rows * scale + (height - 2 * tile.top - tile.height) / longer
        return self._renderers[tile].pixels(x, y, offsets * scale, which)

    def _weights(self, tile: Tile, columns: Array, rows: Array, which: Array | None) -> Array:
        """Return the weight of a tile at each point of a grid, or at the points `which`."""
        tiling = self._tiling
        across = tiling.weights(tiling.columns, tile.column, self._in_px(0, columns))
        down = tiling.weights(tiling.rows, tile.row, self._in_px(1, rows))
        if which is None:
            return (down[:, None] * across).reshape(-1)
        return down[which // len(columns)] * across[which % len(columns)]

    def _parts(self, axis: int, positions: Array, reach: float) -> Iterator[_Part]:
        """Divide columns (`axis` 0) or rows (1) of pixels into parts that the same tiles cover."""
        spans = (self._tiling.columns, self._tiling.rows)[axis]
        centres, reach_px = to_host(self._in_px(axis, positions)), reach * max(self._sides) / 2
        starts, ends = np.array(spans).T
        first = np.searchsorted(ends, centres - reach_px, side="right").clip(0, len(spans) - 1)
        last = (np.searchsorted(starts, centres + reach_px, side="left") - 1).clip(0)
        last = np.maximum(first, last)
        changes = np.flatnonzero(np.diff(first) | np.diff(last)) + 1
        for start, end in pairwise([0, *changes.tolist(), len(centres)]):
            yield _Part(slice(start, end), range(first[start], last[start] + 1))

    def _own_pixels(
        self, across: slice, down: slice, width: int, places: tuple[Array, Array] | None
    ) -> tuple[Array, Array | None]:
        """Return the positions, among the requested pixels, of those that lie in a part.

        The second result is their numbers in the part, or None if all of its pixels are requested.
        """
        xp = self._xp
        if places is None:
            rows, columns = (xp.arange(s.start, s.stop) for s in (down, across))
            return (rows[:, None] * width + columns).reshape(-1), None
        row, column = places
        inside = (row >= down.start) & (row < down.stop)
        inside &= (column >= across.start) & (column < across.stop)
        own = inside.nonzero()[0]
        row, column = row[own] - down.start, column[own] - across.start
        return own, row * (across.stop - across.start) + column

    def _in_px(self, axis: int, positions: Array) -> Array:
        """Convert coordinates to px from the left or the top."""
        return (positions * max(self._sides) + self._sides[axis]) / 2

    def _tiles(self, across: _Part, down: _Part) -> list[Tile]:
        """Return the tiles that cover the pixels of two parts."""
        return [self._tiling.tile(row, column) for row in down.tiles for column in across.tiles]

    def _open(self, tiles: Iterable[Tile]) -> None:
        """Make the renderers of tiles, and close the least recently used of too many others."""
        needed = dict.fromkeys(tiles)
        missing = [tile for tile in needed if tile not in self._renderers]
        for tile in needed.keys() - missing:
            self._renderers.move_to_end(tile)
        unneeded = [tile for tile in self._renderers if tile not in needed]
        for tile in unneeded[: max(0, len(self._renderers) + len(missing) - self._most_open)]:
            self._renderers.pop(tile).close()
        models: dict[Tile, Model] = {}

        def load(number: int, _: int) -> None:
            models[missing[number]] = self._load(missing[number])

        self._pool.run(load, len(missing))
        for tile in missing:  # in this thread, whose stream the renderers use
            self._renderers[tile] = self._make_renderer(models.pop(tile))
