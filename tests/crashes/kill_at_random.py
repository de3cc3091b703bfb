"""Kill a training and Snakemake at random moments, go on, and compare with a run left alone.

    python tests/crashes/kill_at_random.py --kills 100
    python tests/crashes/kill_at_random.py --kills 20 --device gpu
    python tests/crashes/kill_at_random.py --kills 100 --finished

Each process is killed by SIGKILL at a random moment of its life and started again in the same
folder, until one process finishes before its kill; then all results are compared, and the next run
starts in a new folder. Some kills wait until a file, or the results, are being written. Snakemake
is killed either together with its jobs, or alone, so that its jobs continue as orphans. Only kills
that hit a living process count. If Snakemake is not installed, only trainings are killed. The exit
code is 1 if any result differs.

With --finished, Snakemake is killed while it remakes finished results, either because it was forced
to, or because an image, a table of pixels or a setting changed. Kills are aimed at jobs of each
rule in turn. Then the change is reverted, and the plain command has to restore all results.
"""

import argparse
import importlib.util
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from victims import (
    CAUSES,
    FORCE_ALL,
    FORCE_ONE,
    FinishedWorkflow,
    SendSignal,
    TrainingVictim,
    Victim,
    Workflow,
    digests,
    unfinished_files,
)
from watching import (
    PATIENCE_S,
    PromiseBroken,
    Tally,
    compare,
    let_finish,
    send_signal,
    wait_for_orphans,
    wait_until,
)

SHARE_OF_TRAININGS = 0.7
STEPS = {"cpu": 3000, "gpu": 100_000}
"""Numbers of training steps that take some seconds."""

SHARE_AT_THE_START = 0.15
SHARE_AT_A_WRITE = 0.3
"""Share of kills that, after a random time, wait until a file is being written."""

SHARE_AT_THE_END = 0.05
"""Share of kills that wait until a training's results are being written, a few milliseconds."""

END_S = 0.05
WRITE_PATIENCE_S = 0.5
END_PATIENCE_S = 60
"""Seconds after which a Snakemake that was asked to end is killed, as clusters do."""


SIGNALS: dict[str, tuple[SendSignal, signal.Signals]] = {
    "SIGKILL to Snakemake and its jobs": (os.killpg, signal.SIGKILL),
    "SIGKILL to Snakemake": (os.kill, signal.SIGKILL),
    "SIGINT to Snakemake and its jobs (Ctrl-C)": (os.killpg, signal.SIGINT),
    "SIGTERM to Snakemake and its jobs": (os.killpg, signal.SIGTERM),
    "SIGTERM to Snakemake": (os.kill, signal.SIGTERM),
}
KILL_OF_A_JOB = "SIGKILL to a job"
SHARE_OF_FORCED_RULES = 0.6
MOST_JOBS_BEFORE_A_KILL = 5
JOB_S = 1.0
"""Maximum seconds between the detection of a job and the kill."""

MOST_KILLS_IN_A_ROW = 16


@dataclass(frozen=True)
class Life:
    """Times of an undisturbed run: until it first saves its state, and from then to its end."""

    start_s: float
    work_s: float


def kill_repeatedly(victim: Victim, kills: int, choose: random.Random, folder: Path) -> Tally:
    """Kill until `kills` kills have hit, then let the last run finish.

    Each run gets a subfolder of `folder`, which must be empty.
    """
    tally = Tally()
    if victim.device_kind == "gpu":
        _run_alone(victim, folder / "first")  # the first run compiles kernels, so its time differs
    life = _run_alone(victim, folder / "alone")
    expected = digests(victim.results(folder / "alone"))
    while True:
        run_folder = folder / f"run_{tally.whole_runs + 1}"
        sessions = []
        while True:
            process = victim.start(run_folder)
            sessions.append(process.pid)
            hit = tally.kills.total() < kills and _kill_once(
                victim, process, run_folder, life, choose, tally
            )
            if not hit:
                break
        name = f"{victim.name}, run {tally.whole_runs + 1}"
        let_finish(process, run_folder, name)
        wait_for_orphans(sessions, name)
        compare(digests(victim.results(run_folder)), expected, name)
        tally.whole_runs += 1
        tally.files_compared += len(expected)
        if tally.kills.total() >= kills:
            return tally


