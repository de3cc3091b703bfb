"""Setup shared by all tests: signals, compiled modules, Hypothesis, and other random seeds."""

import os
import signal

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from measuring.chromium import chromium, missing_reason

# a shell ignores Ctrl-C in processes that it starts in the background, and the processes that
# tests start would inherit that
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# without this, each of the many processes that tests start would compile every module again
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# the same examples each time, however slow the machine is
settings.register_profile(
    "unhurried",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.function_scoped_fixture,
    ],
)
settings.load_profile("unhurried")

_OTHER_SEED = int(os.environ.get("NEURALFIELD_TEST_SEED", "0"))

if _OTHER_SEED:
    _default_rng = np.random.default_rng

    def _with_other_seed(seed=None):
        """Return the usual generator with another seed, for other test data and initial weights."""
        return _default_rng([_OTHER_SEED, seed] if isinstance(seed, int) else seed)

    np.random.default_rng = _with_other_seed


def pytest_collection_modifyitems(items):
    """Skip tests that compare with results of the usual seed when another seed is set."""
    if not _OTHER_SEED:
        return
    skip = pytest.mark.skip(reason="compares with results of the usual random seeds")
    for item in items:
        if item.get_closest_marker("usual_seed"):
            item.add_marker(skip)


@pytest.fixture(scope="module")
def page():
    """Yield a page of a headless Chromium, which records script errors for tests."""
    if reason := missing_reason():
        pytest.skip(reason)
    with chromium() as page:
        yield page
