"""The terminal's output for the events of a run, which were recorded from a real run."""

import io
import json
import logging
import types
from pathlib import Path
from typing import Any

import pytest
from snakemake.logging import ColorizingTextHandler, DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

import terminal.screen
from config.configuration import ImageNetwork
from entry.progress import Progress, progress_path
from jobs import failures
from terminal import results_table
from terminal.bars import Bars
from terminal.planned import PlannedJob, Work, work_of
from terminal.run import Run
from terminal.screen import Screen, take_over
from terminal.time_left import Durations, run_s
from terminal.words import name_of

SNAKEMAKES = str(Path(logging.__file__).parents[1] / "nowhere")
SIREN = {"image": "cub", "field": "siren"}


def job(number, rule, outputs=(), needs=(), wildcards=SIREN, threads=1, gpus=0, work=None):
    return PlannedJob(
        number,
        rule,
        name_of(wildcards),
        dict(wildcards),
        tuple(f"results/cub/siren/{name}" for name in outputs),
        f"logs/cub/siren/{rule}.log",
        threads,
        gpus,
        bool(gpus),
        frozenset(needs),
        work or Work(rule),
        "it is missing" if rule == "train" else "it is forced to run again",
    )


def jobs_of_a_network():
    return [
        job(1, "encode", ["../pixels.csv"], wildcards={"image": "cub"}),
        job(
            2, "train", ["model.safetensors"], [1], work=Work("siren on processors", 100, 1000, 0.1)
        ),
        job(3, "evaluate", ["metrics.json", "comparison"], [2]),
        job(4, "render", ["render_50.png", "crop_eye.png"], [2]),
        job(5, "timelapse", ["timelapse.mp4"], [3]),
        job(6, "view", ["view.html"], [2]),
        job(7, "report", ["../../report.html"], [3, 5, 6], wildcards={}),
    ]


