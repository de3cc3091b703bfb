"""The lines of the logger plugin for the events of a run, which were recorded from a real run."""

import io
import json
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
import yte
from paths import ROOT
from snakemake.logging import DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent

import snakemake_logger_plugin_neuralfield as plugin
from snakemake_logger_plugin_neuralfield.bars import Bars
from snakemake_logger_plugin_neuralfield.job import Job, Progress
from snakemake_logger_plugin_neuralfield.time_left import TimeLeft
from snakemake_logger_plugin_neuralfield.words import about, metrics_in_words, table

SIREN = {"image": "cub", "field": "siren"}
STATS = {"train": 2, "evaluate": 2, "report": 1, "total": 5}
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


class Shown:
    """A log handler on a pipe, and what it has shown."""

    def __init__(self, monkeypatch, **asked):
        options = ("stdout", "verbose", "printshellcmds", "debug_dag", "nocolor", "dryrun")
        settings = dict.fromkeys(options, False) | asked
        monkeypatch.setattr(plugin, "_SECONDS_BETWEEN_LOOKS", 1000)
        monkeypatch.setattr("sys.stderr", io.StringIO())
        self.handler = plugin.LogHandler(SimpleNamespace(**settings), None)  # type: ignore
        self.handler.setFormatter(DefaultFormatter())

    def lines(self):
        return self.handler.stream.getvalue().splitlines()  # type: ignore[attr-defined]

    def take(self, message, event=None, level=logging.INFO, **values):
        values |= {"event": event} if event else {}
        record = {"msg": message, "levelno": level, "levelname": logging.getLevelName(level)}
        self.handler.handle(logging.makeLogRecord(record | values))

    def begin(self):
        for noise in ("Building DAG of jobs...", "Using shell: /usr/bin/bash", "None"):
            self.take(noise)
        self.take("Provided cores: 2", LogEvent.RESOURCES_INFO, cores=2)
        self.take("Job stats:\njob count", LogEvent.RUN_INFO, stats=STATS)

    def start(self, number, rule, message, outputs=()):
        self.take("Rule", LogEvent.JOB_INFO, **event(number, rule, message, outputs))

    def finish(self, number):
        self.take("Finished jobid", LogEvent.JOB_FINISHED, job_id=number)

    def fail(self, number):
        values = {"jobid": number, "rule_name": "train", "log": ["logs/cub/siren/train.log"]}
        empty = dict.fromkeys(("input", "output", "conda_env", "shellcmd", "rule_msg"))
        self.take("E", LogEvent.JOB_ERROR, logging.ERROR, aux={}, **empty, **values)


def event(number, rule, message, outputs=(), wildcards=SIREN, reason="Missing output files: a"):
    return {
        "jobid": number,
        "rule_name": rule,
        "rule_msg": message,
        "wildcards": wildcards,
        "input": [],
        "output": [f"results/cub/siren/{name}" for name in outputs],
        "log": [f"logs/cub/siren/{rule}.log"],
        "threads": 1,
        "reason": reason,
        "resources": {"_cores": 1, "_nodes": 1, "mem_mb": "TBD"},
    }


def write_progress(step, steps_per_s=100.0):
    numbers = {"step": step, "steps": 1000, "measured": "38.40 dB", "seconds": 6.0}
    file = Path("logs/cub/siren/train.progress.json")
    file.write_text(json.dumps(numbers | {"steps_per_s": steps_per_s}))


