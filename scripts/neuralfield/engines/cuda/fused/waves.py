"""The distribution of tiles over blocks, in wide_pass.cu and weight_gradients.cu.

In the last wave of the pass only some multiprocessors have tiles, and each of these works on as
many tiles at once as in the waves before. Meanwhile the other multiprocessors begin to sum the
gradients of the tiles of the earlier waves.
"""

from collections.abc import Sequence
from dataclasses import dataclass

SUMMED_IN_A_WAVE = 3.1
"""Number of tiles whose gradients (of all layers) a multiprocessor sums during a wave, per tile
that the other multiprocessors work on at once. It was measured on one GPU; on a GPU that differs,
shares end at different times, but they sum the same tiles."""


@dataclass(frozen=True)
class Waves:
    """The waves of a batch: in each, a block works on `block_tiles` tiles at once."""

    tiles: int
    blocks: int
    block_tiles: int
    full: int  # waves in which every block has `block_tiles` tiles
    last_blocks: int  # blocks that have tiles in the last wave, after the full waves

    @property
    def full_tiles(self) -> int:
        """The number of tiles of all full waves; the tiles of the last wave follow them."""
        return self.full * self.blocks * self.block_tiles


@dataclass(frozen=True)
class TileRange:
    """Tiles ``newest``, ``newest - step``, ..., `count` of them."""

    newest: int
    count: int
    step: int


def plan_waves(tiles: int, processors: int, block_tiles: int, *, leaves_room: bool = True) -> Waves:
    """Divide a batch into waves, for blocks that work on `block_tiles` tiles at once.

    With `leaves_room`, the last wave uses as few blocks as possible, so that sums of gradients can
    begin on the other multiprocessors.
    """
    blocks = min(processors, tiles)
    full = (tiles - 1) // (blocks * block_tiles)
    left = tiles - full * blocks * block_tiles
    last_blocks = -(-left // block_tiles) if leaves_room else min(blocks, left)
    return Waves(tiles, blocks, block_tiles, full, last_blocks if full else blocks)


def share_processors(
    layers: Sequence[tuple[int, int]], waves: Waves, processors: int, *, overlaps: bool = True
) -> list[tuple[int, int]]:
    """Divide the sums over all tiles into as many shares as the multiprocessors can take at once.

    `layers` has, for each layer, the number of blocks that work on a share of the tiles, and the
    work of a block for a tile. The result has, for each layer, the number of its shares, and how
    many of these are early: they begin on multiprocessors that have no tiles in the last wave. No
    share is early unless the sums may begin while the pass is running (`overlaps`).
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
    """Estimate the number of tiles that each early share of a layer sums during the last wave."""
    if early == 0:
        return 0.0
    tiles = SUMMED_IN_A_WAVE * waves.block_tiles * processors / shares
    return min(tiles, waves.full_tiles / early)


def share_out(
    waves: Waves, shares: int, early: int, head_start: float
) -> list[tuple[TileRange, TileRange]]:
    """Distribute all tiles over a layer's shares so that the shares end at the same time.

    The first `early` shares begin with the last wave, the others at its end; `head_start` is the
    number of tiles that each early share sums during the last wave. The result has, for each share,
    its tiles of the full waves and its tiles of the last wave.
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
    """Deal out the tiles from `first` up to `end` (exclusive) in turn, from the newest on."""
    return [
        TileRange(end - 1 - part, max(0, (end - 1 - part - first) // parts + 1), parts)
        for part in range(parts)
    ]
