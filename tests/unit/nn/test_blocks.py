"""Batches of an image's pixels contain one pixel of each of its blocks."""

import numpy as np
import pytest

from neuralfield.nn.blocks import Blocks
from neuralfield.system.random_streams import STREAM_ORDER, philox

CUTS = [
    *((23, 17, count) for count in (1, 2, 100, 195, 389, 390)),
    *((1, 40, count) for count in (1, 7, 39)),
    *((40, 1, count) for count in (1, 7, 39)),
    *((1000, 2, count) for count in (3, 999, 1001, 1999)),
    *((2, 1000, count) for count in (3, 999, 1001, 1999)),
    (384, 256, 4096),
]


@pytest.mark.parametrize(("width", "height", "count"), CUTS)
def test_blocks_tile_the_image_and_have_the_sizes_that_are_listed(width, height, count):
    blocks = Blocks(np, width, height, count)
    covered = np.zeros((height, width), dtype=int)
    for left, top, across, down in zip(*blocks.sides(), strict=True):
        assert across > 0
        assert down > 0
        covered[top : top + down, left : left + across] += 1
    assert (covered == 1).all()
    _, _, across, down = blocks.sides()
    assert set(across * down) <= set(blocks.sizes)
    assert len(blocks.sizes) <= 8


@pytest.mark.parametrize(("width", "height", "count"), CUTS)
def test_each_pixel_comes_once_in_a_cycle_of_its_block(width, height, count):
    blocks = Blocks(np, width, height, count)
    left, top, across, down = blocks.sides()
    steps = min(blocks.sizes[-1], 1000)
    batches = np.stack([blocks.pixels(step, 3) for step in range(2 * steps)])
    line, column = batches // width, batches % width
    assert ((left <= column) & (column < left + across)).all()
    assert ((top <= line) & (line < top + down)).all()
    for size in np.unique(across * down):
        of_size = batches[:, across * down == size]
        for first in range(0, 2 * steps - size + 1, size):
            cycle = np.sort(of_size[first : first + size], axis=0)
            assert (np.diff(cycle, axis=0) > 0).all(), size


def test_every_place_of_a_block_is_as_likely_in_any_step():
    blocks, steps = Blocks(np, 12, 8, 8), 12 * 300  # blocks of 12 pixels
    sampled = np.concatenate([blocks.pixels(step, 1) for step in range(5, steps, 12)])
    counts = np.bincount(sampled, minlength=96)
    assert counts.sum() == 2400
    assert ((counts - 25) ** 2 / 25).sum() < 88 + 4 * np.sqrt(2 * 88)


def test_pixels_differ_by_seed_and_do_not_depend_on_the_steps_before():
    late = Blocks(np, 23, 17, 50).pixels(1_234_567, 3)
    blocks = Blocks(np, 23, 17, 50)
    blocks.pixels(0, 3)
    np.testing.assert_array_equal(blocks.pixels(1_234_567, 3), late)
    assert (blocks.pixels(1_234_567, 4) != late).any()


@pytest.mark.parametrize("count", [1, 7, 2048, 65_537])
@pytest.mark.parametrize("step", [0, 1_234_567, 2**31 - 1])
def test_nothing_overflows_in_large_images(count, step):
    """The pixels are those computed with Python's integers, which do not overflow."""
    blocks, seed = Blocks(np, 20_000, 30_000, count), 2**63 + 1
    pixels = blocks.pixels(step, seed)
    _, _, across, down = blocks.sides()
    assert int((across * down).sum()) == 600_000_000
    for slot in {0, count // 3, count - 1}:
        row = slot * blocks.rows // count
        first, following = (-(-(row + i) * count // blocks.rows) for i in (0, 1))
        left, right = ((slot - first + i) * 20_000 // (following - first) for i in (0, 1))
        top, bottom = ((row + i) * 30_000 // blocks.rows for i in (0, 1))
        width, size = right - left, (right - left) * (bottom - top)
        cycle, phase = divmod(step, size)
        start = int(philox(np, (slot, 0, cycle, STREAM_ORDER), seed)[0]) * size >> 32
        line, column = divmod((start + phase * stride_of(size)) % size, width)
        assert pixels[slot] == (top + line) * 20_000 + left + column


def stride_of(size):
    (stride,) = Blocks(np, size, 1, 1).strides
    return stride
