"""The jobs of a run as shown to users: the thing that each works on, and its amount of work."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from types import SimpleNamespace
from typing import Any

from config.configuration import ImageNetwork
from jobs import estimates
from jobs.batches import without_settings
from jobs.plan import Plan
from jobs.recovery import is_forced_by_the_user
from neuralfield.tasks.training_settings import BUDGETS
from terminal.words import name_of

_TIMELAPSE_SHARE = 1 / 8
"""Samples per pixel of a frame, as a fraction of those that the estimate of a render assumes."""

_STEP_S = 1e-3
"""Assumed minimum seconds of a step on a processor."""

MISSING = "it is missing"
"""The usual reason, which is not shown."""

_RECOVERED = "its settings or its files have changed"
"""The reason for jobs that `jobs.recovery` forces, for which Snakemake notes no other reason."""

_REASONS = (
    ("forced", "it is forced to run again"),
    ("_missing_output", MISSING),
    ("_incomplete_output", "it is incomplete"),
    ("params_changed", "its settings or the version have changed"),
    ("code_changed", "its code has changed"),
    ("input_changed", "it has other input files"),
    ("_updated_input", "an input file has changed"),
    ("_updated_input_run", "an input file is created again"),
)
"""Attributes of Snakemake's reasons and their descriptions, the most informative first."""


@dataclass(frozen=True)
class Work:
    """The amount of work of a job."""

    kind: str  # the times of jobs of one kind are assumed proportional to their estimates
    seconds: float = 0.0
    """The pessimistic estimate of `jobs.estimates`; 0 for a job that takes only its start time."""
    steps: int = 0  # the steps of a training
    step_s: float = 0.0  # the estimate of a step
    bounds_s: tuple[float, float] = (0.0, math.inf)
    """Minimum and maximum seconds that a budget allows."""


@dataclass(frozen=True)
class PlannedJob:
    """A job that is going to run."""

    number: int  # Snakemake's number of it
    rule: str
    name: str  # the thing that it works on; see `terminal.words.name_of`
    wildcards: dict[str, str]
    outputs: tuple[str, ...]
    log: str  # empty if it has none
    threads: int
    gpus: int  # GPUs that it uses exclusively
    is_on_gpu: bool  # whether it computes on a GPU, which it may share
    needs: frozenset[int]  # the numbers of the jobs that have to end before it
    work: Work
    reason: str = ""  # why it runs

    @property
    def is_training(self) -> bool:
        return self.rule.startswith("train")

    @property
    def network(self) -> ImageNetwork | None:
        """The image and the field that it works on, if it works on one network as a whole."""
        if {"image", "field"} <= self.wildcards.keys():
            return ImageNetwork(self.wildcards["image"], self.wildcards["field"])
        return None

    @property
    def trained(self) -> list[ImageNetwork]:
        """The networks of images that it trains: several, if it is a batch."""
        if not self.is_training or self.wildcards.keys() & {"network", "classifier"}:
            return []
        if self.network:
            return [self.network]
        models = (PurePath(output) for output in self.outputs)
        folders = [path.parent for path in models if path.name == "model.safetensors"]
        return [ImageNetwork(folder.parent.name, folder.name) for folder in folders]


def planned_jobs(workflow: Any, plan: Plan) -> Iterator[PlannedJob]:
    """Yield the jobs that Snakemake is going to run, without jobs that have no outputs."""
    dag, cores = workflow.dag, workflow.resource_settings.cores
    needed = {job: dag.jobid(job) for job in dag.needrun_jobs() if job.output}
    for job, number in needed.items():
        threads = _whole(job.threads, 1)
        gpus = _whole(job.resources.get("gpu"), 0)
        planned = PlannedJob(
            number,
            job.rule.name,
            _name_of(job, plan),
            _wildcards_of(job, plan),
            tuple(map(str, job.output)),
            str(job.log[0]) if job.log else "",
            min(threads, cores or threads),
            gpus,
            bool(gpus or _whole(job.resources.get("gpu_memory_mb"), 0)),
            frozenset(needed[other] for other in dag.dependencies[job] if other in needed),
            Work(job.rule.name),
            _reason_in_words(workflow, job),
        )
        yield replace(planned, work=work_of(planned, job.wildcards, plan))


