"""The fused pass processes tiles in waves, and each share of the sums covers its own tiles."""

import pytest

from neuralfield.engines.cuda.fused.waves import plan_waves, share_out, share_processors

ORIGINAL = [(1, 320), (1, 448), (2, 320), (1, 256), (1, 192), (1, 192)]


def tiles_of(ranges):
    return [tiles.newest - i * tiles.step for tiles in ranges for i in range(tiles.count)]


@pytest.mark.parametrize("processors", [7, 132])
@pytest.mark.parametrize("tiles", [1, 5, 131, 264, 265, 528, 530, 625, 6144])
@pytest.mark.parametrize("block_tiles", [2, 3, 4])
def test_every_tile_is_worked_on_once(tiles, processors, block_tiles):
    waves = plan_waves(tiles, processors, block_tiles)
    worked_on = []
    for block in range(waves.blocks):
        for index in range(waves.full + (block < waves.last_blocks)):
            blocks = waves.blocks if index < waves.full else waves.last_blocks
            first = index * block_tiles * waves.blocks + block
            worked_on += [first + number * blocks for number in range(block_tiles)]
    assert sorted(tile for tile in worked_on if tile < tiles) == list(range(tiles))


@pytest.mark.parametrize("tiles", [1, 5, 264, 265, 528, 530, 625, 6144])
@pytest.mark.parametrize("head_start", [0.0, 33.0, 1e6])
def test_every_layer_sums_every_tile_once(tiles, head_start):
    waves = plan_waves(tiles, 132, 2)
    for shares, early in share_processors(ORIGINAL, waves, 132):
        ranges = share_out(waves, shares, early, head_start)
        assert len(ranges) == shares
        assert sorted(tile for both in ranges for tile in tiles_of(both)) == list(range(tiles))


def test_sums_over_full_rounds_have_no_tile_of_the_last_one():
    waves = plan_waves(625, 132, 2)
    assert (waves.full, waves.last_blocks, waves.full_tiles) == (2, 49, 528)
    for full, last in share_out(waves, 22, 14, 33.0):
        assert all(0 <= tile < 528 for tile in tiles_of([full]))
        assert all(528 <= tile < 625 for tile in tiles_of([last]))


def test_who_begins_early_sums_as_much_more_as_its_head_start():
    waves = plan_waves(625, 132, 2)
    counts = [len(tiles_of(both)) for both in share_out(waves, 22, 14, 12.0)]
    early, late = counts[:14], counts[14:]
    assert max(early) - min(early) <= 2
    assert max(late) - min(late) <= 2
    assert 10 <= min(early) - max(late) <= max(early) - min(late) <= 14


@pytest.mark.parametrize("tiles", [3, 264, 625, 6144])
def test_shares_take_the_processors_that_there_are(tiles):
    waves = plan_waves(tiles, 132, 2)
    shares = share_processors(ORIGINAL, waves, 132)
    taken = sum(count * blocks for (count, _), (blocks, _) in zip(shares, ORIGINAL, strict=True))
    early = sum(count * blocks for (_, count), (blocks, _) in zip(shares, ORIGINAL, strict=True))
    assert taken == 132 or all(count == tiles for count, _ in shares)
    assert early <= 132 - waves.last_blocks
    assert all(0 <= early <= count for count, early in shares)


def test_a_gpu_with_fewer_processors_than_sums_has_one_share_of_each():
    waves = plan_waves(625, 4, 2)
    assert [count for count, _ in share_processors(ORIGINAL, waves, 4)] == [1] * 6