def kill_over_finished(
    victim: FinishedWorkflow,
    kills: int,
    choose: random.Random,
    aims: Sequence[str] = (),
) -> Tally:
    """Kill Snakemake while it remakes finished results; check that the plain command repairs them.

    `aims` are rules to force and to aim at, one for each kill; by default those hit least often.
    Raises `PromiseBroken` after all kills, if results were broken; they are restored in between.
    """
    let_finish(victim.start(), victim.folder, "the first run")
    victim.keep_copy()
    expected = digests(victim.results)
    tally = Tally()
    broken = []
    while tally.kills.total() < kills:
        history, sessions = [], []
        for _ in range(min(choose.randint(1, MOST_KILLS_IN_A_ROW), kills - tally.kills.total())):
            aim = aims[tally.kills.total()] if aims else None
            history.append(_kill_finished(victim, aim, sessions, choose, tally))
        name = " / ".join(history)
        print(f"{tally.kills.total():4}  {name}", flush=True)
        try:
            process = victim.start()
            sessions.append(process.pid)
            let_finish(process, victim.folder, name)
            wait_for_orphans(sessions, name)
            compare(digests(victim.results), expected, name)
            if findings := victim.findings():
                raise PromiseBroken(f"{name}: make check: {findings[0]}")
        except PromiseBroken as error:
            print(error, flush=True)
            broken.append(name)
            wait_for_orphans(sessions, name)
            victim.restore()
        tally.whole_runs += 1
        tally.files_compared += len(expected)
    if broken:
        raise PromiseBroken(f"{tally.table()}\n{len(broken)} broken: {'; '.join(broken)}")
    return tally


def _kill_finished(
    victim: FinishedWorkflow,
    aim: str | None,
    sessions: list[int],
    choose: random.Random,
    tally: Tally,
) -> str:
    """Kill once, and return a description of the kill."""
    cause, arguments = FORCE_ONE, []
    if aim is None:
        if choose.random() > SHARE_OF_FORCED_RULES:
            cause = choose.choice(sorted(CAUSES.keys() - {FORCE_ONE}))
        aim = min(
            sorted(set(victim.rules.values())),
            key=lambda rule: (tally.rules[rule], choose.random()),
        )
    if cause == FORCE_ONE:
        arguments = ["--forcerun", aim]
    elif cause == FORCE_ALL:
        arguments = ["--forceall"]
    jobs_before = choose.randrange(MOST_JOBS_BEFORE_A_KILL)
    way = choose.choice([*sorted(SIGNALS), KILL_OF_A_JOB])
    seen: set[int] = set()

    with CAUSES[cause](victim.workspace):
        process = victim.start(*arguments)
        sessions.append(process.pid)

        def is_aimed_at() -> bool:
            running = victim.running_jobs(process.pid)
            seen.update(running)
            return aim in running.values() if cause == FORCE_ONE else len(seen) > jobs_before

        wait_until(is_aimed_at, process, pause_s=0.05)
        time.sleep(choose.uniform(0, JOB_S))
        jobs = victim.running_jobs(process.pid)
        is_alive = process.poll() is None
        if way == KILL_OF_A_JOB:
            for pid in [*jobs][:1]:
                send_signal(os.kill, pid, signal.SIGKILL)
        else:
            send, number = SIGNALS[way]
            send_signal(send, process.pid, signal.SIGSTOP)  # paused for inspection
            jobs = victim.running_jobs(process.pid)
            send_signal(send, process.pid, number)
            send_signal(send, process.pid, signal.SIGCONT)
        try:
            code = process.wait(timeout=END_PATIENCE_S)
        except subprocess.TimeoutExpired:  # Snakemake's handler of SIGTERM may deadlock
            send_signal(os.kill, process.pid, signal.SIGKILL)
            code = process.wait(timeout=PATIENCE_S)
        if choose.random() < 0.5:
            wait_for_orphans(sessions, aim)
    hit = ", ".join(sorted(set(jobs.values()))) or "between jobs"
    if code == 0 or not is_alive or (way == KILL_OF_A_JOB and not jobs):
        tally.missed += 1
        return f"{cause}: missed"
    tally.kills[way] += 1
    tally.causes[cause] += 1
    tally.rules.update(set(jobs.values()) or {"between jobs"})
    return f"{cause}: {way}: {hit}"


