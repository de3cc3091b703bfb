import numpy as np
import pytest

from neuralfield.coordinates import pixel_centres
from neuralfield.errors import ConfigError
from neuralfield.rng import permutation, philox, uniform
from neuralfield.sampling import Batches, Footprint, detail_density
from neuralfield.training import log_spaced_steps


@pytest.mark.parametrize(
    ("word", "seed", "expected"),
    [
        (0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ],
)
def test_philox_gives_the_published_words(word, seed, expected):
    """Known answers of the Random123 library for philox4x32-10."""
    assert tuple(int(w) for w in philox(np, (word,) * 4, seed)) == expected


def test_uniform_numbers_are_uniform():
    words = philox(np, (np.arange(50_000), 0, 0, 0), 3)
    draws = uniform(np.concatenate(words))
    assert draws.dtype == np.float32
    assert draws.min() >= 0
    assert draws.max() < 1
    counts, _ = np.histogram(draws, bins=10, range=(0, 1))
    assert np.abs(counts / draws.size - 0.1).max() < 0.003


def test_permutation_has_each_number_once_and_depends_on_its_index():
    first, second = (permutation(np, 1000, 5, 0, index) for index in (0, 1))
    assert sorted(first) == list(range(1000))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, permutation(np, 1000, 5, 0, 0))


def test_batches_visit_every_pixel_once_an_epoch():
    batches = Batches(np, pixel_count=100, batch_pixels=30, random_seed=1)
    seen = np.concatenate([batches.indices(step) for step in range(10)])
    for epoch in range(3):
        assert sorted(seen[100 * epoch : 100 * (epoch + 1)]) == list(range(100))


@pytest.mark.parametrize("batch_pixels", [0, 100, 1000])
def test_a_full_batch_is_every_pixel_in_order(batch_pixels):
    batches = Batches(np, pixel_count=100, batch_pixels=batch_pixels, random_seed=1)
    assert batches.indices(3).tolist() == list(range(100))


def test_detail_is_looked_at_more_often_and_nothing_is_left_out():
    values = np.zeros((20, 30, 1), dtype=np.float32)
    values[:, 15:] = 1
    density = detail_density(values, 0.8)
    assert density.sum() == pytest.approx(1)
    batches = Batches(np, 600, 100, random_seed=0, cumulative_density=np.cumsum(density))
    drawn = np.concatenate([batches.indices(step) for step in range(500)])
    counts = np.bincount(drawn, minlength=600).reshape(20, 30)
    np.testing.assert_allclose(counts / drawn.size, density.reshape(20, 30), atol=1e-3)
    assert counts[:, 14:16].sum() / drawn.size == pytest.approx(0.8 + 0.2 / 15, rel=0.02)
    assert counts.min() > 0


def test_a_flat_picture_has_no_detail():
    density = detail_density(np.full((4, 5, 3), 0.5, dtype=np.float32), 1.0)
    np.testing.assert_allclose(density, 1 / 20)


def test_footprint_groups_have_a_point_in_every_row_and_column_of_the_pixel():
    centres = pixel_centres(np, 8, 4).astype(np.float32)
    footprint = Footprint(6, 2 / 8, random_seed=0)
    points = footprint.spread(np, centres, np.arange(32), step=4).reshape(32, 2, 3, 2)
    offset = (points - centres[:, None, None]) / (2 / 8) + 0.5
    assert offset.min() >= 0
    assert offset.max() <= 1
    cells = np.sort(np.floor(offset * 3 - 1e-5).clip(0, 2), axis=2)
    np.testing.assert_array_equal(cells, np.broadcast_to([[0, 0], [1, 1], [2, 2]], cells.shape))


def test_footprint_groups_estimate_the_mean_without_bias_and_independently():
    """Over x * y > 0, which no row or column of points can know: an edge inside the pixel."""
    footprint = Footprint(4, 2.0, random_seed=0)
    points = footprint.spread(np, np.zeros((40_000, 2)), np.arange(40_000), step=0)
    inside = ((points[:, 0] * points[:, 1] > 0) & (points[:, 0] > -0.4)).reshape(-1, 2, 2)
    means = inside.mean(axis=2)
    assert means.mean() == pytest.approx(0.35, abs=0.005)
    errors = means - 0.35
    assert (errors[:, 0] * errors[:, 1]).mean() == pytest.approx(0, abs=0.002)
    assert (errors[:, 0] ** 2).mean() > 0.05, "where one estimate's square would be far from zero"


def test_footprint_is_drawn_anew_each_step_and_does_not_depend_on_the_batch():
    centres, footprint = pixel_centres(np, 8, 4), Footprint(4, 2 / 8, random_seed=0)
    everything = footprint.spread(np, centres, np.arange(32), step=1).reshape(32, 4, 2)
    some = np.array([30, 2, 7])
    part = footprint.spread(np, centres[some], some, step=1).reshape(3, 4, 2)
    np.testing.assert_array_equal(part, everything[some])
    later = footprint.spread(np, centres, np.arange(32), step=2).reshape(32, 4, 2)
    assert not np.array_equal(everything, later)


def test_footprint_wants_an_even_number():
    with pytest.raises(ConfigError, match=r"training\.footprint_points: 5; expected an even"):
        Footprint(5, 0.1, 0)


def test_log_spaced_steps_hold_both_ends_and_are_denser_at_the_start():
    steps = log_spaced_steps(10_000, 40)
    assert (steps[0], steps[-1]) == (0, 10_000)
    assert len(steps) <= 40
    gaps = np.diff(steps)
    assert (gaps > 0).all()
    assert gaps[-1] > 100 * gaps[0]
    assert log_spaced_steps(1, 40) == [0, 1]
