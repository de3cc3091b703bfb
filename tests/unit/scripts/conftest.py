"""A browser for tests of pages."""

import pytest
from measuring.chromium import chromium, missing_reason


@pytest.fixture(scope="module")
def page():
    """Yield a page of a headless Chromium, which records script errors for tests."""
    if reason := missing_reason():
        pytest.skip(reason)
    with chromium() as page:
        yield page
