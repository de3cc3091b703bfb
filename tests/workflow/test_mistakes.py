"""A user's mistake causes a failure with one line that names a remedy, and no traceback."""

import pytest
from workspace import Workspace, without_kernels


def fails_saying(workspace: Workspace, *messages: str, arguments: tuple[str, ...] = ()) -> str:
    done = workspace.run(*arguments)
    assert done.returncode != 0
    assert "Traceback" not in done.stdout, done.stdout
    for message in messages:
        assert message in done.stdout, done.stdout
    return done.stdout


def test_in_the_config(workspace):
    workspace.settings["images"]["tiny"]["size"] = 0
    workspace.settings["training"]["stesp"] = 3
    fails_saying(
        workspace,
        "config.yaml: images.tiny.size: 0; expected a whole number of pixels from 1 to 100000",
        "config.yaml: training.stesp: unknown key;",
        "did you mean steps?",
    )
    assert not workspace.path("results").exists()


@pytest.mark.slow
def test_in_an_image(workspace):
    """A job finds it: other jobs finish, and the terminal and the log show the error."""
    workspace.path("broken.png").write_bytes(workspace.path("tiny.png").read_bytes()[:300])
    workspace.settings["images"]["broken"] = {"path": "broken.png"}
    workspace.settings["fields"] = {"siren": without_kernels()}
    workspace.settings["timelapse"]["formats"] = []
    fails_saying(
        workspace,
        "resize broken: broken.png: is cut off or damaged",
        "Error in rule resize:",
        "log: logs/broken/resize.log (check log file(s) for error details)\n",
    )
    assert "damaged" in workspace.path("logs/broken/resize.log").read_text()
    assert workspace.path("results/tiny/siren/metrics.json").exists()


@pytest.mark.slow
def test_more_threads_than_cores(workspace):
    workspace.settings["training"]["threads"] = 9999
    fails_saying(
        workspace,
        "train tiny siren: training.threads: 9999; expected a whole number from 1 to",
        arguments=("results/tiny/siren/model.safetensors",),
    )
