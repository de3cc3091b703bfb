"""The engines that take training steps: `fit` asks for steps and never knows which one it has."""

from collections.abc import Callable
from typing import Protocol

from neuralfield.engines.cpu import cpu_engine
from neuralfield.engines.cpu.cpu_engine import CpuEngine
from neuralfield.engines.tape import TapeEngine, memory_bytes
from neuralfield.system.device import Array, Device, require_memory
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective
from neuralfield.tasks.image.image_objective import ImageObjective
from neuralfield.tasks.objective import Objective

ENGINES = ("auto", "cpu", "cuda", "tape")


class Engine(Protocol):
    """Takes training steps."""

    name: str
    variant: str
    """A name for whatever else distinguishes the engine's results, or ""."""
    precision: str
    """float32, float64 or mixed."""
    most_steps: int
    """The largest count that a call of `run` may ask for."""
    totals: Array
    """float64, shape (2,), on the device: what steps add their loss and error to."""

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps, the first after `first_step` finished ones; may return early."""
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

    The request ``auto`` takes the fastest engine that covers the objective; ``cpu``, ``cuda`` and
    ``tape`` name one. The precision ``auto`` is ``mixed`` on the cuda engine and ``float32``
    elsewhere; ``float64`` is the tape's. `threads` are the cores to use on the CPU. `note` is
    called with a line of text where something else is done than was asked for.

    Raises `ConfigError` for an unknown engine, or one that does not cover the objective, and
    `ResourceError` where the step would not fit into memory.
    """
    if request not in ENGINES:
        raise ConfigError("training.engine", repr(request), "auto, cpu, cuda or tape")
    if precision == "mixed" and (device.kind == "cpu" or request in ("cpu", "tape")):
        note("mixed precision is the cuda engine's: training in float32")
    is_image = isinstance(objective, ImageObjective)
    fastest = "cuda" if device.kind == "gpu" else "cpu"
    wanted = fastest if request == "auto" else request
    has_kernels = is_image or (isinstance(objective, ClassifierObjective) and wanted == "cuda")
    if request != "tape" and (has_kernels or request != "auto"):
        found = _with_kernels(wanted, precision, objective, device, threads)
        if not isinstance(found, str):
            return found
        if request != "auto":
            remedy = f"set training.engine: auto, which takes {wanted} wherever it can"
            raise ConfigError("training.engine", f"{wanted}, but {found}", "auto or tape", remedy)
        note(f"{found}: training on the tape")
    smaller = "a smaller image (images: size), a narrower network (fields: width)"
    if not is_image:
        smaller = "a narrower network, smaller batches"
    remedy = f"use {smaller} or fewer threads"
    require_memory(memory_bytes(objective, threads), device, "training", remedy)
    return TapeEngine(objective, device, threads)


def _with_kernels(
    wanted: str, precision: str, objective: Objective, device: Device, threads: int
) -> Engine | str:
    """Return an engine with kernels of its own, or why an objective has none."""
    if wanted == "cuda":
        return _on_gpu(precision, objective, device)
    if not isinstance(objective, ImageObjective):
        return "cpu is for fields"
    reason = cpu_engine.unsupported_reason(objective, precision, device)
    return reason or CpuEngine(objective, device, threads)


def _on_gpu(precision: str, objective: Objective, device: Device) -> Engine | str:
    # imported here, because only jobs on a GPU need these many modules
    from neuralfield.engines.cuda import field_engine
    from neuralfield.engines.cuda.classifier import classifier_engine

    if isinstance(objective, ClassifierObjective):
        reason = classifier_engine.unsupported_reason(objective, precision, device)
        return reason or classifier_engine.ClassifierCudaEngine(objective, device)
    if not isinstance(objective, ImageObjective):
        return "cuda is for fields and classifiers"
    reason = field_engine.unsupported_reason(objective, precision, device)
    return reason or field_engine.CudaEngine(objective, device, precision)
