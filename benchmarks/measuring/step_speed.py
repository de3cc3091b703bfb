"""Parts `steps`, `footprint` and `allocations`: a training step in steady state."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from measuring.context import Context
from measuring.measure import markdown_table, number_text, time_calls
from measuring.ours import Ours, TrainingSteps, checked_error, first_gradient, systems
from measuring.rows import STEPS, StepRow, footprint_rows, training_bytes, training_multiply_adds
from neuralfield.system.device import Device

_COUNTED_STEPS = 1000
_SETTLING_STEPS = 20


def measure_steps(context: Context, chosen: str = "") -> None:
    """Check the gradient of each of `rows.STEPS` and measure its time, for every engine and peer.

    Rows whose names do not contain `chosen` are left out.
    """
    rows = [context.sized(row) for row in STEPS if chosen in row.name]
    _measure(context, "steps", rows, context.peers())


def measure_footprint(context: Context, points: int) -> None:
    """Measure footprint supervision, and point supervision of as many rows for comparison."""
    rows = [context.sized(row) for row in footprint_rows(points)]
    _measure(context, "footprint", rows, ())
    context.report.add_table("footprint", "million_points_per_s", "million points a second")


def measure_allocations(context: Context) -> None:
    """Count the allocations of a running training on the GPU, of which there should be none."""
    row = context.sized(STEPS[0])
    for system in systems(context.device):
        count = partial(_count_allocations, row, system, context.device)
        context.report.attempt("allocations", row.name, system.name, context.deadline, count)
    title = f"allocations in {_COUNTED_STEPS:,} steps"
    context.report.add_table("allocations", "pool_allocations", title)


def _measure(context: Context, part: str, rows: Sequence[StepRow], peers: Sequence[Any]) -> None:
    report = context.report
    for row in rows:
        reference = _Reference(row, context.device)
        limits = partial(_limits, row, context)
        report.attempt(part, row.name, "limits", context.deadline, limits)
        for ours in systems(context.device):
            measure = partial(_measure_ours, row, ours, context, reference)
            report.attempt(part, row.name, ours.name, context.deadline, measure)
        for peer in peers:
            measure = partial(_measure_peer, row, peer, context, reference)
            report.attempt(part, row.name, peer.name, context.deadline, measure)
    _add_step_table(context, part, rows)
    report.add_table(part, "gradient_error", "relative error of the first gradient")


class _Reference:
    """The first gradient of a row by the tape in float64, computed when it is first needed."""

    def __init__(self, row: StepRow, device: Device) -> None:
        self._row, self._device = row, device

    @cached_property
    def gradient(self) -> dict[str, np.ndarray]:
        """The gradient by parameter."""
        return first_gradient(self._row.task("float64", "adam"), self._device, "tape")


def _limits(row: StepRow, context: Context) -> dict[str, Any]:
    arithmetic, moved = training_multiply_adds(row), training_bytes(row)
    return {
        "multiply_adds": arithmetic,
        "least_bytes": moved,
        "floor_ms": 1e3 * context.ceilings.floor_s(arithmetic, moved),
        "bar_ms": row.bar_ms,
    }


def _measure_ours(
    row: StepRow, ours: Ours, context: Context, reference: _Reference
) -> dict[str, Any]:
    gradient = first_gradient(row.task(ours.precision, "adam"), context.device, ours.engine)
    error = checked_error(context.report, row.name, ours, gradient, reference.gradient)
    with TrainingSteps(row.task(ours.precision), context.device, ours.engine) as steps:
        variant = {"variant": steps.trainer.engine.variant}
        return _timed(row, steps, context) | {"gradient_error": error} | variant


def _measure_peer(
    row: StepRow, peer: Any, context: Context, reference: _Reference
) -> dict[str, Any]:
    from torch_peers.fields import FieldSteps, release_memory

    steps = FieldSteps(row.task("float32"), context.device, peer)
    gradient = steps.first_gradient()
    error = checked_error(context.report, row.name, peer, gradient, reference.gradient)
    timed = _timed(row, steps, context)
    del steps
    release_memory()
    return timed | {"gradient_error": error}


def _timed(row: StepRow, steps: Callable[[int], None], context: Context) -> dict[str, Any]:
    timing = time_calls(steps, context.device, context.effort)
    arithmetic, moved = training_multiply_adds(row), training_bytes(row)
    return {
        "step_ms": 1e3 * timing.median_s,
        "lowest_ms": 1e3 * timing.lowest_s,
        "highest_ms": 1e3 * timing.highest_s,
        "samples": timing.samples,
        "steps_per_sample": timing.calls_per_sample,
        "times_floor": timing.median_s / context.ceilings.floor_s(arithmetic, moved),
        "million_points_per_s": 1e-6 * row.rows / timing.median_s,
    }


def _add_step_table(context: Context, part: str, rows: Sequence[StepRow]) -> None:
    entries = [e for e in context.report.entries if e["part"] == part]
    timed = {(e["row"], e["system"]): e for e in entries if "step_ms" in e}
    floors = {e["row"]: e for e in entries if "floor_ms" in e}
    names = list(dict.fromkeys(system for _, system in timed))
    lines = []
    for row in rows:
        floor = floors.get(row.name)
        cells = [
            f"{floor['floor_ms']:.3g}" if floor else "-",
            f"{row.bar_ms:g}" if row.bar_ms else "-",
        ]
        for name in names:
            found = timed.get((row.name, name))
            if found is None:
                cells.append("-")
                continue
            step, times = number_text(found["step_ms"]), number_text(found["times_floor"])
            cells.append(f"{step} ({times}x)")
        lines.append([row.name, *cells])
    header = ["one step, ms (times the floor)", "floor", "bar", *names]
    context.report.tables.append(markdown_table(header, lines))


def _count_allocations(row: StepRow, ours: Ours, device: Device) -> dict[str, Any]:
    if device.kind != "gpu":
        return {"left_out": "allocations are counted on a GPU only"}
    cuda, pool = device.xp.cuda, device.xp.get_default_memory_pool()

    class Counter(cuda.MemoryHook):
        """A hook that counts the blocks that CuPy's pool allocates, and those of the driver."""

        name = "Counter"
        from_pool = from_driver = 0

        def malloc_preprocess(self, **_: Any) -> None:
            self.from_pool += 1

        def alloc_preprocess(self, **_: Any) -> None:
            self.from_driver += 1

    with TrainingSteps(row.task(ours.precision), device, ours.engine) as steps:
        steps(_SETTLING_STEPS)
        held_bytes = pool.total_bytes()
        with Counter() as counter:
            steps(_COUNTED_STEPS)
        return {
            "pool_allocations": counter.from_pool,
            "driver_allocations": counter.from_driver,
            "grown_bytes": pool.total_bytes() - held_bytes,
        }
