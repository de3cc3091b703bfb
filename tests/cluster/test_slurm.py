"""The workflow on a real SLURM: killed in five ways, it makes the same bytes as without.

Takes some minutes, and needs root and Debian's packages slurm-wlm and munge: `make test-cluster`.
"""

import contextlib
import importlib.util
import json
import math
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from processes import PATIENCE_S, wait_until
from slurm import Cluster
from victims import digests
from workspace import ROOT, SETTINGS, Workspace, clean_environment

pytestmark = pytest.mark.cluster

PLUGIN = ROOT / ".venv/slurm"
"""The folder into which `make test-cluster` installs the executor plugin. The plugin is not
installed into the environment, because with it Snakemake starts slowly on machines that have
SLURM's commands but no running SLURM."""

OPTIONS = [
    *("--workflow-profile", str(ROOT / "profiles/slurm"), "--jobs", "20"),
    *("--slurm-no-account", "--slurm-status-command", "squeue"),
    *("--slurm-init-seconds-before-status-checks", "1", "--latency-wait", "2"),
    *("--set-resources", "train:gpu=1"),  # requested although the training is on the CPU
]
STEPS = {"siren": 3000, "plain": 300}


@pytest.fixture(autouse=True)
def plugin() -> None:
    found = importlib.util.find_spec("snakemake_executor_plugin_slurm") or PLUGIN.is_dir()
    if not found:
        pytest.skip("no executor plugin: make test-cluster")


def environment(cluster: Cluster) -> dict[str, str]:
    here = clean_environment() | cluster.variables
    return here | ({"PYTHONPATH": str(PLUGIN)} if PLUGIN.is_dir() else {})


@contextlib.contextmanager
def running(
    command: list[str], folder: Path, variables: Mapping[str, str]
) -> Iterator[subprocess.Popen]:
    """Start a process that writes to messages.txt, and kill it at the end if it still runs."""
    with (folder / "messages.txt").open("a") as log:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=variables,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def must_succeed(process: subprocess.Popen, folder: Path) -> None:
    code = process.wait(PATIENCE_S)
    assert code == 0, (folder / "messages.txt").read_text()[-8000:]


def sweep(folder: Path) -> Workspace:
    """Return a workspace of two images, networks and seeds, which train for a few seconds."""
    folder.mkdir()
    workspace = Workspace(folder)
    workspace.draw("other.png", seed=1)
    workspace.settings["images"]["other"] = SETTINGS["images"]["tiny"] | {"path": "other.png"}
    workspace.settings["fields"] = {
        f"{name}_{seed}": field | {"training": {"random_seed": seed, "steps": STEPS[name]}}
        for name, field in SETTINGS["fields"].items()
        for seed in (0, 1)
    }
    workspace.settings["training"]["checkpoint_interval_s"] = 0.2
    workspace.settings["timelapse"]["formats"] = []
    return workspace


class HeldTraining:
    """A siren's training in the cluster that was paused after it saved a state, so that it is
    certain to be running when something is done to it."""

    def __init__(self, job: str, run: str, pid: int) -> None:
        self.job, self.run, self.pid = job, run, pid

    def goes_on(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGCONT)


def hold_trainings(cluster: Cluster, folder: Path, count: int) -> list[HeldTraining]:
    """Wait for trainings that have saved a state and are not near their end, and pause them."""
    held: dict[str, HeldTraining] = {}

    def hold() -> bool:
        for job, comment in cluster.queue("%A %k", "--states=RUNNING"):
            found = re.fullmatch(r"rule_train_wildcards_(\w+)_(siren_\d)", comment)
            if not found or job in held or len(held) == count:
                continue
            run = f"{found[1]}/{found[2]}"
            pid = script_of(job)
            if pid is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                training = HeldTraining(job, run, pid)
                states = (folder / "results" / run / ".state").rglob("state_*.safetensors")
                step = max((int(path.stem.rpartition("_")[2]) for path in states), default=0)
                if 0 < step < 0.9 * STEPS["siren"]:
                    held[job] = training
                else:
                    training.goes_on()
        return len(held) == count

    wait_until(hold)
    return list(held.values())


