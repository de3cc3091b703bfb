"""The cluster that the tests of this folder share."""

from collections.abc import Iterator

import pytest
from slurm import Cluster, running_cluster, why_not


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Start a SLURM of one machine, and stop it after the tests."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running_cluster() as cluster:
        yield cluster
