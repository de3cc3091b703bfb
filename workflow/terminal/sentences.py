"""One line for each finished training, evaluation and group of renders, with its result."""

import json
import re
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

_DONE = ("rendered", " rendered", " made")

_SHOWN = re.compile(r"results/[^/]+/[^/]+/(render_|crop_|timelapse\.|view\.|pyramid)[^/]*")
"""Outputs that show a network, which are all named in one line."""


class Sentences:
    """The lines about finished jobs of a run."""

    def __init__(self, jobs: Collection[PlannedJob]) -> None:
        self._are_many = sum(len(job.trained) for job in jobs) >= MANY_TRAININGS
        self._left_to_show: dict[ImageNetwork, set[int]] = {}
        self._shown: dict[ImageNetwork, list[PurePath]] = {}
        for job in filter(_shows, jobs):
            if job.network:
                self._left_to_show.setdefault(job.network, set()).add(job.number)

    def finished(self, job: PlannedJob, progress: Progress | None) -> str | None:
        """Return the line about a finished job, or None; `progress` is the last of a training."""
        if job.is_training:
            return None if self._are_many or progress is None else _trained(job, progress)
        if job.rule.startswith("evaluate"):
            metrics = next(path for path in job.outputs if path.endswith("metrics.json"))
            return f"{job.name}: {in_words(read_metrics(Path(metrics)))}"
        if _shows(job) and job.network:
            return self._have_shown(job, job.network)
        if job.rule.startswith((*_PREPARING, *_GATHERING)):
            return None
        return f"{job.name}: made {listed(job.outputs)}" if job.name else None

    def _have_shown(self, job: PlannedJob, network: ImageNetwork) -> str | None:
        self._left_to_show[network].discard(job.number)
        self._shown.setdefault(network, []).extend(map(PurePath, job.outputs))
        if self._are_many or self._left_to_show[network]:
            return None
        return f"{job.name}: {shown_in_words(self._shown[network])}"


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


def shown_in_words(outputs: Collection[PurePath], verbs: tuple[str, str, str] = _DONE) -> str:
    """Describe the outputs that show a network: ``rendered at 50 pixels, time-lapse made``."""
    rendered, crop_rendered, made = verbs
    names = [path.stem.partition("_") for path in outputs]
    sizes = sorted(int(size) for kind, _, size in names if kind == "render" and size.isdecimal())
    crops = sorted(crop for kind, _, crop in names if kind == "crop")
    parts = []
    if sizes:
        parts.append(f"{rendered} at {listed([f'{size:,}' for size in sizes])} pixels")
    if crops:
        parts.append(f"{'crop' if len(crops) == 1 else 'crops'} {listed(crops)}{crop_rendered}")
    pages = {"timelapse": "time-lapse", "view": "viewer", "pyramid": "pyramid"}
    if others := [words for kind, words in pages.items() if any(kind == k for k, _, _ in names)]:
        parts.append(f"{listed(others)}{made}")
    return ", ".join(parts)


def _shows(job: PlannedJob) -> bool:
    return any(_SHOWN.fullmatch(output) for output in job.outputs)


def _trained(job: PlannedJob, progress: Progress) -> str:
    several = f" of {len(job.trained)} networks" if len(job.trained) > 1 else ""
    measured = f", {progress.measured}" if progress.measured else ""
    return f"{job.name}{several}: trained in {duration(progress.seconds)}{measured}"
