"""Sharing of a machine's NVIDIA GPUs between processes.

Before CUDA starts, a job chooses a GPU and hides the others from CUDA. A long job claims a free GPU
with a file lock, which the operating system releases when the process ends for any reason, so that
no GPU remains claimed after a crash. A short job does not claim a GPU; it locks files for the parts
of the memory that it needs, and runs concurrently with other jobs.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from itertools import product
from pathlib import Path
from typing import IO

from neuralfield.system.errors import ResourceError
from neuralfield.system.files import try_lock

LOCK_FOLDER = Path(tempfile.gettempdir()) / "neuralfield-cards"
"""Folder of the locks, which all users of the machine share, because they share its GPUs."""

_VISIBLE = "CUDA_VISIBLE_DEVICES"
_SECONDS_BETWEEN_TRIES = 0.5
_SECONDS_BETWEEN_TURNS = 0.01
_PART_MB = 1000
"""The memory of a GPU that one lock file stands for."""

_held: list[IO[str]] = []
"""Lock files, which remain open, and therefore locked, until the process ends."""


def claim_gpu(share: int, say: Callable[[str], None]) -> str | None:
    """Claim a GPU for this process, and wait if all GPUs are claimed; later calls do nothing.

    Sets ``CUDA_VISIBLE_DEVICES``, which CUDA reads when it starts. At most `share` processes use
    the same GPU at a time; their locks are in `LOCK_FOLDER`. Returns the name of the GPU, or None
    if NVML is not available. Raises `ResourceError` if ``CUDA_VISIBLE_DEVICES`` allows no GPU, or
    the folder cannot be written.
    """
    if _held:
        return os.environ.get(_VISIBLE)
    gpus = visible_gpus(os.environ)
    if gpus is None:
        return None
    if not gpus:
        raise ResourceError(
            _VISIBLE, repr(os.environ.get(_VISIBLE)), "at least one GPU", "set training.device: cpu"
        )
    _make_shared(LOCK_FOLDER)
    is_reported = False
    while True:
        # the first place of every GPU is tried before second places, so that jobs share a GPU only
        # if every GPU has a job
        for place, gpu in product(range(share), gpus):
            file = _lock(LOCK_FOLDER / f"{gpu}.{place}")
            if file is not None:
                _held.append(file)
                os.environ[_VISIBLE] = gpu
                return gpu
        if not is_reported:
            say(f"all {len(gpus)} GPUs are in use; waiting for one")
            is_reported = True
        time.sleep(_SECONDS_BETWEEN_TRIES)


def join_gpu(need_mb: int, say: Callable[[str], None]) -> str | None:
    """Choose a GPU with enough free memory for a short job, and return its name.

    Sets ``CUDA_VISIBLE_DEVICES``, which CUDA reads when it starts. Jobs are distributed over the
    GPUs that have `need_mb` of free memory; if there is none, the GPU with the most free memory is
    chosen. The job waits until the jobs that share the GPU leave it this part of the GPU's memory.
    Returns None if NVML is not available.
    """
    is_reported = False
    while free := memory_mb("free"):
        roomy = [gpu for gpu, mb in free.items() if mb >= need_mb]
        roomy = roomy or [max(free, key=free.__getitem__)]
        first = os.getpid() % len(roomy)
        for gpu in roomy[first:] + roomy[:first]:
            if _reserve_memory(gpu, need_mb):
                os.environ[_VISIBLE] = gpu
                return gpu
        if not is_reported:
            say("other jobs use the memory of the GPU; waiting for it")
            is_reported = True
        time.sleep(_SECONDS_BETWEEN_TRIES)
    return None


def _reserve_memory(gpu: str, need_mb: int) -> bool:
    """Lock a file for each started `_PART_MB` of a GPU's memory; return whether this succeeded."""
    parts = (memory_mb("total") or {}).get(gpu, 0) // _PART_MB
    _make_shared(LOCK_FOLDER)
    locked: list[IO[str]] = []
    # one process at a time, so that two do not get half of what they need
    while (turn := _lock(LOCK_FOLDER / f"{gpu}.turn")) is None:
        time.sleep(_SECONDS_BETWEEN_TURNS)
    with turn:
        for part in range(parts):
            if len(locked) * _PART_MB < need_mb:
                file = _lock(LOCK_FOLDER / f"{gpu}.memory.{part}")
                locked += [file] if file else []
    if len(locked) < min(-(-need_mb // _PART_MB), parts):
        for file in locked:
            file.close()
        return False
    _held.extend(locked)
    return True


def memory_mb(kind: str) -> dict[str, int] | None:
    """Return the memory of each visible GPU in MB, "free" or "total"; None if NVML fails."""
    names = visible_gpus(os.environ)
    if names is None:
        return None
    import pynvml

    try:
        handles = {name: pynvml.nvmlDeviceGetHandleByUUID(name) for name in names}
        infos = {name: pynvml.nvmlDeviceGetMemoryInfo(handle) for name, handle in handles.items()}
        return {name: int(getattr(info, kind)) // 10**6 for name, info in infos.items()}
    except pynvml.NVMLError:
        return None


def visible_gpus(environment: Mapping[str, str]) -> list[str] | None:
    """Return the names of the GPUs that ``CUDA_VISIBLE_DEVICES`` allows; None if NVML fails.

    If the variable is not set, these are all GPUs. Numbers are converted to UUIDs, which do not
    depend on the GPUs that a process sees.
    """
    all_gpus = _gpus_of_machine()
    if all_gpus is None:
        return None
    given = environment.get(_VISIBLE)
    if given is None:
        return all_gpus
    found: list[str] = []
    for name in (part.strip() for part in given.split(",")):
        if name.isdecimal() and int(name) < len(all_gpus):
            found.append(all_gpus[int(name)])
        elif name.startswith("GPU-"):  # may be a prefix of the name
            found += [gpu for gpu in all_gpus if gpu.startswith(name)][:1]
        elif name.startswith("MIG-"):
            found.append(name)
        else:  # CUDA ignores everything after an invalid name
            break
    return found


def _gpus_of_machine() -> list[str] | None:
    """Return the UUIDs of all GPUs in the order of their numbers; None if NVML fails."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        handles = [
            pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())
        ]
        return [pynvml.nvmlDeviceGetUUID(handle) for handle in handles]
    except pynvml.NVMLError:
        return None


def _make_shared(folder: Path) -> None:
    """Create a folder in which all users may create files but remove only their own."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid == os.getuid():
            folder.chmod(0o1777)
    except OSError as error:
        raise _refused(folder, error) from error


def _lock(path: Path) -> IO[str] | None:
    """Open and lock a file; return None if another process has locked it."""
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        try:
            descriptor = os.open(path, flags & ~os.O_CREAT)
        except FileNotFoundError:
            descriptor = os.open(path, flags, 0o666)
            os.fchmod(descriptor, 0o666)  # despite the umask, so that other users can lock it
        file = os.fdopen(descriptor, "r+")
    except OSError as error:
        raise _refused(path, error) from error
    if try_lock(file):
        return file
    file.close()
    return None


def _refused(path: Path, error: OSError) -> ResourceError:
    remedy = "remove it, or set the variable TMPDIR to another folder that all users share"
    return ResourceError(str(path), error.strerror, "a file to lock a GPU with", remedy)
