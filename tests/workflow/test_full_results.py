"""The workflow on real disks that are full or read-only, and later are writable again."""

import pytest
from small_disk import small_disk

pytestmark = pytest.mark.slow


def test_the_same_command_goes_on_when_there_is_space(workspace):
    model = "results/tiny/siren/model.safetensors"
    with small_disk(workspace.path("results"), 28) as disk:
        messages = workspace.run(model).stdout
        assert "No space left on device" in messages and "Traceback" not in messages, messages
        assert "the same command again" in messages, messages
        assert not list(disk.folder.rglob("*.tmp"))
        disk.resize(16 << 10)
        workspace.succeed(model)


def test_a_folder_that_is_read_only_is_named(workspace):
    pixels = "results/tiny/pixels.csv"
    with small_disk(workspace.path("results/tiny"), 1024) as disk:
        disk.set_writable(False)
        done = workspace.run(pixels)
        assert done.returncode
        assert "Read-only file system" in done.stdout and "results/tiny" in done.stdout
        disk.set_writable(True)
        workspace.succeed(pixels)
