"""Names of the files that the rules make, and of the files inside their folders."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from config.configuration import Run
from config.sweeps import all_runs
from jobs.plan import Plan
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.input_files import read_json
from neuralfield.system.settings import settings_of
from neuralfield.tasks.found_steps import FILE_NAME, FoundSteps
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining, log_spaced_steps

Contents = tuple[str, str, set[str]]
"""An output that is a folder, that folder or one in it, and the names that have to be there."""

MOST_TILES_OF_A_VIEW = 150
"""Their networks are all in one page."""

_ENLARGED = {"source.png", "redraw.png", "lanczos.png", "bicubic.png", "back_projection.png"}


def for_runs(pattern: str, runs: Iterable[Run], **others: Iterable[Any]) -> list[str]:
    """Fill a pattern for every run, and for every combination with the other values."""
    return [
        pattern.format(**run._asdict(), **dict(zip(others, values, strict=True)))
        for run in runs
        for values in product(*others.values())
    ]


def all_products(plan: Plan) -> list[str]:
    """Return the files of all images and their networks, except the report and the summary."""
    rendered = all_runs(sweep for sweep in plan.sweeps if sweep.render)
    filmed = all_runs(sweep for sweep in plan.sweeps if sweep.timelapse)
    comparisons = ["results/comparison.csv", "results/comparison_by_image.csv"]
    return [
        *(comparisons if plan.sweeps else []),
        *image_products(plan),
        *network_products(plan),
        *renders(plan, plan.single_runs + rendered),
        *timelapses(plan, plan.single_runs + filmed),
        *views(plan, plan.single_runs + rendered),
        *pyramids(plan, plan.single_runs + rendered),
    ]


def image_products(plan: Plan) -> list[str]:
    """Return the files of all images, up to those that networks are trained on."""
    files = []
    for image in plan.config["images"]:
        is_large = image in plan.tiled
        names = ["overview.png", "pixels.npy"] if is_large else ["resized.png", "pixels.csv"]
        files += [f"results/{image}/{name}" for name in ("picture.json", *names)]
    return files


def training_image(plan: Plan, image: str) -> str:
    """Return the image that was trained on; a small one, where that is large."""
    return f"results/{image}/{'overview' if image in plan.tiled else 'resized'}.png"


def network_products(plan: Plan) -> list[str]:
    """Return the files that training and evaluation of all images' networks leave."""
    files = []
    for run in plan.runs:
        folder = f"results/{run.image}/{run.field}"
        files += [f"{folder}/metrics.json", f"{folder}/comparison"]
        if run.field in plan.imported:
            files.append(f"{folder}/model.safetensors")
            continue
        segments = range(1, plan.network_of(run)["training"]["segments"])
        for training in training_folders(plan, run):
            files += training_products(training)
            files += [f"{training}/segments/{segment}" for segment in segments]
        if run.image in plan.tiled:
            files += training_products(folder, "mosaic.json")
    return files


def training_products(folder: str, network: str = "model.safetensors") -> list[str]:
    """Return the files of one training."""
    names = (network, "history.csv", "training.json", "checkpoints")
    return [f"{folder}/{name}" for name in names]


def training_folders(plan: Plan, run: Run) -> list[str]:
    """Return the folders in which the network of a run, or those of its tiles, are trained."""
    folder = f"results/{run.image}/{run.field}"
    return [f"{folder}/tiles/{tile}" for tile in plan.tiles_of(run.image)] or [folder]


def renders(plan: Plan, runs: Sequence[Run]) -> list[str]:
    """Return the renders and crops of networks."""
    names = renders_of_a_network(plan.config["render"])
    return for_runs("results/{image}/{field}/{name}.png", runs, name=names)


