"""What the tests of the workflow share."""

from pathlib import Path

import pytest
from workspace import Workspace


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    """An empty one."""
    return Workspace(tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """One in which everything has been made; tests may plan in it, and restore what they change."""
    workspace = Workspace(tmp_path_factory.mktemp("finished"))
    workspace.succeed()
    return workspace
