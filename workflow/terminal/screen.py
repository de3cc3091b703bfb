"""The terminal output of a run: Snakemake's events are shown as short lines, bars and heartbeats.

Snakemake's log file in ``.snakemake/log`` still has all of its own messages.
"""

import io
import logging
import os
import re
import threading
import time
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import snakemake
from snakemake.common import NOTHING_TO_BE_DONE_MSG

from jobs import failures
from terminal.words import about, duration

if TYPE_CHECKING:
    from jobs.plan import Plan
    from terminal.bars import Bars
    from terminal.run import Run

_SECONDS_BETWEEN_LOOKS = 0.5
_HEARTBEAT_S = 30.0
"""Seconds without output before a heartbeat."""

_INTERRUPTED = "Terminating processes on user request"
_OF_SNAKEMAKE_FOR_PEOPLE = re.compile(
    rf"Trying to restart job|{_INTERRUPTED}|Will exit after finishing"
    r"|Removing output files of failed job|Job failed, going on"
)
"""Messages of Snakemake that are shown to users, besides its warnings and errors."""


def take_over(logger: logging.Logger, workflow: Any) -> "Screen | None":
    """Replace Snakemake's messages on the terminal by messages for users.

    Its messages are not replaced if an option asks for more or fewer of them, or if only files are
    touched. Messages about failed jobs are shortened unless ``--verbose`` is given. Handlers of
    logger plugins, and the log file, are unchanged.
    """
    output = workflow.output_settings
    failures.shorten(logger, output.verbose)
    asked_for = (output.verbose, output.quiet, output.printshellcmds, output.debug_dag)
    if any(asked_for) or workflow.touch:
        return None
    for handler in logger.handlers:
        if handler.name == "DefaultStreamHandler" and isinstance(handler, logging.StreamHandler):
            screen = Screen(handler, workflow)
            logger.removeHandler(handler)
            logger.addHandler(screen)
            return screen
    return None


