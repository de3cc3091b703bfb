"""A browser for the tests of pages."""

import pytest
from measuring.chromium import chromium, missing_reason


@pytest.fixture(scope="module")
def page():
    """A page of a headless Chromium, whose script errors a test may ask for."""
    if reason := missing_reason():
        pytest.skip(reason)
    with chromium() as page:
        yield page
