"""Short messages about failed jobs on the terminal: one line with the job and its log.

A failing job reports one line itself. Snakemake adds about twenty lines: the traceback of its own
call, and all files of the rule. These lines are only written to its log file in .snakemake/log;
``--verbose`` shows them on the terminal, too.
"""

import contextlib
import logging
import re
import shlex
import signal
from typing import Any

from neuralfield.system.errors import (
    EXIT_CODE_CTRL_C,
    EXIT_CODE_FAILED,
    EXIT_CODE_TRY_AGAIN,
    StorageError,
)
from neuralfield.system.files import storage_errors

_REPORTED_BY_THE_JOB = (EXIT_CODE_FAILED, EXIT_CODE_TRY_AGAIN, EXIT_CODE_CTRL_C)

_END = re.compile(r"returned non-zero exit status (\d+)|died with <Signals\.\w+: (\d+)>")

_ERROR_NUMBER = re.compile(r"\[Errno (?P<number>\d+)\][^\n':]*(?:: '(?P<file>[^'\n]+)')?")
_SNAKEMAKES_FOLDER = re.compile(r"write permissions for the directory (.+)")

_LOCKED = re.compile(r"LockException:\n.*Directory cannot be locked.*\n(.*)")
_PROTECTED = re.compile(r"ProtectedOutputException[^\0]*\n *affected files:\n((?: +.*\n?)+)")

_REPORTED_BY_ONERROR = (
    "Exiting because a job execution failed. Look above for error messages",
    "At least one job did not complete successfully.",
)


def shorten(logger: logging.Logger, verbose: bool) -> None:
    """Shorten Snakemake's messages about failed jobs on the terminal, unless `verbose` is set.

    Snakemake's log file still has the full messages, and handlers of logger plugins are unchanged.
    """
    for handler in logger.handlers if not verbose else ():
        if handler.name == "DefaultStreamHandler" and handler.formatter:
            handler.setFormatter(ShortFailures(handler.formatter))


class ShortFailures(logging.Formatter):
    """A formatter that shortens messages about failed jobs, and passes others to `usual`."""

    def __init__(self, usual: logging.Formatter) -> None:
        super().__init__()
        self.usual = usual
        self._failed_write = ""
        self._interrupted = 0  # jobs that ended by Ctrl-C, before Snakemake itself noticed it

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record; an empty one is not shown."""
        event = getattr(getattr(record, "event", None), "name", "")
        text = str(record.msg)
        if event == "JOB_ERROR" and self._interrupted:
            self._interrupted -= 1
            return ""
        if event == "JOB_ERROR":
            return self._failed_job(vars(record))
        if "CalledProcessError" in text and (end := _END.search(text)):
            status = int(end[1] or 128 + int(end[2]))
            self._interrupted += status == EXIT_CODE_CTRL_C
            return _end_in_words(status)
        if refused := _refused_start(text):
            return refused
        if failed_write := _failed_write(text):
            is_reported, self._failed_write = failed_write == self._failed_write, failed_write
            return "" if is_reported else failed_write
        if text.splitlines()[-1:] and text.splitlines()[-1].strip() in _REPORTED_BY_ONERROR:
            return ""
        return self.usual.format(record)

    def _failed_job(self, job: dict[str, Any]) -> str:
        logs = list(job.get("log") or ())
        line = f"Error in rule {job.get('rule_name')}, job {job.get('jobid')}"
        if job.get("rule_msg"):
            line += f": {job['rule_msg']}"
        if logs:
            line += f"; its log is {', '.join(logs)}"
        for name, value in (job.get("aux") or {}).items():
            line += f"; {name}: {value}"
        if getattr(self.usual, "show_failed_logs", False):
            from snakemake.logging import show_logs

            return "\n".join([line, *show_logs(logs)])
        return line


def _refused_start(text: str) -> str:
    """Describe why Snakemake starts no job, and a remedy; empty for unknown reasons."""
    if lock := _LOCKED.match(text):
        return (
            f"{lock[1]}: another Snakemake process is creating files here; expected one at a time;"
            " wait until it has ended, then run the same command again; if it ran on a machine"
            " that is off, first remove its lock (snakemake --unlock)"
        )
    if protected := _PROTECTED.match(text):
        first, *others = (line.strip() for line in protected[1].strip().splitlines())
        and_others = f" and {len(others)} more" if others else ""
        files = " ".join(map(shlex.quote, [first, *others]))
        return (
            f"{first}{and_others}: write-protected, but has to be created again; expected files"
            f" that can be written; allow it (chmod u+w {files}) or move them away, then run the"
            " same command again"
        )
    return ""


def _failed_write(text: str) -> str:
    """Describe a storage error in Snakemake's own process; empty for other errors."""
    found = _ERROR_NUMBER.search(text)
    if not found:
        return ""
    folder = _SNAKEMAKES_FOLDER.search(text)
    where = (
        found["file"]
        or (folder and folder[1])
        or "a file in .snakemake or the folder for temporary files"
    )
    try:
        with storage_errors(where, "cannot be written"):
            raise OSError(int(found["number"]), "")
    except StorageError as error:
        return str(error)
    except OSError:
        return ""


def _end_in_words(status: int) -> str:
    """Describe how a job's process ended; empty if the job itself has reported the reason."""
    if status in _REPORTED_BY_THE_JOB:
        return ""
    how = f"ended with exit code {status}"
    if status > 128:
        with contextlib.suppress(ValueError):
            how = f"was killed by {signal.Signals(status - 128).name}"
    return (
        f"The process of the following job {how}; expected it to finish; if memory ran out,"
        " run fewer jobs at once (--cores 1), and run the same command again"
    )