def renders_of_a_network(settings: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the longer side and the box of each render, by the name of its file."""
    whole = [0, 0, 1, 1]
    return {
        **{f"render_{size}": {"size": size, "box": whole} for size in settings["sizes"]},
        **{f"crop_{name}": crop for name, crop in settings["crops"].items()},
    }


def timelapses(plan: Plan, runs: Iterable[Run]) -> list[str]:
    """Return the time-lapses of networks that are trained here."""
    pattern, formats = "results/{image}/{field}/timelapse.{format}", plan.config["timelapse"]
    return for_runs(pattern, plan.trained_runs(runs), format=formats["formats"])


def views(plan: Plan, runs: Iterable[Run]) -> list[str]:
    """Return the pages that evaluate networks; none for so many tiles that one cannot hold them."""
    shown = (run for run in runs if len(plan.tiles_of(run.image)) <= MOST_TILES_OF_A_VIEW)
    return for_runs("results/{image}/{field}/view.html", shown)


def pyramids(plan: Plan, runs: Iterable[Run]) -> list[str]:
    """Return the pyramids to zoom into, of images in tiles."""
    return for_runs("results/{image}/{field}/pyramid", (r for r in runs if r.image in plan.tiled))


def linked_files(plan: Plan) -> dict[str, list[str]]:
    """Return the names of each network's files that people may open, by ``{image}/{field}``."""
    runs = plan.single_runs
    models = [
        f"results/{run.image}/{run.field}/model.safetensors"
        for run in runs
        if run.image not in plan.tiled
    ]
    found: dict[str, list[str]] = {f"{run.image}/{run.field}": [] for run in runs}
    pages = [*views(plan, runs), *(f"{path}/index.html" for path in pyramids(plan, runs))]
    for path in (*pages, *renders(plan, runs), *timelapses(plan, runs), *models):
        _, image, field, name = path.split("/", 3)
        found[f"{image}/{field}"].append(name)
    return found


def table_products(plan: Plan) -> list[str]:
    """Return the files of all networks of tables, and the plot of each table."""
    folders = [f"results/tables/{network}" for network in plan.table_networks]
    measured = [f"{f}/{name}" for f in folders for name in ("metrics.json", "predictions.csv")]
    plots = [f"results/tables/{table}/plot.png" for table in plan.config["tables"]]
    return plots + measured + [file for folder in folders for file in training_products(folder)]


def classifier_products(plan: Plan) -> list[str]:
    """Return the files of all classifiers."""
    names = ("metrics.json", "predictions.csv", "confusion.png", "wrong.png", "curve.png")
    folders = [f"results/classifiers/{name}" for name in plan.config["classifiers"]]
    measured = [f"{folder}/{name}" for folder in folders for name in names]
    return measured + [file for folder in folders for file in training_products(folder)]


def state_folders(plan: Plan) -> list[str]:
    """Return the folders of all trainings."""
    return [
        *(folder for run in plan.trained_runs(plan.runs) for folder in training_folders(plan, run)),
        *(f"results/tables/{network}" for network in plan.table_networks),
        *(f"results/classifiers/{classifier}" for classifier in plan.config["classifiers"]),
    ]


def network_contents(plan: Plan) -> Iterator[Contents]:
    """Yield the outputs of images' networks that are folders."""
    for run in plan.runs:
        folder = f"results/{run.image}/{run.field}"
        comparison = f"{folder}/comparison"
        yield comparison, comparison, _compared_files(folder)
        if run.field in plan.imported:
            continue
        training = _with_found_steps(folder, plan.network_of(run)["training"])
        if run.image in plan.tiled:
            yield _checkpoints(folder, training, "json")
        for trained_folder in training_folders(plan, run):
            yield _checkpoints(trained_folder, training)
            yield from _segments(trained_folder, training)


def table_contents(plan: Plan) -> Iterator[Contents]:
    """Yield the outputs of tables' networks that are folders."""
    for network, table in plan.table_networks.items():
        yield _checkpoints(f"results/tables/{network}", plan.config["tables"][table]["training"])


def classifier_contents(plan: Plan) -> Iterator[Contents]:
    """Yield the outputs of classifiers that are folders."""
    for name, classifier in plan.config["classifiers"].items():
        yield _checkpoints(f"results/classifiers/{name}", classifier["training"])


def _with_found_steps(folder: str, training: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a training with the steps that its budget came to."""
    if any(name in training for name in BUDGETS):
        if found := FoundSteps.read(Path(folder, FILE_NAME)):
            return {**training, **found.training}
        with suppress(NeuralfieldError):
            steps = read_json(Path(folder, "training.json"), ("steps",))["steps"]
            if settings_of(ImageTraining)["steps"].allows(steps):
                return {**training, "steps": steps}
    return training


def _segments(folder: str, training: Mapping[str, Any]) -> Iterator[Contents]:
    steps, count = training["steps"], training["segments"]
    for number in range(1, count):
        segment = f"{folder}/segments/{number}"
        yield segment, segment, {"state.safetensors", "snapshots"}
        yield segment, f"{segment}/snapshots", _snapshots(training, steps * number // count)


def _checkpoints(folder: str, training: Mapping[str, Any], suffix: str = "safetensors") -> Contents:
    checkpoints = f"{folder}/checkpoints"
    return checkpoints, checkpoints, _snapshots(training, training["steps"], suffix)


def _snapshots(
    training: Mapping[str, Any], until_step: int, suffix: str = "safetensors"
) -> set[str]:
    steps = log_spaced_steps(training["steps"], training["snapshots"])
    return {f"step_{step:08d}.{suffix}" for step in steps if step <= until_step}


def _compared_files(folder: str) -> set[str]:
    """Return the images of an evaluation: more where the source is larger than the image."""
    if any(Path(folder, "comparison", name).exists() for name in _ENLARGED - {"redraw.png"}):
        return _ENLARGED
    try:
        is_enlarged = read_json(Path(folder, "metrics.json")).get("upscale_width") is not None
    except NeuralfieldError:  # missing or damaged: it is made again, or its readers report that
        is_enlarged = False
    return _ENLARGED if is_enlarged else {"redraw.png"}
