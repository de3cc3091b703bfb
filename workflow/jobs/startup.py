"""Checks before any rule is read: missing packages, and stale locks."""

import contextlib
import fcntl
import importlib.util
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

from snakemake.script import PythonScript
from snakemake_interface_common.exceptions import WorkflowError

from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import try_lock


class UserError(WorkflowError):
    """A mistake of the user, which is shown without a traceback."""

    # stays None even if a context manager assigns a traceback
    __traceback__: Any = property(lambda self: None, lambda self, value: None)


@contextlib.contextmanager
def user_errors() -> Iterator[None]:
    """Convert the package's errors to `UserError`."""
    try:
        yield
    except NeuralfieldError as error:
        raise UserError(str(error)) from error


PACKAGES = {
    "numpy": "numpy",
    "pandas": "pandas",
    "PIL": "pillow",
    "safetensors": "safetensors",
    "av": "av",
    "pyvips": "pyvips[binary]",
    "tqdm": "tqdm",
    "matplotlib": "matplotlib",
    "threadpoolctl": "threadpoolctl",
    "pygments": "pygments",
    "jinja2": "jinja2",
}
"""The modules that the scripts import, and the names of the packages that provide them."""

NEEDED_BESIDE_CONDA = ("numpy", "PIL", "safetensors", "threadpoolctl")
"""Modules that Snakemake's own process imports, the only ones needed in its environment if jobs run
in conda environments."""


_USUAL_JOBS_PER_TIMESPAN = (100, 1)
"""Snakemake's default limit of started jobs, and the seconds that it applies to."""


def require_packages(*, has_conda: bool = False) -> None:
    """Raise `UserError` if required packages are not installed in this Python."""
    needed = NEEDED_BESIDE_CONDA if has_conda else PACKAGES
    missing = [PACKAGES[module] for module in needed if not importlib.util.find_spec(module)]
    if missing:
        raise UserError(
            f"{sys.executable}: no {', '.join(missing)}; expected all packages of"
            " pyproject.toml; run `make run`, or install them into this environment with"
            " `pip install -c constraints.txt -e '.[workflow]'` in the project's folder"
        )


def leave_out_pandas() -> None:
    """Prevent the import of pandas in this process, which takes a fifth of Snakemake's start time.

    If pandas is installed, Snakemake imports it to compare params that are data frames, but no rule
    has such params. Scripts are not affected, because they run in processes of their own.
    """
    sys.modules.setdefault("pandas", cast(Any, None))


def end_without_waiting(workflow: Any) -> None:
    """Remove Snakemake's default limit of job starts per second if jobs run on this machine.

    Because of the limit, Snakemake checks the jobs again one second after each start, and waits for
    the last of these checks before it ends. A limit that the user has set is kept.
    """
    limit = workflow.scheduling_settings.max_jobs_per_timespan
    is_usual = limit is not None and (limit.max_jobs, limit.timespan) == _USUAL_JOBS_PER_TIMESPAN
    if is_usual and not workflow.executor_plugin.common_settings.non_local_exec:
        workflow.scheduler.job_rate_limiter = None


def let_ctrl_c_end_imports() -> None:
    """Let Ctrl-C end a script without a traceback until `entry.job.run_job` handles the signal.

    Snakemake inserts a preamble with its own imports before the first lines of a script; the code
    that is added here comes before the preamble. While the Python interpreter itself starts, the
    signal is pending, because it is blocked in the thread that starts the process.
    """
    usual = PythonScript.generate_preamble

    def generate_preamble(*arguments: Any, **named: Any) -> str:
        if threading.current_thread() is not threading.main_thread():
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        return f"{_UNTIL_THE_JOB_BEGINS}\n{usual(*arguments, **named)}"

    PythonScript.generate_preamble = staticmethod(generate_preamble)


_UNTIL_THE_JOB_BEGINS = (
    "import signal as _s; _s.getsignal(_s.SIGINT) is _s.default_int_handler"
    " and _s.signal(_s.SIGINT, _s.SIG_DFL); _s.pthread_sigmask(_s.SIG_UNBLOCK, {_s.SIGINT})"
)


def clear_stale_locks(folder: Path = Path(".snakemake")) -> tuple[IO[str] | None, bool]:
    """Remove the locks that a killed Snakemake left, if it is certain that no other one is running.

    Each Snakemake of this workflow holds a shared file lock, which the operating system releases
    when the process ends, however it ends. A process that can lock the file exclusively is
    therefore the only one. The lock does not cover other machines that use the same folder: the
    file therefore has the name of the machine that last locked it exclusively, and locks that
    another machine may hold are kept.

    The function returns the lock's file, which has to stay open as long as this Snakemake runs
    (processes that it starts do not inherit it), or None if the file system does not support such
    locks; and whether there were stale locks.
    """
    folder.mkdir(exist_ok=True)
    owner = (folder / "neuralfield.owner").open("a+", encoding="utf-8")
    try:
        is_alone = try_lock(owner)
    except OSError:
        owner.close()
        return None, False
    cleared = is_alone and _clear(owner, folder / "locks")
    fcntl.flock(owner, fcntl.LOCK_SH)
    return owner, cleared


def others_are_at_work(folder: Path = Path(".snakemake")) -> bool:
    """Return whether another Snakemake has locks; call it before this process has its own."""
    return any((folder / "locks").glob("*.lock"))


def _clear(owner: IO[str], folder: Path) -> bool:
    stale = sorted(folder.glob("*.lock"))
    here = socket.gethostname()
    owner.seek(0)
    if stale and owner.read().strip() != here:
        return False
    for lock in stale:
        with contextlib.suppress(FileNotFoundError):
            lock.unlink()
    owner.truncate(0)
    owner.write(here)
    owner.flush()
    return bool(stale)