class Screen(logging.Handler):
    """A logging handler that shows Snakemake's events in messages for users.

    Errors, warnings and all records before the run starts are passed to Snakemake's own handler,
    `usual`. `plan` is set as soon as the settings have been read.
    """

    def __init__(self, usual: logging.StreamHandler, workflow: Any) -> None:
        super().__init__()
        self.name = usual.name
        self.usual, self.workflow = usual, workflow
        self.plan: Plan | None = None
        self.run: Run | None = None
        self.bars: Bars | None = None
        self._is_executing = False
        self._has_failed = False
        self._is_interrupted = False
        self._last_line_s = time.monotonic()
        self._ended = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message for users that a record stands for, if there is one."""
        if not self.usual.filter(record):
            return
        event = getattr(getattr(record, "event", None), "name", None)
        try:
            if event == "WORKFLOW_STARTED":
                self._is_executing = True
            elif not self._is_executing or record.levelno >= logging.WARNING:
                self._pass_on(record, event)
            elif event is not None:
                self._take_event(event, vars(record))
            elif record.msg == NOTHING_TO_BE_DONE_MSG:
                self.tell("Nothing to be done: all requested files exist and are up to date.")
            elif not _is_snakemakes(record.pathname) or self._is_for_people(str(record.msg)):
                self.tell(record.getMessage())
        except BrokenPipeError:
            raise
        except Exception:
            self.handleError(record)

    def tell(self, line: str) -> None:
        with self._aside():
            self._write(f"{line}\n")

    def close(self) -> None:
        """End the output, and close Snakemake's own handler."""
        self.end()
        self.usual.close()
        super().close()

    def end(self) -> None:
        """Remove the bars permanently, and save the measured durations for the next run."""
        if self._ended.is_set():
            return
        self._ended.set()
        with self.lock or nullcontext():
            if self.bars:
                self.bars.clear()
                self.bars = None
            if self.run and not self.workflow.dryrun:
                self.run.durations.save()

    def _pass_on(self, record: logging.LogRecord, event: str | None) -> None:
        if event == "JOB_ERROR" and self.run:
            self.run.fail(vars(record).get("jobid", -1))
            if self._is_interrupted:
                return  # Ctrl-C ended the job; a job that failed for another reason has reported it
        self._has_failed |= record.levelno >= logging.ERROR
        text = self._usual_text(record)
        with self._aside():
            self._write(text)

    def _usual_text(self, record: logging.LogRecord) -> str:
        """Return all text that Snakemake's own handler writes for a record in several writes."""
        stream = self.usual.stream
        self.usual.stream = written = io.StringIO()
        try:
            self.usual.emit(record)
        finally:
            self.usual.stream = stream
        return written.getvalue()

    def _write(self, text: str) -> None:
        """Write lines in a single write, so that lines of jobs are not inserted into them."""
        self.usual.stream.write(text)
        self.usual.flush()
        self._last_line_s = time.monotonic()

    def _take_event(self, event: str, values: dict[str, Any]) -> None:
        if event == "RUN_INFO" and self.run is None and self.plan is not None:
            self._begin(self.plan)
        elif self.run is None or self.workflow.dryrun:
            return
        elif event == "JOB_INFO":
            self.run.start(values["jobid"])
        elif event == "JOB_FINISHED":
            line = self.run.finish(values["job_id"])
            if line:
                self.tell(line)

    def _begin(self, plan: "Plan") -> None:
        # imported here, because processes that Snakemake starts for its jobs do not need them
        from terminal.dry_run import summary
        from terminal.planned import planned_jobs
        from terminal.run import Run, limits_of
        from terminal.time_left import Durations, saved_path

        limits = limits_of(self.workflow)
        is_here = "slots" not in limits
        durations = Durations(saved_path() if is_here else None)
        self.run = Run(planned_jobs(self.workflow, plan), durations, **limits)
        if self.workflow.dryrun:
            self.tell(summary(self.run))
            return
        self.tell(self.run.in_short())
        if self.usual.stream.isatty() and os.environ.get("TERM") != "dumb":
            from terminal.bars import Bars

            self.bars = Bars(self.usual.stream)
        threading.Thread(target=self._watch, name="terminal", daemon=True).start()

    def _is_for_people(self, message: str) -> bool:
        self._is_interrupted |= message.startswith(_INTERRUPTED)
        if message.startswith("Complete log(s)"):
            return self._has_failed
        return bool(_OF_SNAKEMAKE_FOR_PEOPLE.match(message))

    def _aside(self) -> Any:
        return self.bars.aside() if self.bars else nullcontext()

    def _watch(self) -> None:
        """Draw bars, or write heartbeats, until the run has ended."""
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            with self.lock or nullcontext():
                if self._ended.is_set():
                    return
                try:
                    self._show_progress()
                except (OSError, ValueError):  # the terminal was closed; the run continues
                    return

    def _show_progress(self) -> None:
        assert self.run is not None
        if self.bars:
            self.run.look()
            named = [(job.name, progress) for job, progress in self.run.trainings]
            self.bars.draw(named, self._whole_run())
            return
        if self.run.running and time.monotonic() - self._last_line_s >= _HEARTBEAT_S:
            self.run.look()
            trainings = [f"{job.name}: {p.in_short}" for job, p in self.run.trainings[:1]]
            line = "; ".join([*trainings, self._whole_run()])
            self.tell(f"{time.strftime('%H:%M:%S')}  {line}")

    def _whole_run(self) -> str:
        assert self.run is not None
        ended, total = self.run.ended_count, len(self.run.jobs)
        passed = duration(time.monotonic() - self.run.started_s)
        return f"{ended} of {total} jobs done in {passed}; {about(self.run.seconds_left())} left"


_INSTALLED = Path(snakemake.__file__).parents[1]


def _is_snakemakes(path: str) -> bool:
    """Return whether a file belongs to Snakemake or to a plugin, and not to this workflow."""
    return Path(path).is_relative_to(_INSTALLED)
