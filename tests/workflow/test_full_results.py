"""The workflow, its results on a real disk that is full and then is not."""

import pytest
from small_disk import small_disk

pytestmark = pytest.mark.slow


def test_the_same_command_goes_on_when_there_is_space(workspace):
    model = "results/tiny/siren/model.safetensors"
    with small_disk(workspace.path("results"), 28) as disk:
        said = workspace.run(model).stdout
        assert "No space left on device" in said and "Traceback" not in said, said
        assert "the same command again" in said, said
        assert not list(disk.folder.rglob("*.tmp"))
        disk.resize(16 << 10)
        workspace.succeed(model)
