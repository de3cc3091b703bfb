"""Compiles, at the beginning of a training, the kernels that its end needs: on a GPU in parallel
with the kernels of its steps, on a CPU in another process.
"""

import contextlib
import os
import pickle
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from neuralfield.system import kernel_cache
from neuralfield.system.device import Device, available_cores, select_device, to_host

_MOST_VALUES = 1 << 21
"""Maximum number of values of an image whose correction a GPU computes only to compile its kernels,
which depend on the size; for larger images, the GPU takes longer than the compiler."""

_SMALL_PX = 16
"""Side of the part of an image for which a CPU compiles its kernels, which work for any size."""


def compile_ahead(task: Any, device: Device) -> contextlib.AbstractContextManager[Any]:
    """Compile kernels in the background within the context.

    On a GPU, these are the kernels of the correction that `finished_model` computes. On a CPU, a
    process can compile only one kernel at a time, and therefore another process compiles all
    kernels except those of the pass, as soon as this process has to compile something.
    """
    is_corrected = getattr(task, "is_corrected", False)
    if device.kind == "cpu" and is_corrected and available_cores() > 1:
        return _other_process(_small(task))
    if device.kind == "cpu" or not is_corrected or task.values.size > _MOST_VALUES:
        return contextlib.nullcontext()
    compiler = ThreadPoolExecutor(1, initializer=device.xp.cuda.Device().use)
    compiler.submit(_find_fresh_residual, task, device)
    return compiler


def _small(task: Any) -> Any:
    """Return the task for a part of the image, with a residual that is found in the same way."""
    training = replace(task.training, residual_scale=task.residual_scale)
    return replace(task, values=task.values[:_SMALL_PX, :_SMALL_PX], training=training)


def _find_fresh_residual(task: Any, device: Device) -> None:
    """Find the residual of the untrained network, which needs the same kernels."""
    from neuralfield.rendering.residual import find_residual

    arrays = {name: to_host(array) for name, array in task.fresh_network().arrays.items()}
    is_mixed = task.training.precision in ("auto", "mixed")
    metadata = {"precision": "mixed" if is_mixed else task.training.precision}
    fresh = replace(task.model, arrays=arrays, metadata=metadata)
    find_residual(fresh, task.values, task.residual_scale, device=device)


@contextlib.contextmanager
def _other_process(task: Any) -> Iterator[None]:
    """Start `main` in another process when this one first compiles something, and kill that process
    at the end of the context."""
    started: list[subprocess.Popen[bytes]] = []

    def start() -> None:
        folders = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        path = os.pathsep.join(filter(None, folders))
        with contextlib.suppress(OSError):
            process = subprocess.Popen(
                [sys.executable, "-m", __spec__.name],
                stdin=subprocess.PIPE,
                env=os.environ | {"PYTHONPATH": path},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            started.append(process)
            assert process.stdin
            pickle.dump(task, process.stdin)
            process.stdin.close()

    kernel_cache.before_compiling.append(start)
    try:
        yield
    finally:
        kernel_cache.before_compiling.clear()
        for process in started:
            process.kill()
            process.wait()


def main() -> None:
    """Compile all kernels except those of the pass, for a task that another process trains."""
    from neuralfield.engines.cpu.kernels import STORE

    # one such process at a time, because they would all compile the same
    lock = STORE.claim("ahead", patience_s=0)
    if lock is None:
        return
    from neuralfield.engines.cpu.cpu_engine import CpuEngine
    from neuralfield.training.trainer import Trainer

    task, device = pickle.load(sys.stdin.buffer), select_device("cpu")
    engine = Trainer(task, device, "auto", 1, print).engine
    if not isinstance(engine, CpuEngine):
        return
    engine.compile_update()
    _find_fresh_residual(task, device)
    STORE.release(lock)


if __name__ == "__main__":
    main()
