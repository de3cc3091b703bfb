"""Progress of a real run on a terminal and in a pipe; unit tests cover the details."""

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

import pytest
from processes import wait_until
from victims import command_of, processes_of_session
from workspace import Workspace, clean_environment

EVALUATED = "results/tiny/siren/metrics.json"


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
        env=clean_environment() | {"TERM": "xterm"},
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
    workspace.settings["training"] |= {"steps": 5000}  # enough for a progress bar
    return workspace


@pytest.fixture(scope="module")
def terminal(small: Workspace) -> str:
    """Return the output of a run on a terminal."""
    code, written = run_on_a_terminal(small, EVALUATED)
    assert code == 0, written
    return written


def test_a_terminal_has_bars_and_a_line_for_each_finished_thing(terminal: str):
    assert re.search(r"\r *tiny / siren +\d+%\|.*\| [\d,]+ of 5,000, [\d.]+ dB", terminal)
    assert re.search(r"2 of 4 jobs done in .*; .* left", terminal)
    assert len(re.findall(r"^4 jobs on 2 cores; a", terminal, re.MULTILINE)) == 1
    shown = re.findall(r"(tiny / siren: [^\r\n]*)\n", terminal)
    assert re.fullmatch(r"tiny / siren: trained in \d.*, [\d.]+ dB", shown[0])
    assert re.fullmatch(
        r"tiny / siren: fit [\d.]+ dB, redraw .* dB \(best filter: \S+, .*\)", shown[1]
    )
    assert re.search(r"tiny +siren +\d+\.\d\d +", terminal.split("image  network")[1])
    assert "[?25" not in terminal, "the cursor is never hidden"


def test_a_pipe_has_a_few_plain_lines(small: Workspace, terminal: str):
    messages = small.succeed("results/tiny/siren/render_8.png")
    assert "tiny / siren: made render_8.png" in messages
    assert "\x1b" not in messages and "Reason" not in messages and len(messages.splitlines()) < 9
    assert not list(small.folder.glob("logs/**/*.progress.json"))
    assert not list(small.folder.glob("logs/**/*.preview.png"))
    (log,) = sorted(small.path(".snakemake/log").iterdir())[-1:]
    assert "Reason: Missing output files" in log.read_text(), "Snakemake's own log has everything"


def test_a_dry_run_is_short_and_says_how_long_it_takes(small: Workspace, terminal: str):
    messages = small.succeed("--dry-run", "--forceall", EVALUATED)
    assert re.search(r"^Would run 4 jobs on 2 cores; a", messages, re.MULTILINE)
    assert "  tiny / siren: train, evaluate (it is forced to run again)" in messages


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
    last = written[written.rindex("Not finished.") - 1]
    assert last in "\n\r" and "[?25" not in written


def test_ctrl_c_during_the_imports_of_a_job_is_quiet(workspace: Workspace):
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
    assert code == 1 and "Not finished." in written
    assert not re.search("Traceback|KeyboardInterrupt|Error in rule", written), written
