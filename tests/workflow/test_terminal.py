"""A real run with the logger plugin, on a terminal and in a pipe; unit tests cover the details."""

import contextlib
import fcntl
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Callable
from pathlib import Path

import pytest
from processes import run, wait_until
from victims import command_of, processes_of_session
from workspace import ROOT, Workspace, clean_environment

EVALUATED = "results/tiny/siren/metrics.json"

OTHER_LOGGER = """
from snakemake_interface_logger_plugins.base import LogHandlerBase

class LogHandler(LogHandlerBase):
    writes_to_stream = True
    writes_to_file = has_filter = has_formatter = needs_rulegraph = False

    def emit(self, record):
        print("other:", getattr(record, "rule_msg", ""), flush=True)
"""


def environment(*folders: object) -> dict[str, str]:
    """Return an environment in which Snakemake finds the plugin of this checkout."""
    clean = clean_environment()
    folders = (clean["PYTHONPATH"], ROOT / "scripts", *folders)
    return clean | {"TERM": "xterm", "PYTHONPATH": os.pathsep.join(map(str, folders))}


def run_in_a_pipe(workspace: Workspace, *arguments: str, plugins: object = "") -> str:
    """Run the workflow, check that it succeeds, and return its output."""
    options = {"cwd": workspace.folder, "env": environment(plugins), "stderr": subprocess.STDOUT}
    done = run(workspace.command(*arguments), **options)
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_on_a_terminal(
    workspace: Workspace, *arguments: str, watch: Callable[[str, int], None] = lambda *_: None
) -> tuple[int, str]:
    """Run the workflow on a terminal of 80 columns; return its exit code and its output.

    `watch` is called repeatedly with the output so far and the ID of the process group.
    """
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 80, 0, 0))
    process = subprocess.Popen(
        workspace.command(*arguments),
        cwd=workspace.folder,
        env=environment(),
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
    )
    os.close(its)
    written = b""
    with contextlib.suppress(OSError):  # raised at the end of the output
        while part := os.read(ours, 1 << 16):
            written += part
            watch(written.decode(errors="replace"), process.pid)
    os.close(ours)
    return process.wait(), written.decode().replace("\r\n", "\n")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace with one small network and no time-lapse."""
    workspace = Workspace(tmp_path_factory.mktemp("small"))
    del workspace.settings["fields"]["plain"]
    workspace.settings["timelapse"]["formats"] = []
    # long enough for a progress bar on any machine
    workspace.settings["training"] |= {"budget": 4}
    return workspace


@pytest.fixture(scope="module")
def terminal(small: Workspace) -> str:
    """Return the output of a run on a terminal."""
    code, written = run_on_a_terminal(small, EVALUATED)
    assert code == 0, written
    return written


def test_a_terminal_has_bars_and_a_line_for_each_result(terminal: str):
    assert re.search(
        r"\r *Training siren on tiny +\d+%\|.*\| \S+ left, [\d.]+ dB, [\d,]+ of", terminal
    )
    assert re.search(r"2 of 4 jobs done in [\d.]+", terminal)
    assert len(re.findall(r"^4 jobs on 2 cores", terminal, re.MULTILINE)) == 1
    shown = re.findall(r"((?:Train|Evaluat)ing siren on tiny: [^\r\n|]*)\n", terminal)
    assert re.fullmatch(r"Training siren on tiny: [\d.]+ dB in \d.*", shown[0])
    assert re.fullmatch(
        r"Evaluating siren on tiny: fit [\d.]+ dB, redraw .* dB, best filter .* dB, bits per .*",
        shown[1],
    )
    assert re.search(r"tiny +siren +\d+\.\d\d dB +", terminal.split("image  network")[1])
    assert re.search(r"^Done in [\d.]+", terminal, re.MULTILINE)
    assert "[?25" not in terminal, "the cursor is never hidden"


def test_a_pipe_has_a_few_plain_lines(small: Workspace, terminal: str):
    messages = run_in_a_pipe(small, "results/tiny/siren/render_8.png")
    assert "tiny   siren" in messages and "\nDone in " in messages
    assert "\x1b" not in messages and "Reason" not in messages and len(messages.splitlines()) < 9
    assert not list(small.folder.glob("logs/**/*.preview.png"))
    log = max(small.path(".snakemake/log").iterdir())
    assert "Reason: Missing output files" in log.read_text(), "Snakemake's own log has everything"


def test_a_dry_run_is_short(small: Workspace, terminal: str):
    messages = run_in_a_pipe(small, "--dry-run", "--forceall", EVALUATED)
    assert "Would run 4 jobs:\n" in messages
    assert "  tiny, siren: train, evaluate (forced execution)" in messages


def test_quiet_shows_nothing_but_errors(small: Workspace, terminal: str):
    messages = run_in_a_pipe(small, "--quiet", "all", "--force", EVALUATED)
    assert not [line for line in messages.splitlines() if not line.startswith("Using workflow")]


def test_another_logger_is_alone(small: Workspace, terminal: str, tmp_path: Path):
    plugin = tmp_path / "snakemake_logger_plugin_other"
    plugin.mkdir()
    plugin.joinpath("__init__.py").write_text(OTHER_LOGGER)
    arguments = ("--logger", "other", "--force", EVALUATED)
    messages = run_in_a_pipe(small, *arguments, plugins=tmp_path)
    assert "other: Evaluating siren on tiny" in messages
    lines = [line for line in messages.splitlines() if not line.startswith("other:")]
    assert all(line.startswith("Using workflow") for line in lines), messages


@pytest.mark.slow
def test_ctrl_c_leaves_the_terminal_in_order(workspace: Workspace):
    """The training saves its state, and the last lines are not written into a progress bar."""
    workspace.settings["training"] |= {"steps": 1_000_000, "engine": "tape"}
    sent = []

    def interrupt(written: str, group: int) -> None:
        if "of 1,000,000" in written and not sent:
            sent.append(group)
            os.killpg(group, signal.SIGINT)

    code, written = run_on_a_terminal(workspace, EVALUATED, watch=interrupt)
    assert code == 1 and "train tiny siren: SIGINT: saved after step" in written
    last = written[written.rindex("Not finished:") - 1]
    assert last in "\n\r" and "[?25" not in written


def test_ctrl_c_during_the_imports_of_a_job_ends_the_run(workspace: Workspace):
    """Python may show where it was; the same command makes everything."""
    sent = []

    def interrupt(written: str, group: int) -> None:
        if "jobs on 2 cores" in written and not sent:
            wait_until(
                lambda: any(
                    "/.snakemake/scripts/" in text
                    for text in map(command_of, processes_of_session(group))
                )
            )
            sent.append(group)
            os.killpg(group, signal.SIGINT)

    code, written = run_on_a_terminal(workspace, EVALUATED, watch=interrupt)
    assert code == 1 and "Not finished:" in written
    code, written = run_on_a_terminal(workspace, EVALUATED)
    assert code == 0 and workspace.path(EVALUATED).exists(), written
