"""All tests share this: signals, compiled modules, and seeds for `tests/other_machines.py`."""

import os
import signal

import numpy as np
import pytest

# a shell ignores Ctrl-C in what it starts in the background, and so would the processes of tests
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# the many processes that tests start would compile every module again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

_OTHER_SEED = int(os.environ.get("NEURALFIELD_TEST_SEED", "0"))

if _OTHER_SEED:
    _default_rng = np.random.default_rng

    def _with_other_seed(seed=None):
        """The usual generator with another seed: test data and initial weights are others."""
        return _default_rng([_OTHER_SEED, seed] if isinstance(seed, int) else seed)

    np.random.default_rng = _with_other_seed


def pytest_collection_modifyitems(items):
    """Leave out, with other seeds, what compares with results of the usual one."""
    if not _OTHER_SEED:
        return
    skip = pytest.mark.skip(reason="compares with results of the usual random seeds")
    for item in items:
        if item.get_closest_marker("usual_seed"):
            item.add_marker(skip)
