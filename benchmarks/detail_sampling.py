"""Compares ways to sample pixels, by the steps until line art is fitted with 0 wrong pixels.

    python benchmarks/detail_sampling.py
    python benchmarks/detail_sampling.py --device gpu --by contrast

The network `siren` is trained on the shipped lion cub (200 x 200, black and white), both as
config.yaml has them; only the sampling of the pixels in the batches differs: uniform, half of them
by contrast (as `detail_share: 0.5` does), or half of them by the strength of edges (the absolute
value of a Laplacian of a Gaussian, see `neuralfield.images.edges`).
"""

import argparse
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from statistics import median
from typing import Unpack

import numpy as np
import yaml
from measuring import ROOT
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from measuring.ours import TrainingSteps, fit_db

from config.configuration import read_settings
from neuralfield.fields import CoordinateNetwork, field_settings
from neuralfield.images import read_image, resize_image
from neuralfield.images.edges import EdgeFilter
from neuralfield.images.metrics import as_seen, wrong_pixels
from neuralfield.nn.sampling import detail_density
from neuralfield.rendering.render import render
from neuralfield.system.device import Device, select_device
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_objective import ImageObjective
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.task import Shared
from neuralfield.tasks.training_settings import ImageTraining

SIGMAS_PX = (0.7, 1.4)


@dataclass(frozen=True)
class DensityTask(ImageTask):
    """An image task that samples pixels by a density; float64, shape (pixels,)."""

    density: np.ndarray

    def objective(self, network: CoordinateNetwork, **shared: Unpack[Shared]) -> ImageObjective:
        """Return the usual objective with batches sampled by the density."""
        objective = super().objective(network, **shared)
        cumulative = objective.batches.xp.asarray(np.cumsum(self.density))
        batches = dataclasses.replace(objective.batches, cumulative_density=cumulative)
        return dataclasses.replace(objective, batches=batches)


def even(values: np.ndarray, share: float) -> np.ndarray:
    """Return the same density for all pixels."""
    return np.full(values[..., 0].size, 1 / values[..., 0].size)


def by_edges(values: np.ndarray, share: float, *, sigma_px: float) -> np.ndarray:
    """Return a density like `detail_density`, by the strength of edges instead of contrast."""
    grey = values[..., 0]
    found = EdgeFilter(sigma_px).bands(lambda top, bottom: grey[top:bottom], *grey.shape)
    strength = np.abs(np.concatenate(list(found)).astype(np.float64)).reshape(-1)
    return (1 - share) / strength.size + share * strength / strength.sum()


DENSITIES: dict[str, Callable[[np.ndarray, float], np.ndarray] | None] = {
    "none, spread evenly": None,
    "none, sampled like those below": even,
    "contrast": detail_density,
    **{f"edges, sigma {sigma:g} px": partial(by_edges, sigma_px=sigma) for sigma in SIGMAS_PX},
}


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each way to choose pixels."""
    task = config_task(arguments.image, arguments.field, arguments.steps)
    device = select_device(arguments.device)
    print(f"{arguments.image}, {arguments.field}, {task.training.steps:,} steps\n")
    print_header(
        *("by", "0 wrong pixels after steps, by seed", "median", "seconds, median"),
        *("wrong at the end", "fit, dB"),
    )
    for name in arguments.by:
        tasks = [
            with_seed(task, DENSITIES[name], arguments.share, seed)
            for seed in range(arguments.seeds)
        ]
        found = [train(one, device, arguments.look_every, arguments.threads) for one in tasks]
        firsts, seconds, wrongs, fits = zip(*found, strict=True)
        middle = median(first or float("inf") for first in firsts)
        print_row(
            *(name, ", ".join(str(first or "-") for first in firsts), f"{middle:g}"),
            *(f"{median(seconds):.2g}", ", ".join(map(str, wrongs)), f"{np.mean(fits):.2f}"),
        )


def config_task(image: str, field: str, steps: int | None) -> ImageTask:
    """Return the training task of an image and a field of config.yaml."""
    settings = read_settings(yaml.safe_load((ROOT / "config.yaml").read_text()), lambda _: "")
    about, network = settings["images"][image], dict(settings["fields"][field])
    training = network.pop("training") | ({"steps": steps} if steps else {})
    keys = [key.name for key in dataclasses.fields(ImageTraining)]
    path = ROOT / about["path"]
    pixels = read_image(path, mode=about["mode"], threshold=about["threshold"])
    pixels = resize_image(pixels, about.get("size"), about["filter"], mode=about["mode"])
    network["output"] = "sigmoid" if pixels.mode == "bilevel" else "linear"
    used = ImageTraining(**{key: training[key] for key in keys if key in training})
    return ImageTask(pixels.values(), pixels.mode, field_settings(network), used)


def with_seed(
    task: ImageTask,
    density: Callable[[np.ndarray, float], np.ndarray] | None,
    share: float,
    seed: int,
) -> ImageTask:
    """Return the task with another random seed and sampling of pixels."""
    training = dataclasses.replace(task.training, random_seed=seed, detail_share=0.0)
    own = (task.values, task.mode, task.field, training)
    return DensityTask(*own, density(task.values, share)) if density else ImageTask(*own)


def train(
    task: ImageTask, device: Device, look_every: int, threads: int
) -> tuple[int | None, float, int, float]:
    """Train; return steps and seconds to 0 wrong pixels, wrong pixels at the end, and the fit."""
    first, seconds, until_first_s, wrong = None, 0.0, float("inf"), 0
    with TrainingSteps(task, device, "auto", threads) as steps:
        while steps.taken < task.training.steps:
            seconds += steps.timed_s(min(look_every, task.training.steps - steps.taken))
            model = Model(task.field, task.shape, task.mode, steps.arrays(), {})
            rendered = render(
                model, task.shape.width, task.shape.height, device=device, threads=threads
            )
            wrong = wrong_pixels(as_seen(rendered), task.values)
            if wrong == 0 and first is None:
                first, until_first_s = steps.taken, seconds
        return first, until_first_s, wrong, fit_db(steps.arrays(), task, device)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "threads")
    add = parser.add_argument
    add("--image", default="lion_cub", help="an image of config.yaml")
    add("--field", default="siren", help="a field of config.yaml")
    add("--seeds", type=int, default=5, help="number of random seeds, from 0")
    add("--share", type=float, default=0.5, help="part of each batch that is chosen by detail")
    add("--steps", type=int, help="steps of each training; default: as in config.yaml")
    add("--look-every", type=int, default=25, help="steps between two counts of wrong pixels")
    add("--by", nargs="+", choices=DENSITIES, default=list(DENSITIES))
    add("--device", choices=("cpu", "gpu"), default="cpu", help="device to use")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
