"""Running a rule's script: its output goes to a log, and a user's mistake is shown as one line."""

import contextlib
import inspect
import logging
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import __main__

# import the project's own package, even if another copy of it is installed
sys.path.insert(0, os.fspath(Path(__file__).parents[1]))

from neuralfield.system.device_claim import claim_gpu, join_gpu
from neuralfield.system.errors import (
    EXIT_CODE_CTRL_C,
    EXIT_CODE_FAILED,
    EXIT_CODE_TRY_AGAIN,
    NeuralfieldError,
)
from neuralfield.system.files import storage_errors
from neuralfield.system.interruption import Interrupted
from neuralfield.system.ledger import digests_of

log = logging.getLogger(__name__)


def run_job(
    main: Callable[..., None], others: Callable[[Any], Mapping[str, Any]] | None = None
) -> None:
    """Call a script's ``main`` for the job that Snakemake has put into the script.

    Each parameter of `main` gets what `arguments_of` has under the same name; `others` returns
    arguments that need more. A job that requests a GPU uses it exclusively, and a job that requests
    only GPU memory shares a GPU. Log records and warnings go to the job's log file, and checksums
    of its outputs to a file beside it.

    A `NeuralfieldError` is reported as one line in the log and on the terminal; the traceback of
    any other exception goes to the log. If the job fails, the process exits with one of the exit
    codes in `neuralfield.system.errors`.
    """
    job = __main__.snakemake  # type: ignore[attr-defined]
    report = reporter(job)
    _log_to(Path(job.log[0]))
    try:
        with storage_errors():
            arguments = arguments_of(job, main) | (dict(others(job)) if others else {})
            memory_mb = job.resources.get("gpu_memory_mb", 0)
            if job.resources.get("gpu", 0):
                gpu = claim_gpu(job.config["gpu_share"], report)
                log.info("GPU: %s", gpu or "not claimed, because NVML does not answer")
            elif memory_mb:
                gpu = join_gpu(memory_mb, report)
                log.info("GPU, shared: %s", gpu or "the first, because NVML does not answer")
            main(**arguments)
            _write_checksums(job)
    except NeuralfieldError as error:
        report(str(error))
        sys.exit(EXIT_CODE_FAILED)
    except Interrupted as pause:
        report(str(pause))
        sys.exit(EXIT_CODE_TRY_AGAIN)
    except KeyboardInterrupt:
        log.info("interrupted")
        sys.exit(EXIT_CODE_CTRL_C)
    except Exception as error:
        log.error("%s", traceback.format_exc())
        if isinstance(error, MemoryError):
            report(
                f"out of memory ({str(error) or 'the allocation failed'}); expected enough for"
                " this size; run fewer jobs at once (--cores 1), or make images, networks or"
                " batches smaller"
            )
        elif isinstance(error, ModuleNotFoundError):
            report(
                f"{sys.executable}: no {error.name}; expected the packages of the workflow; add"
                " --sdm conda to the command, or install them (docs/install.md)"
            )
        else:
            report(
                f"{type(error).__name__}: {error}; expected no such error, which is a mistake"
                f" of the program; all of it is in {job.log[0]}"
            )
        sys.exit(EXIT_CODE_FAILED)


def arguments_of(job: Any, main: Callable[..., None]) -> dict[str, Any]:
    """Return the arguments for parameters of `main` whose names the job has.

    They are, in increasing precedence, a function that reports lines to the user, the threads and
    the log, wildcards, the items of the param `settings`, params, and files as paths.
    """
    known = {
        "report": reporter(job),
        "threads": job.threads,
        "log_path": Path(job.log[0]),
        **job.wildcards,
        **dict(job.params.get("settings", {})),
        **job.params,
        **paths_of(job.input),
        **paths_of(job.output),
    }
    return {name: known[name] for name in inspect.signature(main).parameters if name in known}


def paths_of(files: Any) -> dict[str, Path | list[Path]]:
    """Return the named inputs or outputs of a job as paths; one without files is an empty list."""
    return {
        name: Path(file) if isinstance(file, str) else [Path(one) for one in file]
        for name, file in files.items()
    }


def _write_checksums(job: Any) -> None:
    """Write the SHA-256 of each output beside the log, in the format of sha256sum.

    ``make check`` compares results with them. A job does not fail if they cannot be written.
    """
    with contextlib.suppress(OSError):
        lines = [
            f"{digest}  {Path(output, name)}\n"
            for output in job.output
            for name, digest in digests_of(Path(output)).items()
        ]
        Path(job.log[0]).with_suffix(".sha256").write_text("".join(lines), encoding="utf-8")


def reporter(job: Any) -> Callable[[str], None]:
    """Return a function that reports a line to the user, and to the log of a job."""
    name = " ".join([job.rule, *job.wildcards])

    def report(line: str) -> None:
        log.info("%s", line)
        show_line(f"{name}: {line}")

    return report


def _log_to(path: Path) -> None:
    """Send log records and warnings to a file; if that fails, the job continues without a log."""
    logging.raiseExceptions = False
    handler: logging.Handler = logging.NullHandler()
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s", "%H:%M:%S"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(logging.INFO)
    logging.captureWarnings(True)


def show_line(line: str) -> None:
    """Print a line on the terminal, over the progress bars that Snakemake's process draws there."""
    is_drawn_on = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    erased = "\r\x1b[J" if is_drawn_on else ""
    # one write, so that lines of two jobs do not run together
    sys.stderr.write(f"{erased}{line}\n")
    sys.stderr.flush()
