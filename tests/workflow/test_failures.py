"""A failing job on the terminal: few lines, and nothing lost."""

import logging
import os

import pytest
from snakemake.logging import DefaultFormatter
from snakemake_interface_logger_plugins.common import LogEvent
from workspace import Workspace, without_kernels

from jobs.failures import ShortFailures, shorten

RULE_EXCEPTION = """RuleException:
CalledProcessError in file "/w/train.smk", line 69:
Command 'set -euo pipefail;  python /w/tmp.train.py' {end}."""


def record(message, **extra):
    return logging.makeLogRecord({"msg": message, "levelno": logging.ERROR, **extra})


def failed_job(log):
    return record(
        "Error in rule train, jobid: 7",
        event=LogEvent.JOB_ERROR,
        rule_name="train",
        rule_msg=None,
        jobid=7,
        input=["results/tiny/pixels.csv"],
        output=["results/tiny/siren/model.safetensors"],
        log=[log],
        conda_env=None,
        shellcmd=None,
        aux={},
        indent=False,
    )


def messages(message, **extra):
    return ShortFailures(DefaultFormatter()).format(record(message, **extra))


def test_which_job_and_where_its_log_is():
    line = ShortFailures(DefaultFormatter()).format(failed_job("logs/tiny/siren/train.log"))
    assert line == "Error in rule train, job 7; its log is logs/tiny/siren/train.log"


@pytest.mark.parametrize("code", [1, 75, 130])
def test_a_job_that_reported_itself_is_not_reported_again(code):
    assert messages(RULE_EXCEPTION.format(end=f"returned non-zero exit status {code}")) == ""


@pytest.mark.parametrize(
    "end", ["returned non-zero exit status 137", "died with <Signals.SIGKILL: 9>"]
)
def test_a_job_that_was_killed_is_reported(end):
    line = messages(RULE_EXCEPTION.format(end=end))
    assert "was killed by SIGKILL" in line and "--cores 1" in line and "\n" not in line


@pytest.mark.parametrize(
    ("message", "where"),
    [
        (
            "WorkflowError:\nError recording metadata for finished job ([Errno 28] No space left on"
            " device). Please ensure write permissions for the directory /my disk/.snakemake",
            "/my disk/.snakemake",
        ),
        ("OSError: [Errno 28] No space left on device: '.snakemake/locks/0'", ".snakemake/locks/0"),
    ],
)
def test_a_full_disk_is_reported_once_with_what_to_do(message, where):
    terminal = ShortFailures(DefaultFormatter())
    line = terminal.format(record(message))
    assert line.startswith(where) and "No space left on device" in line and "\n" not in line
    assert "free some space, then run the same command again" in line
    assert terminal.format(record(message)) == ""


def test_locked_results_are_reported_with_what_to_do(workspace: Workspace):
    locks = workspace.path(".snakemake/locks")
    locks.mkdir(parents=True)
    (locks / "0.output.lock").write_text("results/tiny/resized.png\n")
    workspace.path(".snakemake/neuralfield.owner").write_text("another machine\n")
    refused = workspace.run("results/tiny/resized.png")
    assert refused.returncode == 1 and "LockException" not in refused.stdout
    assert f"{workspace.folder}: another Snakemake process is creating files here" in refused.stdout
    assert "(snakemake --unlock)" in refused.stdout
    workspace.succeed("--unlock")
    assert not locks.exists()


def test_write_protected_results_are_reported_with_what_to_do():
    line = messages(
        'ProtectedOutputException in rule render in file "/w/render.smk", line 6:\nWrite-protected'
        " output files for rule render:\n    output: a/render_8.png, a/my 2.png\n    wildcards:"
        " image=a, field=b\n    affected files:\n        a/my 2.png\n        a/render_8.png"
    )
    assert line.startswith("a/my 2.png and 1 more: write-protected")
    assert "(chmod u+w 'a/my 2.png' a/render_8.png)" in line


def test_only_the_terminal_is_made_short():
    logger, terminal, file = logging.Logger("s"), logging.StreamHandler(), logging.NullHandler()
    terminal.name, file.name = "DefaultStreamHandler", "DefaultLogFileHandler"
    for handler in (terminal, file):
        handler.setFormatter(DefaultFormatter())
        logger.addHandler(handler)
    shorten(logger, verbose=True)
    assert isinstance(terminal.formatter, DefaultFormatter)
    shorten(logger, verbose=False)
    assert isinstance(terminal.formatter, ShortFailures)
    assert isinstance(file.formatter, DefaultFormatter)


@pytest.mark.slow
def test_a_damaged_image_among_others_says_how_to_get_the_report_of_the_others(
    workspace: Workspace,
):
    workspace.settings["fields"] = {"wire": without_kernels()}
    workspace.settings["timelapse"]["formats"] = []
    workspace.draw("cut.png", seed=1)
    os.truncate(workspace.path("cut.png"), 200)
    workspace.settings["images"]["torn"] = {"path": "cut.png", "size": 16}
    failed = workspace.run()
    assert failed.returncode == 1 and "resize torn: cut.png: is cut off" in failed.stdout
    advice = "for a report without torn, remove it from `images` in config.yaml"
    assert advice in failed.stdout
    del workspace.settings["images"]["torn"]
    assert workspace.planned() == {"report": 1, "summarize": 1}
    assert "Open results/report.html" in workspace.succeed()
