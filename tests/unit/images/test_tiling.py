"""Tiles cover an image, and their weights add up to 1 without a jump."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import ConfigError

TILINGS = st.builds(
    lambda width, height, tile_px, share: Tiling(
        width, height, tile_px, max(1, int(tile_px // 3 * share))
    ),
    st.integers(1, 900),
    st.integers(1, 900),
    st.integers(16, 300),
    st.floats(0, 1),
)


@given(TILINGS)
def test_tiles_cover_the_image_and_are_no_larger_than_asked_for(tiling):
    for spans, side in ((tiling.columns, tiling.width), (tiling.rows, tiling.height)):
        covered = np.zeros(side, int)
        for start, end in spans:
            assert 0 < end - start <= tiling.tile_px
            covered[start:end] += 1
        assert covered.min() == 1 and covered.max() <= 2
        assert np.count_nonzero(covered == 2) == (len(spans) - 1) * tiling.overlap_px
    assert [tiling.named(tile.name) for tile in tiling] == list(tiling)


@given(TILINGS)
def test_weights_add_up_to_one_and_do_not_jump(tiling):
    x_px = np.linspace(0, tiling.width, 5001)
    count = len(tiling.columns)
    weights = [tiling.weights(tiling.columns, column, x_px) for column in range(count)]
    np.testing.assert_allclose(np.sum(weights, axis=0), 1, atol=1e-12)
    steepest = np.pi / 2 / tiling.overlap_px * (x_px[1] - x_px[0])
    assert np.abs(np.diff(weights)).max(initial=0) <= steepest * (1 + 1e-9)
    for (start, end), weight in zip(tiling.columns, weights, strict=True):
        assert not weight[(x_px < start) | (x_px > end)].any()


def test_the_seams_are_around_the_edges_of_tiles():
    tiling = Tiling(100, 40, 54, 8)
    assert tiling.columns == [(0, 54), (46, 100)]
    at_seams = tiling.at_seams(tiling.columns, np.arange(100) + 0.5)
    assert at_seams.nonzero()[0].tolist() == list(range(38, 62))
    assert not tiling.at_seams(tiling.rows, np.arange(40) + 0.5).any()


@pytest.mark.parametrize("overlap_px", [0, 7])
def test_three_tiles_never_meet(overlap_px):
    with pytest.raises(ConfigError, match=r"overlap: .; expected 1 to 6 pixels"):
        Tiling(100, 100, 20, overlap_px)
