"""The distribution of tiles over blocks, in wide_pass.cu and weight_gradients.cu.

In the last wave of the pass only some multiprocessors have tiles, as many of them at once as in
the waves before. Meanwhile the others begin to sum gradients, over the tiles of those waves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SUMMED_IN_A_WAVE = 3.1
"""Tiles whose gradients (of all layers) a multiprocessor sums in a wave, for each tile that others
work on at once in it. Measured; how well it is met decides when shares end, not what they sum."""


@dataclass(frozen=True)
class Waves:
    """The waves of a batch: in each, a block works on `block_tiles` tiles at once."""

    tiles: int
    blocks: int
    block_tiles: int
    full: int  # waves in which every block has so many
    last_blocks: int  # blocks that have tiles in the last wave, after these

    @property
    def full_tiles(self) -> int:
        """Tiles of all full waves; those of the last wave come behind them."""
        return self.full * self.blocks * self.block_tiles


@dataclass(frozen=True)
class TileRange:
    """Tiles ``newest``, ``newest - step``, ..., `count` of them."""

    newest: int
    count: int
    step: int


def plan_waves(tiles: int, processors: int, block_tiles: int, *, leaves_room: bool = True) -> Waves:
    """Cut a batch into waves, for blocks that work on `block_tiles` tiles at once.

    If it `leaves_room`, the last wave takes as few blocks as can be, for sums to begin on the
    others.
    """
    blocks = min(processors, tiles)
    full = (tiles - 1) // (blocks * block_tiles)
    left = tiles - full * blocks * block_tiles
    last_blocks = -(-left // block_tiles) if leaves_room else min(blocks, left)
    return Waves(tiles, blocks, block_tiles, full, last_blocks if full else blocks)


def share_processors(
    layers: Sequence[tuple[int, int]], waves: Waves, processors: int, *, overlaps: bool = True
) -> list[tuple[int, int]]:
    """Cut the sums over all tiles into shares, as many as there are multiprocessors for.

    A layer comes as the blocks that a share of the tiles takes, and its work for a tile. Returned
    are, for each layer, its shares, and how many of them find a multiprocessor that has no tiles in
    the last wave; none, unless the sums may begin while the pass is under way.
    """
    shares = [1] * len(layers)
    left = processors - sum(blocks for blocks, _ in layers)
    while fitting := [
        i for i, (blocks, _) in enumerate(layers) if blocks <= left and shares[i] < waves.tiles
    ]:
        slowest = max(fitting, key=lambda i: layers[i][1] / shares[i])
        shares[slowest] += 1
        left -= layers[slowest][0]
    free = processors - waves.last_blocks if waves.full and overlaps else 0
    taken = processors - left
    early = [min(count, count * free // taken) for count in shares]
    for i, (blocks, _) in enumerate(layers):
        if (
            early[i] < shares[i]
            and sum(e * b for e, (b, _) in zip(early, layers, strict=True)) + blocks <= free
        ):
            early[i] += 1
    return list(zip(shares, early, strict=True))


def head_start(waves: Waves, processors: int, shares: int, early: int) -> float:
    """Estimate the tiles that each early one of a layer's shares sums during the last wave."""
    if early == 0:
        return 0.0
    tiles = SUMMED_IN_A_WAVE * waves.block_tiles * processors / shares
    return min(tiles, waves.full_tiles / early)


def share_out(
    waves: Waves, shares: int, early: int, head_start: float
) -> list[tuple[TileRange, TileRange]]:
    """Share out all tiles so that shares end at the same time.

    The first `early` shares begin with the last wave, the others at its end; `head_start` is the
    tiles that one of the first sums meanwhile. Returned are, for each share, tiles of the full
    waves and tiles of the last one.
    """
    late, last_tiles = shares - early, waves.tiles - waves.full_tiles
    wanted = round(early * (waves.tiles + late * head_start) / shares)
    early_full = min(waves.full_tiles, wanted) if late else waves.full_tiles
    early_last = min(last_tiles, wanted - early_full) if late else last_tiles
    old, middle = waves.full_tiles - early_full, waves.tiles - early_last
    of_early = [(old, waves.full_tiles), (middle, waves.tiles)]
    of_late = [(0, old), (waves.full_tiles, middle)]
    cut = [_cut(*of_early[0], early), _cut(*of_early[1], early)]
    rest = [_cut(*of_late[0], late), _cut(*of_late[1], late)]
    return [*zip(*cut, strict=True), *zip(*rest, strict=True)]


def _cut(first: int, end: int, parts: int) -> list[TileRange]:
    """Deal out tiles from `first` up to `end`, from the newest on."""
    return [
        TileRange(end - 1 - part, max(0, (end - 1 - part - first) // parts + 1), parts)
        for part in range(parts)
    ]
