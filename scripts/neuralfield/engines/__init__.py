"""Engines, which take training steps of one network or of several at once.

`fit` uses an engine through the protocol `Engine` and does not depend on its class.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

import numpy as np

from neuralfield.engines.cpu.cpu_engine import CpuEngine
from neuralfield.engines.cpu.latent_engine import LatentEngine
from neuralfield.engines.kernel_plan import NotCovered
from neuralfield.engines.tape import TapeEngine, memory_bytes
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.system.device import Array, Device, require_memory
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.bits.bits_objective import BitsObjective
from neuralfield.tasks.image.image_objective import ImageObjective
from neuralfield.tasks.task import Objective

if TYPE_CHECKING:
    from neuralfield.engines.cuda.latents.latent_engine import CudaLatentEngine

ENGINES = ("auto", "cpu", "cuda", "tape")


class Engine(Protocol):
    """Takes training steps."""

    name: str
    variant: str
    """A name for whatever else distinguishes the engine's results, or ""."""
    precision: str
    """float32, float64 or mixed."""
    most_steps: int
    """Maximum `count` of a call of `run`."""
    totals: Array
    """Sums of the steps' losses and errors: float64, shape (2,), on the device."""

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps after `first_step` finished ones; may return before they end."""
        ...

    def memory_report(self) -> dict[str, int]:
        """Count the bytes on the device by purpose."""
        ...

    def close(self) -> None:
        """Release threads and memory."""
        ...


def make_engine(
    request: str,
    precision: str,
    objective: Objective,
    device: Device,
    threads: int,
    note: Callable[[str], None],
) -> Engine:
    """Make an engine for an objective.

    The request ``auto`` selects the fastest engine that covers the objective; ``cpu``, ``cuda`` and
    ``tape`` select that engine. The precision ``auto`` is ``mixed`` on the cuda engine and
    ``float32`` elsewhere; only the tape engine computes in ``float64``. `threads` is the number of
    CPU cores to use. `note` is called with a line of text if mixed precision was requested but is
    not available, or if ``auto`` selects the tape engine because kernels do not cover the
    field. Other networks have no kernels.

    Raises `ConfigError` for an unknown engine, or one that does not cover the objective, and
    `ResourceError` if a step would not fit into memory.
    """
    if request not in ENGINES:
        raise ConfigError("training.engine", repr(request), "auto, cpu, cuda or tape")
    if precision == "mixed" and (device.kind == "cpu" or request in ("cpu", "tape")):
        note("only the cuda engine has mixed precision; training in float32")
    is_image = isinstance(objective, ImageObjective | BitsObjective)
    fastest = "cuda" if device.kind == "gpu" else "cpu"
    wanted = fastest if request == "auto" else request
    if request != "tape" and (is_image or request != "auto"):
        try:
            return _with_kernels(wanted, precision, objective, device, threads)
        except NotCovered as reason:
            if request != "auto":
                found = f"{wanted}, but {reason}"
                remedy = f"set training.engine: auto, which uses {wanted} where possible"
                raise ConfigError("training.engine", found, "auto or tape", remedy) from reason
            note(f"{reason}; training with the tape engine")
    smaller = "a smaller image (images: size), a narrower network (fields: width)"
    if not is_image:
        smaller = "a narrower network, smaller batches"
    remedy = f"use {smaller} or fewer threads"
    require_memory(memory_bytes(objective, threads), device, "training", remedy)
    return TapeEngine(objective, device, threads)


def _with_kernels(
    wanted: str, precision: str, objective: Objective, device: Device, threads: int
) -> Engine:
    """Make an engine with compiled kernels; raise `NotCovered` if there are none."""
    if isinstance(objective, BitsObjective):
        return make_latent_engine(wanted, precision, objective, device, threads)
    if not isinstance(objective, ImageObjective):
        raise NotCovered(f"the {wanted} engine trains only fields")
    if wanted == "cpu":
        return CpuEngine(objective, device, threads, precision)
    # imported here, because only jobs on a GPU need these many modules
    from neuralfield.engines.cuda import field_engine

    return field_engine.CudaEngine(objective, device, precision)


def make_latent_engine(
    wanted: str, precision: str, objective: BitsObjective, device: Device, threads: int
) -> "LatentEngine | CudaLatentEngine":
    """Make the engine ``cpu`` or ``cuda`` for a coded image; raise `NotCovered` without kernels."""
    if wanted == "cpu":
        return LatentEngine(objective, device, threads)
    from neuralfield.engines.cuda.latents.latent_engine import CudaLatentEngine

    return CudaLatentEngine(objective, device, precision)


Call = tuple[Engine, int, int]
"""An engine, the number of its finished steps, and the number of steps to take."""

FollowUp = Callable[[int, float, np.ndarray], None]
"""Callback that receives a call's index, the seconds that its steps took, and the totals."""


class EngineBatch:
    """Takes training steps with several engines.

    On a CPU, at most `side_by_side` engines run at the same time. On a GPU, all run concurrently in
    a few streams. Every network ends with the same bytes as if it were trained alone.
    """

    def __init__(self, device: Device, side_by_side: int) -> None:
        self._device = device
        on_cores = device.kind == "cpu" and side_by_side > 1
        self._pool = ThreadPool(side_by_side) if on_cores else None
        if device.kind == "gpu":
            from neuralfield.engines.cuda.concurrent_steps import ConcurrentSteps

            self._concurrent = ConcurrentSteps(device)

    def run(self, calls: Sequence[Call], follow_up: FollowUp) -> None:
        """Take the steps of each call, and then call `follow_up(index of the call, seconds,
        totals)`, with the engine's totals on the host.

        On a GPU, the time is divided evenly among the calls. On a CPU, `follow_up` may run while
        other engines still take steps.
        """
        if self._device.kind == "gpu":
            started_s = time.perf_counter()
            self._concurrent.run(calls)
            totals = self._concurrent.fetched_totals([engine for engine, *_ in calls])
            share_s = (time.perf_counter() - started_s) / len(calls)
            for place, of_engine in enumerate(totals):
                follow_up(place, share_s, of_engine)
            return

        def work(place: int) -> None:
            started_s = time.perf_counter()
            engine, first_step, count = calls[place]
            engine.run(first_step, count)
            follow_up(place, time.perf_counter() - started_s, engine.totals)

        self.each(work, len(calls))

    def each(self, work: Callable[[int], None], count: int) -> None:
        """Call `work` with each number below `count`, on a CPU `side_by_side` at a time."""
        if self._pool:
            self._pool.run(lambda place, _: work(place), count)
        else:
            for place in range(count):
                work(place)

    def close(self) -> None:
        if self._pool:
            self._pool.close()
