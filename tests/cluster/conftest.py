"""The cluster that tests here share."""

from collections.abc import Iterator

import pytest
from slurm import Cluster, running_cluster, why_not


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """A SLURM of one machine, which is stopped afterwards."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with running_cluster() as cluster:
        yield cluster