def _run_alone(victim: Victim, folder: Path) -> Life:
    began_s = time.monotonic()
    process = victim.start(folder)
    wait_until(lambda: bool(victim.states(folder)), process)
    saved_s = time.monotonic()
    let_finish(process, folder, f"{victim.name}, the run left alone")
    return Life(saved_s - began_s, time.monotonic() - saved_s)


def _kill_once(
    victim: Victim,
    process: subprocess.Popen,
    folder: Path,
    life: Life,
    choose: random.Random,
    tally: Tally,
) -> bool:
    """Kill once; return whether the kill hit a living process, not one that had already ended."""
    unfinished_before = unfinished_files(folder)
    way = choose.choice(sorted(victim.ways))
    send = victim.ways[way]
    aim = choose.random()
    if aim < SHARE_AT_THE_END and not victim.checkpoints(folder).exists():
        wait_until(victim.checkpoints(folder).exists, process)
        time.sleep(choose.uniform(0, END_S))
    elif aim < SHARE_AT_THE_END + SHARE_AT_THE_START:
        time.sleep(choose.uniform(0, life.start_s))
    else:
        time.sleep(life.start_s + victim.longest_share * choose.uniform(0, life.work_s))
        if aim > 1 - SHARE_AT_A_WRITE:
            wait_until(
                lambda: bool(unfinished_files(folder) - unfinished_before),
                process,
                WRITE_PATIENCE_S,
            )
    send_signal(send, process.pid, signal.SIGSTOP)  # paused for inspection
    begun = unfinished_files(folder) - unfinished_before
    phase = victim.phase(process, folder, begun)
    send_signal(send, process.pid, signal.SIGKILL)
    if process.wait() != -signal.SIGKILL:
        tally.missed += 1
        return False
    tally.kills[f"{way}: {phase}"] += 1
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--kills", type=int, default=100, help="number of kills that hit (default: 100)"
    )
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--finished", action="store_true", help="kill while results are made again")
    parser.add_argument("--seed", type=int, help="seed of the moments (default: a new one)")
    given = parser.parse_args()
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(10**6)
    choose = random.Random(seed)
    for name, kills, campaign in _plan(given, choose):
        print(f"{name} on the {given.device}: {kills} kills, --seed {seed}", flush=True)
        started_s = time.monotonic()
        folder = Path(tempfile.mkdtemp(prefix="kills_"))
        try:
            tally = campaign(folder)
        except PromiseBroken as broken:
            print(f"{broken}\nThe folder is kept: {folder}")
            return 1
        shutil.rmtree(folder)
        print(tally.table())
        print(
            f"{tally.whole_runs} runs finished between them, each with the bytes of the run left"
            f" alone: {tally.files_compared} files compared by SHA-256,"
            f" {time.monotonic() - started_s:.0f} s\n",
            flush=True,
        )
    return 0


def _plan(
    given: argparse.Namespace, choose: random.Random
) -> Iterator[tuple[str, int, Callable[[Path], Tally]]]:
    """Yield the name, the number of kills and the function of each campaign."""
    if given.finished:
        yield (
            "Snakemake over finished results",
            given.kills,
            lambda folder: kill_over_finished(FinishedWorkflow(folder), given.kills, choose),
        )
        return
    training_kills = given.kills
    if importlib.util.find_spec("snakemake"):
        training_kills = round(SHARE_OF_TRAININGS * given.kills)
    else:
        print("Snakemake is not installed here: only trainings are killed.")
    steps = STEPS[given.device]
    plan: list[tuple[Victim, int]] = [(TrainingVictim(given.device, steps), training_kills)]
    if given.kills > training_kills:
        plan.append((Workflow(given.device, steps), given.kills - training_kills))
    for victim, kills in plan:
        yield victim.name, kills, partial(kill_repeatedly, victim, kills, choose)


if __name__ == "__main__":
    sys.exit(main())
