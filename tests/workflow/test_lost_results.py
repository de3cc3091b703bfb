"""No result is lost: repeating a command restores deleted files with the same bytes."""

import hashlib
import os
import re
import shlex
import signal
from pathlib import Path

import pytest
from check import main
from processes import wait_until
from workspace import Workspace, without_kernels

ALL = ("all", "tables", "classifiers")
LEDGER = "results/batches.jsonl"
MODEL = "results/tiny/siren/model.safetensors"


def contents(workspace: Workspace) -> dict[str, str]:
    """Return the SHA-256 of every result, except hidden files."""
    return {
        str(path.relative_to(workspace.folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(workspace.path("results").rglob("*"))
        if path.is_file() and not re.search(r"/\.", str(path.relative_to(workspace.folder)))
    }


@pytest.fixture(scope="module")
def small(tmp_path_factory) -> Workspace:
    """Return a workspace with one finished image and network; every test leaves it unchanged."""
    workspace = Workspace(tmp_path_factory.mktemp("small"))
    workspace.settings["fields"] = {"siren": without_kernels()}
    workspace.settings["timelapse"]["formats"] = []
    workspace.succeed()
    return workspace


@pytest.fixture(scope="module")
def full(tmp_path_factory) -> Workspace:
    """Return a workspace with finished results of every kind."""
    workspace = Workspace(tmp_path_factory.mktemp("full"))
    workspace.settings["fields"] = {"siren": without_kernels(), "plain": without_kernels()}
    workspace.settings["timelapse"]["formats"] = ["gif"]
    workspace.settings["render"]["crops"] = {"eye": {"box": [0.25, 0, 0.5, 1], "size": 9}}
    workspace.settings["sweeps"] = {"two": {"fields": ["siren"], "vary": {"random_seed": [0, 1]}}}
    workspace.settings["sweeps"]["two"] |= {"batch": 2}
    workspace.add_table()
    workspace.settings["tables"]["slope"]["sizes"] = [[4]]
    workspace.add_classifier()
    workspace.succeed(*ALL)
    return workspace


@pytest.mark.slow
def test_a_damaged_table_of_pixels_costs_no_network(workspace: Workspace):
    """The run fails each time that it is repeated, until the damage is repaired."""
    workspace.settings["fields"] = {"siren": without_kernels()}
    workspace.succeed(MODEL)
    before = contents(workspace)
    pixels = workspace.path("results/tiny/pixels.csv")
    lines = pixels.read_text().splitlines(keepends=True)
    lines[4] = re.sub(r",[^,]*\n", ",77\n", lines[4])
    pixels.write_text("".join(lines))
    for _ in range(2):
        done = workspace.run(MODEL)
        assert done.returncode != 0, done.stdout
        (line,) = set(re.findall(r"^train tiny siren: (.*)", done.stdout, re.MULTILINE))
        assert line.startswith("results/tiny/pixels.csv: blue in line 5 is 77;")
        assert not workspace.path(MODEL).exists()
    pixels.unlink()
    assert "no training is needed" in workspace.succeed(MODEL)
    assert contents(workspace) == before


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_forced_run_that_is_stopped_while_it_trains_costs_no_network(small: Workspace, how):
    # a job may have taken its last step before the signal stops it
    assert any(stopped_while_it_trains(small, how) for _ in range(8))


def stopped_while_it_trains(small: Workspace, how: signal.Signals) -> bool:
    """Force a run and stop it; return whether its network was lost, after checking that a plain run
    restores it."""
    before = contents(small)
    process = small.start("-F")
    # the job deletes the file when it starts
    wait_until(lambda: not small.path(MODEL).exists(), process, pause_s=0.001)
    os.killpg(process.pid, how)
    process.wait()
    was_stopped = not small.path(MODEL).exists()
    small.unlock()
    small.succeed()
    assert not was_stopped or contents(small) == before
    return was_stopped


@pytest.mark.slow
def test_a_forced_training_restores_its_network(small: Workspace):
    before = contents(small)
    assert "no training is needed" in small.succeed("--forcerun", "train", "--", MODEL)
    small.succeed()
    assert contents(small) == before


@pytest.mark.slow
def test_every_result_is_a_target(full: Workspace):
    messages = full.succeed("--dry-run", "--verbose", "-F", *ALL)
    inputs = re.findall(
        rf"^(?:local)?rule (?:{'|'.join(ALL)}):\n    input: (.*)", messages, re.MULTILINE
    )
    assert len(inputs) == len(ALL)
    targets = {Path(name) for line in inputs for name in line.split(", ")}
    written = {Path(name) for name in contents(full)} - {Path(LEDGER)}
    lost = [path for path in written if not targets & {path, *path.parents}]
    assert not lost


@pytest.mark.slow
@pytest.mark.parametrize("part", range(2))
def test_every_deleted_file_comes_back_with_the_same_bytes(full: Workspace, part: int, capsys):
    """Snakemake does not look for files in folders; the check's command makes them again."""
    before = contents(full)
    for name in [name for name in before if name != LEDGER][part::2]:
        full.path(name).unlink()
    full.succeed(*ALL)
    if main(["--results", str(full.path("results"))]):
        command = capsys.readouterr().out.splitlines()[-1]
        full.succeed(*shlex.split(command)[3:])
        full.succeed(*ALL)
    assert contents(full) == before
    assert full.planned(*ALL) == {}