def _name_of(job: Any, plan: Plan) -> str:
    rule = job.rule.name
    if rule.startswith("train_batch_"):
        return f"batch {rule.removeprefix('train_batch_')}"
    name, tiles = name_of(_wildcards_of(job, plan)), _tiles_of(rule, plan)
    if not tiles:
        return name
    return f"{name} / tile {tiles[0]}" + (f" to {tiles[-1]}" if tiles[1:] else "")


def _wildcards_of(job: Any, plan: Plan) -> dict[str, str]:
    """Return the wildcards of a job; for a job on tiles, whose rule has none, image and field."""
    on_tiles = plan.tile_job_of.get(job.rule.name)
    return on_tiles.run._asdict() if on_tiles else dict(job.wildcards_dict)


def _tiles_of(rule: str, plan: Plan) -> list[str]:
    """Return the names of the tiles that a job trains on, in order; empty if it has no tiles."""
    on_tiles = plan.tile_job_of.get(rule)
    return [tile.name for tile in on_tiles.tiles] if on_tiles else []


def _whole(resource: Any, otherwise: int) -> int:
    try:
        return int(resource)
    except (TypeError, ValueError):  # missing, or unknown until the job's inputs exist
        return otherwise


def _reason_in_words(workflow: Any, job: Any) -> str:
    reason = workflow.dag.reason(job)
    if reason.forced and not is_forced_by_the_user(workflow, job):
        return _RECOVERED
    for attribute, words in _REASONS:
        if getattr(reason, attribute, False):
            return words
    return ""


def work_of(job: PlannedJob, wildcards: Any, plan: Plan) -> Work:
    """Return the amount of work of a job."""
    share = job.threads, int(job.is_on_gpu)
    place = "on a GPU" if job.is_on_gpu else "on processors"
    if job.rule == "train_table":
        table = plan.network_of(wildcards)
        seconds, steps = estimates.table_training_s(table), table["training"]["steps"]
        return Work(f"table {place}", seconds, steps, seconds / steps)
    if job.rule == "train_classifier":
        classifier = plan.network_of(wildcards)
        seconds = estimates.classifier_training_s(classifier, *share)
        steps = classifier["training"]["steps"]
        return Work(f"classifier {place}", seconds, steps, seconds / steps)
    if job.is_training:
        runs = [wildcards] if job.network else job.trained
        if tiles := _tiles_of(job.rule, plan):
            runs = [SimpleNamespace(**job.wildcards, tile=tile) for tile in tiles]
        networks = [plan.network_of(run) for run in runs]
        seconds = sum(
            estimates.training_s(plan.image_of(run), without_settings(network, BUDGETS), *share)
            for run, network in zip(runs, networks, strict=True)
        )
        training = networks[0]["training"]
        steps = training["steps"] * (len(tiles) or 1)
        if not job.is_on_gpu:
            seconds += _STEP_S * training["steps"] * len(runs)
        bounds_s = _bounds_s(training, job.is_on_gpu)
        return Work(f"{networks[0]['type']} {place}", seconds, steps, seconds / steps, bounds_s)
    if job.network is None or job.rule == "gather_tiles":
        return Work(job.rule)
    points, network = _rendered_points(job, plan), plan.network_of(wildcards)
    return Work(f"{job.rule} {place}", estimates.rendering_s(points, network, *share))


def _bounds_s(training: Mapping[str, Any], is_on_gpu: bool) -> tuple[float, float]:
    """Return the minimum and maximum seconds that the budget of a training allows."""
    least_s = training.get("budget", 0.0)
    most_s = training.get("budget", math.inf if is_on_gpu else training.get("cpu_budget", math.inf))
    return least_s, most_s


def _rendered_points(job: PlannedJob, plan: Plan) -> float:
    """Return the number of pixels that a job renders, each with the full number of samples."""
    config, points = plan.config, 0.0
    source = config["images"][job.wildcards["image"]]["path"]
    for name in (PurePath(output) for output in job.outputs):
        kind, _, part = name.stem.partition("_")
        if kind in ("render", "pyramid") and part.isdecimal():
            points += int(part) ** 2
        elif kind == "pyramid":
            points += estimates.source_points(source)
        elif kind == "crop" and part in config["render"]["crops"]:
            points += config["render"]["crops"][part]["size"] ** 2
        elif kind == "timelapse":
            timelapse = config["timelapse"]
            return _TIMELAPSE_SHARE * timelapse["frames"] * timelapse["size"] ** 2
        elif name.name == "metrics.json":
            most = 1e6 * config["evaluate"]["max_megapixels"]
            points += min(estimates.source_points(source), most)
    return points
