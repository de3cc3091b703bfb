import numpy as np
import pytest

from neuralfield.images.coordinates import pixel_centres
from neuralfield.nn.sampling import Batches, Footprint, detail_density
from neuralfield.system.random_streams import permutation, philox, uniform
from neuralfield.tasks.training_settings import log_spaced_steps


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
    numbers = uniform(np.concatenate(words))
    assert numbers.dtype == np.float32
    assert numbers.min() >= 0
    assert numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=10, range=(0, 1))
    assert np.abs(counts / numbers.size - 0.1).max() < 0.003


def random_order(size, seed=5, epoch=0):
    return permutation(size, seed, (epoch, 0))


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 16, 17, 64, 999, 40_000])
def test_a_random_order_has_each_number_once(size):
    assert sorted(random_order(size)) == list(range(size))


def test_batches_visit_every_pixel_once_an_epoch():
    batches = Batches(np, sample_count=100, batch_samples=30, random_seed=1)
    seen = np.concatenate([batches.indices(step) for step in range(10)])
    for epoch in range(3):
        assert sorted(seen[100 * epoch : 100 * (epoch + 1)]) == list(range(100))


@pytest.mark.parametrize("batch_samples", [0, 100, 1000])
def test_a_full_batch_is_every_pixel_in_order(batch_samples):
    batches = Batches(np, sample_count=100, batch_samples=batch_samples, random_seed=1)
    assert batches.indices(3).tolist() == list(range(100))


def test_detail_is_looked_at_more_often_and_nothing_is_left_out():
    values = np.zeros((20, 30, 1), dtype=np.float32)
    values[:, 15:] = 1
    density = detail_density(values, 0.8)
    assert density.sum() == pytest.approx(1)
    batches = Batches(np, 600, 100, random_seed=0, cumulative_density=np.cumsum(density))
    rendered = np.concatenate([batches.indices(step) for step in range(500)])
    counts = np.bincount(rendered, minlength=600).reshape(20, 30)
    np.testing.assert_allclose(counts / rendered.size, density.reshape(20, 30), atol=1e-3)
    assert counts[:, 14:16].sum() / rendered.size == pytest.approx(0.8 + 0.2 / 15, rel=0.02)
    assert counts.min() > 0


@pytest.mark.parametrize("count", [2, 3, 6, 7, 9, 64])
def test_footprint_groups_have_a_point_in_every_row_and_column_of_the_pixel(count):
    centres = pixel_centres(np, 8, 4).astype(np.float32)
    footprint = Footprint(count, 2 / 8, random_seed=0)
    points = footprint.spread(np, centres, np.arange(32), step=4).reshape(32, count, 2)
    offset = (points - centres[:, None]) / (2 / 8) + 0.5
    assert offset.min() >= 0
    assert offset.max() <= 1
    first, second = np.split(offset, [footprint.group_sizes[0]], axis=1)
    assert (first.shape[1], second.shape[1]) == ((count + 1) // 2, count // 2)
    for group in (first, second):
        size = group.shape[1]
        cells = np.sort(np.floor(group * size - 1e-4).clip(0, size - 1), axis=1)
        expected = np.broadcast_to(np.arange(size)[:, None], cells.shape)
        np.testing.assert_array_equal(cells, expected)


@pytest.mark.parametrize("count", [4, 5])
def test_footprint_groups_estimate_the_mean_without_bias_and_independently(count):
    """The integrand is x * y > 0 for x > -0.4: neither x nor y alone determines it."""
    footprint = Footprint(count, 2.0, random_seed=0)
    points = footprint.spread(np, np.zeros((40_000, 2)), np.arange(40_000), step=0)
    inside = ((points[:, 0] * points[:, 1] > 0) & (points[:, 0] > -0.4)).reshape(-1, count)
    groups = np.split(inside, [footprint.group_sizes[0]], axis=1)
    means = np.stack([group.mean(axis=1) for group in groups], axis=1)
    assert means.mean() == pytest.approx(0.35, abs=0.005)
    errors = means - 0.35
    assert (errors[:, 0] * errors[:, 1]).mean() == pytest.approx(0, abs=0.002)
    assert (errors[:, 0] ** 2).mean() > 0.05, "where one estimate's square would be far from zero"


def test_footprint_is_rendered_anew_each_step_and_does_not_depend_on_the_batch():
    centres, footprint = pixel_centres(np, 8, 4), Footprint(4, 2 / 8, random_seed=0)
    everything = footprint.spread(np, centres, np.arange(32), step=1).reshape(32, 4, 2)
    some = np.array([30, 2, 7])
    part = footprint.spread(np, centres[some], some, step=1).reshape(3, 4, 2)
    np.testing.assert_array_equal(part, everything[some])
    later = footprint.spread(np, centres, np.arange(32), step=2).reshape(32, 4, 2)
    assert not np.array_equal(everything, later)


def test_log_spaced_steps_hold_both_ends_and_are_denser_at_the_start():
    steps = log_spaced_steps(10_000, 40)
    assert (steps[0], steps[-1]) == (0, 10_000)
    assert len(steps) <= 40
    gaps = np.diff(steps)
    assert (gaps > 0).all()
    assert gaps[-1] > 100 * gaps[0]
    assert log_spaced_steps(1, 40) == [0, 1]
