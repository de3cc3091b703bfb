"""Jobs of a killed Snakemake, and no others, are cancelled; tests/cluster uses a real queue."""

import os
import subprocess

import pytest
from processes import PATIENCE_S, output_of
from test_startup import another_snakemake
from workspace import Workspace, clean_environment

from jobs import orphans, startup

UUID = "3f2b8c1e-0d4a-4e57-9a36-5b1c7d9e8f00"
SQUEUE = """#!/bin/sh
[ -e {folder}/cancelled ] || cat {folder}/queue
"""
SCANCEL = """#!/bin/sh
echo "$@" > {folder}/cancelled
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return Snakemake's own folder, and make a queue with two of its jobs and three others."""
    work = tmp_path / "work"
    for name in ("slurm_logs", "locks"):
        (work / ".snakemake" / name).mkdir(parents=True)
    jobs = [
        f"101|{UUID}|rule_train_wildcards_lion_cub_siren|{work}",
        f"102|mine_{UUID}|rule_report|{work}",
        f"103|{UUID}|rule_train_wildcards_lion_cub_siren|{work}/elsewhere",
        f"104|snakemake|(null)|{work}",
        f"105|{UUID}|(null)|{work}",
    ]
    (tmp_path / "queue").write_text("\n".join(jobs) + "\n")
    for name, script in (("squeue", SQUEUE), ("scancel", SCANCEL)):
        (tmp_path / name).write_text(script.format(folder=tmp_path))
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return work / ".snakemake"


@pytest.fixture
def cancel(folder):
    """Return a function that acts as a Snakemake that starts, and returns the jobs that it cancels
    and its messages."""
    owner, _ = startup.clear_stale_locks(folder)

    def cancel(patience_s=PATIENCE_S):
        messages = []
        orphans.cancel_orphans(owner, messages.append, set, folder, patience_s=patience_s)
        path = folder.parents[1] / "cancelled"
        return set(path.read_text().split()) if path.exists() else set(), messages

    return cancel


def test_jobs_of_a_killed_run_in_this_folder_are_cancelled(folder, cancel):
    cancelled, messages = cancel()
    assert cancelled == {"101", "102"}
    assert len(messages) == 1 and "has left 2 of its jobs in the queue" in messages[0]


def test_jobs_that_do_not_end_are_named(folder, cancel):
    (folder.parents[1] / "squeue").write_text(f"#!/bin/sh\ncat {folder.parents[1]}/queue\n")
    _, messages = cancel(patience_s=0)
    assert "still in the queue after 0 s: jobs 101 102" in messages[1]


def test_jobs_of_a_live_run_stay(folder, cancel):
    another = another_snakemake(folder)
    assert cancel() == (set(), [])
    another.communicate("")
    assert cancel()[0] == {"101", "102"}


def test_jobs_stay_while_another_machine_may_be_at_work(folder, cancel):
    for name in ("0.input", "0.output", "1.output"):  # two of this run, and another one
        (folder / "locks" / f"{name}.lock").touch()
    assert cancel() == (set(), [])


def test_without_slurm_nothing_is_asked(folder, cancel, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert cancel() == (set(), [])


@pytest.mark.slow
def test_files_that_go_with_a_cancelled_job_are_made_again(workspace: Workspace):
    """A job that is cancelled when its files are complete takes its files with it, after the
    cancelling run has already determined which files to make."""
    target = "results/tiny/pixels.csv"
    workspace.succeed(target)
    resized = workspace.path("results/tiny/resized.png")
    first = resized.read_bytes()
    workspace.path(target).unlink()  # is made from a file that the job takes with it
    workspace.path(".snakemake/slurm_logs").mkdir()
    queue, cancelled = workspace.path("queue"), workspace.path("cancelled")
    queue.write_text(f"101|{UUID}|rule_resize|{workspace.folder}\n")
    scripts = {
        "squeue": f"[ -e {cancelled} ] || cat {queue}",
        "scancel": f"rm {resized}; echo $@ >> {cancelled}",
    }
    for name, script in scripts.items():
        workspace.path(name).write_text(f"#!/bin/sh\n{script}\n")
        workspace.path(name).chmod(0o755)
    environment = clean_environment() | {"PATH": f"{workspace.folder}:{os.environ['PATH']}"}
    messages = output_of(
        workspace.command(target),
        cwd=workspace.folder,
        env=environment,
        stderr=subprocess.STDOUT,
    )
    assert cancelled.read_text() == "101\n"
    assert "Files went with them (1)" in messages
    assert "its locks are removed" not in messages
    assert resized.read_bytes() == first
    assert workspace.path(target).exists()
    assert workspace.planned(target) == {}