def test_each_result_has_one_line_with_its_number(folder, monkeypatch):
    write_progress(999)  # of an earlier run, which says nothing about this one
    shown = Shown(monkeypatch)
    shown.begin()
    shown.start(1, "train", "Training siren on cub", ["model.safetensors"])
    assert shown.handler.run and not shown.handler.run.trainings()
    write_progress(1000)
    shown.finish(1)
    shown.start(2, "evaluate", "Evaluating siren on cub", ["metrics.json"])
    shown.finish(2)
    shown.start(3, "report", "Writing the report", ["report.html"])
    shown.finish(3)
    shown.take("a note of the workflow")
    shown.take("Complete log(s): /w/1.log")
    shown.take(None, LogEvent.PROGRESS, done=5, total=5)
    shown.handler.close()
    first, *lines, last = shown.lines()
    assert first == "5 jobs on 2 cores"
    assert lines == [
        "Training siren on cub: 38.40 dB in 6.0 s",
        "Evaluating siren on cub: fit 38.41 dB, wrong pixels 0, redraw 21.30 dB,"
        " best filter back-projection 19.04 dB",
        "a note of the workflow",
        "image  network       fit  wrong pixels    redraw               best filter  trained in",
        "cub    siren    38.41 dB             0  21.30 dB  back-projection 19.04 dB       6.1 s",
    ]
    assert last.startswith("Done in ") and last.endswith("Open results/cub/siren/report.html.")


def test_a_failed_job_is_shown_by_snakemake_and_again_at_the_end(folder, monkeypatch):
    shown = Shown(monkeypatch)
    shown.begin()
    shown.start(1, "train", "Training siren on cub")
    Path("logs/cub/siren/train.log").write_text("step 3\n10:00:00 cub.csv: is torn; copy it\n\n")
    shown.fail(1)
    shown.take("Trying to restart job 1.")
    shown.start(1, "train", "Training siren on cub")
    shown.fail(1)
    shown.take("Complete log(s): /w/1.log")
    shown.handler.close()
    text = "\n".join(shown.lines())
    assert text.count("Error in rule train:") == 2 and "Trying to restart" in text
    assert "    log: logs/cub/siren/train.log (check" in text and "/w/1.log" in text
    assert text.endswith(
        "s, 1 failed:\n  Training siren on cub: 10:00:00 cub.csv: is torn; copy it\n"
        "The same command continues from here."
    )


def test_a_pipe_has_a_heartbeat(folder, monkeypatch):
    shown = Shown(monkeypatch)
    shown.begin()
    shown.start(1, "train", "Training siren on cub")
    write_progress(310)
    run = shown.handler.run
    assert run
    shown.handler._show_progress(run)
    assert len(shown.lines()) == 1, "30 seconds have not passed"
    for step, state in ((310, "0:00:07 left"), (1000, "finishing")):
        write_progress(step)
        shown.handler._last_line_s -= 31
        shown.handler._show_progress(run)
        beat = shown.lines()[-1]
        assert beat[2] == beat[5] == ":" and f"  Training siren on cub: {state}, 38.40 dB" in beat
        assert f" {step:,} of 1,000; 0 of 5 jobs done in " in beat


def test_a_dry_run_has_a_line_for_each_network(folder, monkeypatch):
    shown = Shown(monkeypatch, dryrun=True)
    shown.begin()
    forced = event(
        2, "evaluate", "E", reason="Forced execution; Input files updated by another job: b"
    )
    shown.take("Rule", LogEvent.JOB_INFO, **event(1, "train", "T"))
    shown.take("Rule", LogEvent.JOB_INFO, **forced)
    shown.handler.close()
    assert shown.lines()[:2] == [
        "Would run 5 jobs:",
        "  cub, siren: train, evaluate (missing output files, forced execution)",
    ]


@pytest.mark.parametrize("option", ["verbose", "printshellcmds", "debug_dag"])
def test_options_for_details_give_all_that_snakemake_writes(folder, monkeypatch, option):
    shown = Shown(monkeypatch, **{option: True})
    shown.begin()
    shown.handler.close()
    assert shown.lines()[-2:] == ["Job stats:", "job count"]


