"""A logger plugin of Snakemake that shows a run in few lines: results, bars and the time left.

It shows what Snakemake's events and the files of jobs say, and knows no rules. Warnings, errors and
messages of the workflow are passed on as Snakemake formats them, and so is everything if an option
such as ``--verbose`` asks for it. `LogHandler` is the name that Snakemake expects.
"""

import contextlib
import logging
import os
import re
import sys
import threading
import time
from typing import TYPE_CHECKING, TextIO

from snakemake_interface_logger_plugins.base import LogHandlerBase
from snakemake_interface_logger_plugins.common import LogEvent

if TYPE_CHECKING:  # Snakemake imports all plugins at every start
    from snakemake_logger_plugin_neuralfield.bars import Bars
    from snakemake_logger_plugin_neuralfield.run import Run

_SECONDS_BETWEEN_LOOKS = 0.5
_HEARTBEAT_S = 30.0
"""Seconds without output before a heartbeat."""

_SHOWN_EVENTS = (None, LogEvent.ERROR, LogEvent.JOB_ERROR, LogEvent.GROUP_ERROR)

_NOT_SHOWN = re.compile(
    r"None$|Assuming unrestricted|host: |Building DAG|Using shell|Select jobs|Elapsed time"
    r"|(Conda environments|Singularity containers): ignored"
    r"|Reasons:|This was a dry-run|Some jobs were triggered|Rules with provenance"
)
"""Beginnings of Snakemake's messages that are in its log file only."""

_LOG_FILE = "Complete log(s)"
"""The beginning of a message that is shown after errors only."""


class LogHandler(LogHandlerBase):
    """Shows a run on the terminal, or without bars in a pipe or a file."""

    def __post_init__(self) -> None:
        asked = self.common_settings
        self.stream: TextIO = sys.stdout if asked.stdout else sys.stderr
        self.is_detailed = asked.verbose or asked.printshellcmds or asked.debug_dag
        self.is_terminal = self.stream.isatty() and os.environ.get("TERM") != "dumb"
        has_bold = self.is_terminal and not (asked.nocolor or os.environ.get("NO_COLOR"))
        self._bold = "\x1b[1m{}\x1b[0m" if has_bold else "{}"
        self.run: Run | None = None
        self.bars: Bars | None = None
        self._limits: dict[str, float] = {}
        self._last_line_s = time.monotonic()
        self._ended = threading.Event()

    @property
    def writes_to_stream(self) -> bool:
        return True

    @property
    def writes_to_file(self) -> bool:
        return False

    @property
    def has_filter(self) -> bool:
        return False  # Snakemake adds its own filter, which follows its options

    @property
    def has_formatter(self) -> bool:
        return False

    @property
    def needs_rulegraph(self) -> bool:
        return False

    def emit(self, record: logging.LogRecord) -> None:
        """Show what a record says, if it is for people."""
        try:
            if text := self._text(record):
                self.tell(self._bold.format(text) if record.levelno >= logging.ERROR else text)
        except Exception:
            self.handleError(record)

    def tell(self, text: str) -> None:
        """Write lines above the bars, in one write, so that lines of jobs do not get into them."""
        aside = self.bars.aside() if self.bars else contextlib.nullcontext()
        with contextlib.suppress(OSError), aside:  # the run continues if the terminal is closed
            self.stream.write(f"{text}\n")
            self.stream.flush()
        self._last_line_s = time.monotonic()

    def close(self) -> None:
        """Remove the bars, and write what the run has made, or what has failed."""
        with self.lock or contextlib.nullcontext():
            if self.run and not self._ended.is_set():
                self._ended.set()
                if self.bars:
                    self.bars.clear()
                    self.bars = None
                self.tell(self.run.dry_run() if self.common_settings.dryrun else self.run.end())
        super().close()

    def _text(self, record: logging.LogRecord) -> str:
        """Return the text to show for a record; it may be empty."""
        event, values = getattr(record, "event", None), vars(record)
        if self.is_detailed:
            text = self.format(record)
            blank_line = "\n" if event == LogEvent.JOB_INFO else ""
            return "" if text == "None" else f"{blank_line}{text}"
        if event == LogEvent.RESOURCES_INFO:
            given = {"_cores": values.get("cores"), "_nodes": values.get("nodes")}
            given |= values.get("provided_resources", {})
            for name, limit in given.items():
                limit = getattr(limit, "value", limit)
                self._limits |= {name: limit} if isinstance(limit, int | float) and limit else {}
        elif event == LogEvent.RUN_INFO and self.run is None:
            return self._begin(values["stats"])
        elif event and self.run and (line := self.run.take(event, values)):
            return line
        text = self.format(record) if event in _SHOWN_EVENTS else ""
        is_note = record.levelno <= logging.INFO
        if is_note and text.startswith(_LOG_FILE) and not (self.run and self.run.failed):
            return ""
        return "" if is_note and _NOT_SHOWN.match(text) else text

    def _begin(self, stats: dict[str, int]) -> str:
        from snakemake_logger_plugin_neuralfield.run import Run

        self.run = Run(stats, self._limits)
        if self.common_settings.dryrun:
            return ""
        if self.is_terminal:
            from snakemake_logger_plugin_neuralfield.bars import Bars

            self.bars = Bars(self.stream)
        threading.Thread(target=self._watch, name="terminal", daemon=True).start()
        return self.run.beginning()

    def _watch(self) -> None:
        """Draw bars, or write heartbeats, until the run has ended."""
        while not self._ended.wait(_SECONDS_BETWEEN_LOOKS):
            with self.lock or contextlib.nullcontext(), contextlib.suppress(OSError, ValueError):
                if self.run and not self._ended.is_set():
                    self._show_progress(self.run)

    def _show_progress(self, run: "Run") -> None:
        if self.bars:
            self.bars.draw(run.trainings(), run.state())
        elif run.running and time.monotonic() - self._last_line_s >= _HEARTBEAT_S:
            trainings = [f"{name}: {progress.in_short}; " for name, progress in run.trainings()]
            self.tell(f"{time.strftime('%H:%M:%S')}  {''.join(trainings[:1])}{run.state()}")
