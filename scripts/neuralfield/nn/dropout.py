"""Dropout with masks that are a function of seed, step and sample, so that there is no state."""

from dataclasses import dataclass

from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.random_streams import STREAM_DROPOUT, philox

_WORDS = 4
"""Number of random numbers per counter."""


@dataclass(frozen=True)
class TrainingCall:
    """The counters for the random numbers of one call of a network in training.

    The random numbers of a sample do not depend on its batch or block, so that blocks can be
    computed separately, and a resumed training has the same results.
    """

    random_seed: int
    step: int  # number of completed steps, below 2 ** 32
    samples: Array  # int64, shape (n,); indices of the samples in the data, below 2 ** 32


@dataclass(frozen=True)
class Dropout:
    """A layer that drops values in training; see `dropout` for the rate."""

    rate: float


def dropout(x: Tensor, rate: float, call: TrainingCall, layer: int) -> Tensor:
    """Set each value of x to 0 with probability `rate`, and divide the others by (1 - `rate`).

    The shape of x is (n, ...), and `rate` is in [0, 1). The mean of a value is unchanged, so that
    inference needs no factor (Srivastava et al., "Dropout: a simple way to prevent neural networks
    from overfitting", JMLR 2014, section 10). `call` has the counters of the n samples. `layer` is
    the index of this dropout layer in the network, below 2 ** 24; each has its own random numbers.
    """
    if len(call.samples) != len(x.data):
        raise ValueError(f"dropout: {len(x.data)} values in, but {len(call.samples)} samples")
    if rate == 0:
        return x
    xp, number = namespace_of(x.data), x.data.dtype.type
    values = x.data[:1].size
    counters = xp.arange(-(-values // _WORDS))
    purpose = STREAM_DROPOUT | layer << 8
    counter = (counters[None, :], call.samples[:, None], call.step, purpose)
    words = xp.stack(philox(xp, counter, call.random_seed), axis=-1)
    words = words.reshape(len(x.data), -1)[:, :values].reshape(x.shape)
    threshold = min(round(rate * 2**32), 2**32 - 1)
    factors = (words >= xp.uint32(threshold)).astype(x.data.dtype)
    factors *= number(1 / (1 - rate))
    return record(x.data * factors, (x,), lambda g: (g * factors,))