METRICS = {
    "psnr_db": 38.41,
    "wrong_pixels": 0,
    "upscale_psnr_db": 21.3,
    "upscale_lanczos_psnr_db": 18.85,
    "upscale_back_projection_psnr_db": 19.04,
    "upscale_best_filter": "back_projection",
    "train_seconds": 6.12,
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Make a working directory with an evaluation and the folder of its logs."""
    monkeypatch.chdir(tmp_path)
    for name in ("results/cub/siren", "logs/cub/siren"):
        Path(name).mkdir(parents=True)
    Path("results/cub/siren/metrics.json").write_text(json.dumps(METRICS))
    return tmp_path


def write_progress(step, seconds=6.0, steps_per_s=100.0):
    numbers = {"step": step, "steps": 1000, "measured": "38.40 dB"}
    text = json.dumps(numbers | {"seconds": seconds, "steps_per_s": steps_per_s})
    progress_path("logs/cub/siren/train.log").write_text(text)


class Terminal(io.StringIO):
    """A stream that keeps the text written to it, as a terminal or as a pipe."""

    is_a_terminal = False

    def __init__(self):
        super().__init__()
        self.writes = 0

    def write(self, text):
        self.writes += 1
        return super().write(text)

    def isatty(self):
        return self.is_a_terminal


def record(message: Any, event: LogEvent | None = None, path: str = "", **extra: Any):
    level = extra.pop("level", logging.INFO)
    values = {"msg": message, "levelno": level, "levelname": logging.getLevelName(level)}
    if event is not None:
        values["event"] = event
    path = path or str(Path(terminal.screen.snakemake.__file__).with_name("workflow.py"))
    return logging.makeLogRecord({**values, "pathname": path, **extra})


@pytest.fixture
def screen(folder, monkeypatch):
    """Yield a screen on a pipe, with the jobs of one network and the times of a new machine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    monkeypatch.setattr("terminal.planned.planned_jobs", lambda *_: jobs_of_a_network())
    monkeypatch.setattr("terminal.run.limits_of", lambda _: {"cores": 2.0})
    monkeypatch.setattr(terminal.screen, "_SECONDS_BETWEEN_LOOKS", 1000)
    usual = ColorizingTextHandler(stream=Terminal())
    usual.setFormatter(failures.ShortFailures(DefaultFormatter()))
    screen = Screen(usual, types.SimpleNamespace(dryrun=False))
    screen.plan = object()  # type: ignore[assignment]
    yield screen
    screen.close()


def shown(screen) -> str:
    return screen.usual.stream.getvalue()


def begin(screen):
    screen.emit(record("Workflow has started!", LogEvent.WORKFLOW_STARTED))
    for noise in ("Building DAG of jobs...", "Using shell: /usr/bin/bash"):
        screen.emit(record(noise))
    screen.emit(record("Provided cores: 2", LogEvent.RESOURCES_INFO))
    screen.emit(record("Job stats:\njob count", LogEvent.RUN_INFO, stats={}))


def run_all(screen):
    for number in range(1, 8):
        screen.emit(record("Select jobs to execute..."))
        screen.emit(record("Execute 1 jobs...", LogEvent.JOB_STARTED, jobs=[number]))
        screen.emit(record("Rule", LogEvent.JOB_INFO, jobid=number, rule_name="x", rule_msg="y"))
        if number == 2:
            write_progress(1000)
        screen.emit(record("Finished jobid", LogEvent.JOB_FINISHED, job_id=number))
        screen.emit(record(None, LogEvent.PROGRESS, done=number, total=7))


def test_each_finished_thing_has_one_line_with_its_number(screen):
    begin(screen)
    run_all(screen)
    start, *lines = shown(screen).splitlines()
    assert start.startswith("7 jobs on 2 cores; about ")
    assert lines == [
        "cub / siren: trained in 6.0 s, 38.40 dB",
        "cub / siren: fit 38.4 dB, 0 wrong pixels, redraw 21.3 dB"
        " (best filter: back-projection, 19.0)",
        "cub / siren: made render_50.png, crop_eye.png, timelapse.mp4 and view.html",
    ]
    assert not progress_path("logs/cub/siren/train.log").exists()


def test_our_own_lines_warnings_and_errors_are_shown(screen, folder):
    begin(screen)
    screen.emit(record("Sweep widths: 4 runs.", path=str(folder / "common.smk")))
    screen.emit(record("Trying to restart job 2."))
    screen.emit(record("Complete log(s): /w/.snakemake/log/1.log"))
    screen.emit(record("a warning", level=logging.WARNING))
    failed = {"rule_name": "train", "jobid": 2, "log": ["logs/cub/siren/train.log"]}
    screen.emit(record("Error", LogEvent.JOB_ERROR, level=logging.ERROR, **failed))
    screen.emit(record("Complete log(s): /w/.snakemake/log/1.log"))
    assert shown(screen).splitlines()[1:] == [
        "Sweep widths: 4 runs.",
        "Trying to restart job 2.",
        "a warning",
        "Error in rule train, job 2; its log is logs/cub/siren/train.log",
        "Complete log(s): /w/.snakemake/log/1.log",
    ]


@pytest.mark.parametrize(
    ("end", "lines"),
    [
        ("died with <Signals.SIGINT: 2>", 0),
        ("returned non-zero exit status 130", 0),
        ("returned non-zero exit status 1", 1),
    ],
)
def test_a_job_that_ctrl_c_has_ended_is_no_error(screen, folder, end, lines):
    begin(screen)
    before = len(shown(screen).splitlines())
    ended = f"RuleException:\nCalledProcessError in file prepare.smk:\nCommand 'python' {end}."
    screen.emit(record(ended, level=logging.ERROR))
    failed = {"rule_name": "train", "jobid": 2, "log": ["logs/cub/siren/train.log"]}
    screen.emit(record("Error", LogEvent.JOB_ERROR, level=logging.ERROR, **failed))
    assert len(shown(screen).splitlines()) - before == lines


def test_a_pipe_has_a_heartbeat(screen, monkeypatch):
    begin(screen)
    screen.run.start(2)
    write_progress(310)
    screen._show_progress()
    assert len(shown(screen).splitlines()) == 1, "30 seconds have not passed"
    screen._last_line_s -= 31
    screen._show_progress()
    beat = shown(screen).splitlines()[1]
    assert beat[2] == beat[5] == ":"
    assert beat[10:].startswith("cub / siren: 310 of 1,000, 38.40 dB, 0:00:07 left; 0 of 7 jobs")
    screen._show_progress()
    assert len(shown(screen).splitlines()) == 2
    write_progress(1000)
    screen._last_line_s -= 31
    screen._show_progress()
    assert ": 1,000 of 1,000, 38.40 dB, finishing; " in shown(screen).splitlines()[2]


def test_a_dry_run_says_what_would_be_made_and_how_long_it_takes(screen):
    screen.workflow.dryrun = True
    begin(screen)
    run_all(screen)
    first, *lines = shown(screen).splitlines()
    assert first.startswith("Would run 7 jobs on 2 cores; about ") and first.endswith(":")
    assert lines[:3] == [
        "  cub: encode (it is forced to run again)",
        "  cub / siren: train, evaluate, render, timelapse, view",
        "  all networks: report (it is forced to run again)",
    ]


@pytest.mark.parametrize("asked", ["verbose", "quiet", "printshellcmds", "debug_dag"])
def test_snakemakes_own_messages_come_back_on_request(asked):
    logger = logging.Logger("s")
    usual = ColorizingTextHandler(stream=Terminal())
    usual.name = "DefaultStreamHandler"
    usual.setFormatter(DefaultFormatter())
    logger.addHandler(usual)
    names = ("verbose", "quiet", "printshellcmds", "debug_dag")
    output = types.SimpleNamespace(**{name: name == asked for name in names})
    workflow = types.SimpleNamespace(output_settings=output, touch=False)
    assert take_over(logger, workflow) is None and logger.handlers == [usual]
    setattr(output, asked, False)
    assert logger.handlers != [usual] if take_over(logger, workflow) else False


def test_bars_are_stacked_and_go_away():
    stream = Terminal()
    stream.is_a_terminal = True
    bars = Bars(stream)
    progress = Progress(310, 1000, "38.40 dB", 5.0, 10.0)
    bars.draw([("cub / siren", progress), ("cub / mlp", progress)], "2 of 6 jobs done")
    drawn = stream.getvalue()
    assert "cub / siren  31%|" in drawn and "cub / mlp    31%|" in drawn, "one below the other"
    assert "| 310 of 1,000, 38.40 dB, 0:01:09 left" in drawn and "2 of 6 jobs done" in drawn
    assert drawn.count("\n") == drawn.count("\x1b[A") and "\x1b[?25l" not in drawn
    ended = Progress(1000, 1000, "38.40 dB", 5.0, 10.0)
    bars.draw([("cub / siren", ended), ("cub / mlp", progress)], "2 of 6 jobs done")
    assert "| 1,000 of 1,000, 38.40 dB, finishing" in stream.getvalue()
    with bars.aside():
        stream.write("a line\n")
    bars.draw([(f"cub / {n}", progress) for n in range(40)], "2 of 60 jobs done")
    last = stream.getvalue().split("cub / 0 ")[-1]
    assert "cub / 15 " in last and "cub / 16 " not in last
    assert "24 more trainings; 2 of 60 jobs done" in last
    stream.truncate(0)
    bars.clear()
    assert "siren" not in stream.getvalue()
    bars.clear()


def test_jobs_run_side_by_side_as_far_as_there_is_room():
    four = [job(n, "train") for n in range(4)]
    last = job(9, "report", needs=[0, 1, 2, 3])
    seconds = dict.fromkeys([0, 1, 2, 3], 10.0) | {9: 5.0}
    assert run_s([*four, last], seconds, (), cores=2) == 25
    assert run_s([*four, last], seconds, ()) == 15
    assert run_s([*four, last], seconds, (), slots=1) == 45
    assert run_s([*four, last], seconds | {0: 2.0}, [0, 1], cores=1) == 35
    wide = [job(0, "train", threads=8), job(1, "train", gpus=1), job(2, "train", gpus=1)]
    assert run_s(wide, seconds, (), cores=2, gpus=1) == 30
    assert run_s([], {}, ()) == 0


def test_times_are_learned_and_kept(folder):
    durations = Durations(folder / "cache" / "seconds.json")
    train, small = jobs_of_a_network()[1], job(2, "evaluate", work=Work("evaluate on processors"))
    first_s = durations.expected_s(train)
    durations.learn_rate(train.work, 1000, steps_per_s=1000 / 200)
    assert durations.work_s(train.work) == pytest.approx(200)
    wire = job(3, "train", work=Work("wire on processors", 100, 1000, 0.1))
    assert durations.work_s(wire.work) == pytest.approx(200), "the machine is as slow for others"
    for _ in range(20):
        durations.learn(small, 1.2)
    assert durations.expected_s(small) == pytest.approx(1.2, rel=0.01)
    durations.save()
    assert Durations(durations.path).expected_s(train) == durations.expected_s(train)
    for damage in ("damaged", '{"start_s": {}}', '{"siren on processors": -3}'):
        (folder / "cache" / "seconds.json").write_text(damage)
        assert Durations(durations.path).expected_s(train) <= first_s


def test_a_budget_bounds_what_a_training_takes():
    image, siren = {"size": 200}, {"type": "siren", "width": 96, "hidden_layers": 3}
    usual = {"steps": 1000, "batch_pixels": 2048, "supervision": "footprint"}
    usual |= {"footprint_points": 4, "optimizer": "adam", "precision": "auto", "engine": "auto"}

    def expected_s(durations=None, gpus=0, **training):
        network = siren | {"training": usual | training}
        plan: Any = types.SimpleNamespace(
            network_of=lambda _: network, image_of=lambda _: image, config={}, tile_job_of={}
        )
        work = work_of(job(2, "train", gpus=gpus), types.SimpleNamespace(**SIREN), plan)
        return (durations or Durations()).work_s(work), work

    alone_s, alone = expected_s()
    assert expected_s(budget=60.0)[0] == 60
    limited_s, limited = expected_s(cpu_budget=alone_s / 4)
    assert limited_s == pytest.approx(alone_s / 4)
    assert expected_s(cpu_budget=alone_s * 4)[0] == alone_s
    assert expected_s(cpu_budget=1e-3, gpus=1)[0] == expected_s(gpus=1)[0]
    durations = Durations()
    durations.learn_rate(limited, limited.steps // 4, 1e-3)
    assert durations.work_s(alone) == alone_s, "other steps tell nothing"


def test_a_training_that_runs_tells_how_long_the_others_take(folder):
    twice = [
        *jobs_of_a_network(),
        job(8, "train", wildcards={"image": "b", "field": "s"}, work=jobs_of_a_network()[1].work),
    ]
    run = Run(twice, Durations(), cores=1.0)
    before_s = run.seconds_left()
    run.start(2)
    write_progress(500, steps_per_s=2.0)
    run.look()
    run._estimate = (-1e9, 0.0)
    assert run.seconds_left() > 250 + 500 > before_s
    run.fail(2)
    assert not run.running and 2 in run.left


def test_the_table_of_results(folder):
    other = {**METRICS, "wrong_pixels": None, "psnr_db": 9.5, "train_seconds": None}
    corrected = {**METRICS, "upscale_uncorrected_psnr_db": 20.04}
    Path("results/cub/old").mkdir()
    Path("results/cub/old/metrics.json").write_text(json.dumps(other))
    networks = [ImageNetwork("cub", name) for name in ("siren", "old", "missing")]
    assert results_table.table(Path("results"), networks) == [
        "image  network  fit, dB  wrong pixels  redraw, dB        best filter, dB  trained in",
        "cub    siren      38.41             0       21.30  back-projection 19.04       6.1 s",
        "cub    old         9.50                     21.30  back-projection 19.04",
    ]
    many = results_table.table(Path("results"), networks[:1] * 25)
    assert len(many) == 22 and many[-1] == "... and 5 more in results/summary.csv"
    assert results_table.table(Path("results"), []) == []
    Path("results/cub/siren/metrics.json").write_text(json.dumps(corrected))
    heads, *rows = results_table.table(Path("results"), networks)
    assert "redraw, dB  uncorrected, dB" in heads
    assert "21.30            20.04  back" in rows[0] and "20.04" not in rows[1]