def test_bars_are_stacked_and_go_away(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    bars = Bars(stream)
    progress = Progress(310, 1000, "38.40 dB", 5.0, 10.0)
    bars.draw([("cub by siren", progress), ("cub by mlp", progress)], "2 of 6 jobs done")
    drawn = stream.getvalue()
    assert "cub by siren  31%|" in drawn and "cub by mlp    31%|" in drawn, "one below the other"
    assert "| 0:01:09 left, 38.40 dB, 310 of 1,000" in drawn and "2 of 6 jobs done" in drawn
    assert drawn.count("\n") == drawn.count("\x1b[A") and "\x1b[?25l" not in drawn
    with bars.aside():
        stream.write("a line\n")
    long = "Training a very long name of a network on cub"
    bars.draw([(f"{long} {n}", progress) for n in range(40)], "2 of 60 jobs done")
    last = stream.getvalue().split("cub 0 ")[-1]
    assert "cub 15 " in last and "cub 16 " not in last and long not in last
    assert "24 more trainings; 2 of 60 jobs done" in last
    stream.truncate(0)
    bars.clear()
    assert "cub" not in stream.getvalue()


def test_the_time_left_comes_from_the_jobs_of_this_run(folder):
    left = TimeLeft({"_cores": 2.0})
    assert left.in_words({"train": 4}, []) == "", "nothing is known"
    left.finished["train"].append((100.0, {"_cores": 1}))
    assert left.in_words({"train": 4}, []) == "about 3 minutes", "two at a time"
    assert left.in_words({"train": 4, "view": 2}, []) == "at least 3 minutes"
    left.finished["train"].append((300.0, {"_cores": 2}))
    assert left.in_words({"train": 4}, []) == "about 13 minutes"
    left.finished["train_batch_1"].append((40.0, {"_cores": 1}))
    assert left.in_words({"train_batch_2": 2}, []) == "about 40 seconds", "it is of the same kind"
    running = Job(event(1, "train", "T"))
    write_progress(400, steps_per_s=1.0)
    assert left.in_words({}, [running]) == "about 10 minutes"


def test_before_that_it_comes_from_the_benchmark_files(folder):
    for name, seconds in (("train", 200), ("evaluate", 30), ("damaged", "?")):
        row = f"s\th:m:s\trule_name\tthreads\n{seconds}\t0\t{name}\t1\n"
        Path(f"logs/cub/{name}.benchmark.tsv").write_text(row)
    left = TimeLeft({"_cores": 2.0})
    assert left.in_words({"train": 4}, []) == "about 7 minutes"
    left.finished["train"].append((400.0, {"_cores": 1}))
    assert left.in_words({"evaluate": 4}, []) == "about 2 minutes", "this run is slower"


def test_estimates_are_rounded():
    seconds = (3, 44, 80, 100, 5000, 50_000, 400_000)
    assert [about(s) for s in seconds] == (
        ["10 seconds", "40 seconds", "80 seconds", "2 minutes", "83 minutes", "14 hours", "5 days"]
    )


def test_a_table_has_no_empty_columns_and_not_too_many_rows(folder):
    Path("results/cub/old").mkdir()
    other = {**METRICS, "wrong_pixels": None, "psnr_db": 9.5, "train_seconds": None}
    Path("results/cub/old/metrics.json").write_text(json.dumps(other))
    folders = [Path("results/cub") / name for name in ("siren", "old", "missing")]
    assert table(folders)[1:] == [
        "cub    siren    38.41 dB             0  21.30 dB  back-projection 19.04 dB       6.1 s",
        "cub    old       9.50 dB                21.30 dB  back-projection 19.04 dB",
    ]
    assert metrics_in_words({"accuracy": 0.5, "held_out_accuracy": None}) == "correct 50.0%"
    many = table([folders[0]] * 25)
    assert len(many) == 22 and many[-1] == "... and 5 more" and table(folders[2:]) == []


@pytest.mark.parametrize("name", ["default", "slurm"])
@pytest.mark.parametrize("is_installed", [True, False])
def test_the_profiles_name_the_plugin_where_it_is_installed(monkeypatch, is_installed, name):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: is_installed or None)
    with (ROOT / "profiles" / name / "config.yaml").open() as file:
        profile = yte.process_yaml(file, require_use_yte=True)
    assert profile and profile.get("logger") == ("neuralfield" if is_installed else None)
