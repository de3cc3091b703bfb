import numpy as np
import pytest
from finite_differences import check_gradients, weighted

from neuralfield.nn.dropout import TrainingCall, dropout
from neuralfield.nn.tensor import Tensor

SAMPLES = np.arange(4000)


def kept(rate=0.3, seed=5, step=7, samples=SAMPLES, layer=0, shape=(5, 3)):
    """Return a mask of the values of each sample that are kept."""
    ones = Tensor(np.ones((len(samples), *shape), dtype=np.float32))
    return dropout(ones, rate, TrainingCall(seed, step, samples), layer).data != 0


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_values_are_dropped_at_the_rate_and_the_mean_stays(rate):
    ones = Tensor(np.ones((len(SAMPLES), 25), dtype=np.float32))
    found = dropout(ones, rate, TrainingCall(1, 2, SAMPLES), 0).data
    deviation = np.sqrt(rate * (1 - rate) / found.size)
    assert abs((found == 0).mean() - rate) < 4 * deviation
    np.testing.assert_allclose(found[found != 0], 1 / (1 - rate), rtol=1e-6)
    assert found.dtype == np.float32


def test_a_sample_has_its_mask_in_any_block_of_any_batch():
    whole = kept()
    np.testing.assert_array_equal(kept(samples=SAMPLES[1000:1010]), whole[1000:1010])
    np.testing.assert_array_equal(kept(samples=SAMPLES[::-1]), whole[::-1])


@pytest.mark.parametrize(
    "other", [{"seed": 6}, {"step": 8}, {"layer": 1}, {"samples": SAMPLES + 1}]
)
def test_seed_step_layer_and_sample_each_give_another_mask(other):
    agreement = (kept(rate=0.5) == kept(rate=0.5, **other)).mean()
    assert abs(agreement - 0.5) < 5 * 0.5 / np.sqrt(15 * len(SAMPLES))


def test_gradient():
    call = TrainingCall(3, 1, np.arange(4))
    x = np.random.default_rng(0).normal(size=(4, 6))
    check_gradients(lambda leaf: weighted(dropout(leaf, 0.4, call, 0)), x)


def test_a_call_for_other_samples_is_refused():
    with pytest.raises(ValueError, match="3 values in, but 4 samples"):
        dropout(Tensor(np.ones((3, 2))), 0.5, TrainingCall(0, 0, np.arange(4)), 0)
