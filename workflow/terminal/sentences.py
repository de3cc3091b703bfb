"""One line for each finished training, evaluation and group of renders, with its result."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from pathlib import Path, PurePath
from typing import Any

from config.configuration import ImageNetwork
from entry.progress import Progress
from terminal.planned import PlannedJob
from terminal.words import count, duration, listed

_FILTERS = {"lanczos": "Lanczos", "back_projection": "back-projection"}
"""The displayed names of filters whose names in metrics.json are different."""

MANY_TRAININGS = 20
"""Number of trainings from which on each network has one line only, with its final metrics."""

_PREPARING = ("resize", "encode", "unpack", "overview", "gather_tiles", "import_weights")
_GATHERING = ("summarize", "compare", "report", "plot")
"""Prefixes of the names of rules that have no line of their own."""

_RENDERING = ("render", "timelapse", "view", "pyramid")
"""Prefixes of the names of rules whose outputs are named in one line for each network."""


class Sentences:
    """The lines about finished jobs of a run."""

    def __init__(self, jobs: Collection[PlannedJob]) -> None:
        self._are_many = sum(len(job.trained) for job in jobs) >= MANY_TRAININGS
        self._left = Counter(job.network for job in jobs if job.rule.startswith(_RENDERING))
        self._made: dict[ImageNetwork | None, list[str]] = {}

    def finished(self, job: PlannedJob, progress: Progress | None) -> str | None:
        """Return the line about a finished job, or None; `progress` is the last of a training."""
        if job.is_training:
            return None if self._are_many or progress is None else _trained(job, progress)
        if job.rule.startswith("evaluate"):
            metrics = next(path for path in job.outputs if path.endswith("metrics.json"))
            return f"{job.name}: {in_words(read_metrics(Path(metrics)))}"
        if job.rule.startswith((*_PREPARING, *_GATHERING)):
            return None
        made = self._made.setdefault(job.network, [])
        made += [PurePath(path).name for path in job.outputs]
        if job.rule.startswith(_RENDERING):
            self._left[job.network] -= 1
            if self._are_many or self._left[job.network]:
                return None
        return f"{job.name or job.rule}: made {listed(self._made.pop(job.network))}"


def read_metrics(path: Path) -> dict[str, Any]:
    """Read the metrics of an evaluation; empty if the file is missing or damaged."""
    try:
        numbers = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return numbers if isinstance(numbers, dict) else {}


def best_filter(numbers: Mapping[str, Any]) -> tuple[str, float] | None:
    """Return the name and the PSNR in dB of the filter closest to the source, if known."""
    name = numbers.get("upscale_best_filter")
    level_db = numbers.get(f"upscale_{name}_psnr_db")
    return None if level_db is None else (_FILTERS.get(str(name), str(name)), level_db)


def in_words(numbers: Mapping[str, Any]) -> str:
    """Return the metrics of a network of an image, of a table or of a classifier as text."""
    if "psnr_db" in numbers:
        parts = [f"fit {numbers['psnr_db']:.1f} dB"]
        if (wrong := numbers.get("wrong_pixels")) is not None:
            parts.append(count(wrong, "wrong pixel"))
        if (redraw_db := numbers.get("upscale_psnr_db")) is not None:
            parts.append(f"redraw {redraw_db:.1f} dB")
            if best := best_filter(numbers):
                parts[-1] += f" (best filter: {best[0]}, {best[1]:.1f})"
        return ", ".join(parts)
    for measure, form in (("accuracy", "{:.1%} correct"), ("rmse", "error {:.3g}")):
        if (value := numbers.get(measure)) is not None and numbers.get("measure") in (
            None,
            measure,
        ):
            text = form.format(value)
            held_out = numbers.get(f"held_out_{measure}")
            return text if held_out is None else f"{text}, {form.format(held_out)} on held-out data"
    return "evaluated"


def _trained(job: PlannedJob, progress: Progress) -> str:
    several = f" of {len(job.trained)} networks" if len(job.trained) > 1 else ""
    measured = f", {progress.measured}" if progress.measured else ""
    return f"{job.name}{several}: trained in {duration(progress.seconds)}{measured}"
