"""How a rule's script runs: what it says goes to its log, and a user's mistake shows one line."""

import contextlib
import io
import logging
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

# The project's package, even where another copy of it is installed.
sys.path.insert(0, os.fspath(Path(__file__).parents[1]))

from neuralfield.system.device_claim import claim_card
from neuralfield.system.errors import (
    EXIT_CODE_CTRL_C,
    EXIT_CODE_FAILED,
    EXIT_CODE_TRY_AGAIN,
    NeuralfieldError,
)
from neuralfield.system.files import storage_errors
from neuralfield.system.interruption import Interrupted

snakemake: Any
"""The job that a script works on: Snakemake puts it there; named here for type checkers."""


def run_job(main: Callable[..., None], snakemake: Any, **arguments: Any) -> None:
    """Call a script's ``main`` as the job of a rule.

    A job that asks for a graphics card gets one for itself. What it prints, logs or warns of goes
    to the job's log file. A `NeuralfieldError` becomes one line there and on the terminal; the
    traceback of anything else goes to the log. Leaves the process with one of
    `neuralfield.system.errors` if the job is not done.

    Parameters
    ----------
    main : callable
    snakemake : object
        The job: its rule, wildcards and log.
    **arguments
        What `main` is called with.
    """
    name = _name_of(snakemake)
    with _logging_to(Path(snakemake.log[0])) as log:
        try:
            with storage_errors():
                if snakemake.resources.get("gpu", 0):
                    share = snakemake.config["gpu_share"]
                    card = claim_card(share, lambda line: _tell(f"{name}: {line}"))
                    log.info("card: %s", card or "not claimed, because NVML does not answer")
                main(**arguments)
        except NeuralfieldError as error:
            log.error("%s", error)
            _tell(f"{name}: {error}")
            sys.exit(EXIT_CODE_FAILED)
        except Interrupted as pause:
            log.info("%s", pause)
            _tell(f"{name}: {pause}")
            sys.exit(EXIT_CODE_TRY_AGAIN)
        except KeyboardInterrupt:
            log.info("interrupted")
            sys.exit(EXIT_CODE_CTRL_C)
        except MemoryError as error:
            log.error("%s", traceback.format_exc())
            reason = str(error) or "no more to be had"
            _tell(
                f"{name}: out of memory ({reason}); expected enough for this size;"
                " run fewer jobs at once (--cores 1), or make pictures, networks or batches smaller"
            )
            sys.exit(EXIT_CODE_FAILED)
        except Exception as error:
            log.error("%s", traceback.format_exc())
            _tell(
                f"{name}: {type(error).__name__}: {error}; expected no such error, which is a"
                f" mistake of the program; all of it is in {snakemake.log[0]}"
            )
            sys.exit(EXIT_CODE_FAILED)


def reporter(snakemake: Any) -> Callable[[str], None]:
    """A function that reports a line to the user, and to the log of a job.

    Parameters
    ----------
    snakemake : object
        The job.
    """
    name = _name_of(snakemake)

    def report(line: str) -> None:
        logging.getLogger(__name__).info("%s", line)
        _tell(f"{name}: {line}")

    return report


def _name_of(snakemake: Any) -> str:
    return " ".join([snakemake.rule, *snakemake.wildcards])


@contextlib.contextmanager
def _logging_to(path: Path) -> Iterator[logging.Logger]:
    """Send prints, log records and warnings to a file, line by line."""
    log = logging.getLogger()
    with contextlib.closing(_LogFile(path)) as file:
        handler = logging.StreamHandler(file)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
        log.addHandler(handler)
        log.setLevel(logging.INFO)
        logging.captureWarnings(True)
        try:
            with contextlib.redirect_stdout(file):
                yield log
        finally:
            log.removeHandler(handler)


class _LogFile(io.TextIOBase):
    """A log that a full disk or a missing permission silences: the job itself may still end well.

    Parameters
    ----------
    path : Path
    """

    def __init__(self, path: Path) -> None:
        self._handle = -1
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o666)

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            os.write(self._handle, text.encode("utf-8", "backslashreplace"))
        return len(text)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self._handle)
        self._handle = -1


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