def script_of(job: str) -> int | None:
    """Return the ID of the process that trains in a job."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            variables = (path.parent / "environ").read_bytes().split(b"\0")
            is_training = any(word.endswith(b".train.py") for word in words[:2])
            if is_training and f"SLURM_JOB_ID={job}".encode() in variables:
                return int(path.parent.name)
    return None


def state_of(cluster: Cluster, job: str) -> dict[str, str]:
    words = cluster.command("scontrol", "--oneliner", "show", "job", job).split()
    return dict(word.split("=", 1) for word in words if "=" in word)


def test_a_job_knows_when_slurm_ends_it(cluster: Cluster, tmp_path: Path):
    """Variables of newer SLURMs are not needed, because the steps of a job do not have them."""
    script, messages = tmp_path / "ask.py", tmp_path / "messages.txt"
    script.write_text(
        "import os; from neuralfield.system.interruption import slurm_time_left_s;"
        "print(slurm_time_left_s({name: os.environ[name] for name in ('SLURM_JOB_ID', 'PATH')}))"
    )
    command = f"PYTHONPATH={ROOT / 'scripts'} {sys.executable} {script}"
    for limit_minutes, least_s, most_s in (("20", 600, 1200), ("UNLIMITED", math.inf, math.inf)):
        options = [f"--time={limit_minutes}", f"--output={messages}", f"--wrap={command}"]
        cluster.command("sbatch", "--wait", *options)
        assert least_s <= float(messages.read_text()) <= most_s


def test_a_sweep_killed_in_five_ways_ends_with_the_same_bytes(cluster: Cluster, tmp_path: Path):
    here, there = sweep(tmp_path / "here"), sweep(tmp_path / "there")
    command = [*there.command()[:-2], *OPTIONS]
    variables = environment(cluster)
    with running(here.command(), here.folder, clean_environment()) as without_slurm:
        # Snakemake is killed while trainings run and others are in the queue
        with running(command, there.folder, variables) as snakemake:
            (orphan,) = hold_trainings(cluster, there.folder, 1)
            assert state_of(cluster, orphan.job)["TresPerJob"] == "gres:gpu:1"
            snakemake.kill()
            snakemake.wait()
        states = [state for (state,) in cluster.queue("%T")]
        assert "RUNNING" in states and "PENDING" in states
        others = {job for (job,) in cluster.queue("%A")} - {orphan.job}
        cluster.command("scancel", *others)
        wait_until(lambda: not others & {job for (job,) in cluster.queue("%A")})

        # the successor of the training that was left waits for it
        there.unlock()
        model = f"results/{orphan.run}/model.safetensors"
        with running([*command, "--", model], there.folder, variables) as snakemake:
            log = there.folder / f"logs/{orphan.run}/train.log"
            wait_until(lambda: log.exists() and "waiting for it to end" in log.read_text())
            orphan.goes_on()
            must_succeed(snakemake, there.folder)

        with running(command, there.folder, variables) as snakemake:
            # a job in a partition of higher priority needs both GPUs
            preempted = hold_trainings(cluster, there.folder, 2)
            interrupted = {training.run for training in preempted}
            urgent = ["--partition=high", "--gpus=2", f"--output={os.devnull}", "--wrap=sleep 1"]
            cluster.command("sbatch", "--job-name=urgent", *urgent)
            for training in preempted:
                wait_until(lambda job=training.job: state_of(cluster, job)["Restarts"] == "1")

            # one job exceeds its time limit, and another one is cancelled
            late, cancelled = hold_trainings(cluster, there.folder, 2)
            interrupted |= {late.run, cancelled.run}
            cluster.command("scontrol", "update", f"JobId={late.job}", "EndTime=now")
            cluster.command("scancel", cancelled.job)
            for training, state in ((cancelled, "CANCELLED"), (late, "TIMEOUT")):
                wait_until(
                    lambda job=training.job, state=state: (
                        state_of(cluster, job)["JobState"] == state
                    ),
                )
            must_succeed(snakemake, there.folder)
        for run in interrupted:
            record = json.loads((there.folder / "results" / run / "training.json").read_text())
            assert any("resuming from the state" in note for note in record["notes"]), run
        must_succeed(without_slurm, here.folder)
    expected = digests(here.folder / "results")
    assert len(expected) > 8 * 5
    assert digests(there.folder / "results") == expected
