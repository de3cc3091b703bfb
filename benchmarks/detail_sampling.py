"""Which pixels to look at more often: steps until line art is learned to 0 wrong pixels.

    PYTHONPATH=scripts:workflow python benchmarks/detail_sampling.py
    PYTHONPATH=scripts:workflow python benchmarks/detail_sampling.py --device gpu --by contrast

The shipped lion cub (200 x 200, black and white) is taught to the network `siren`, both as
config.yaml has them; only the choice of the pixels in the batches is different: all alike, half of
them by contrast (what `detail_share: 0.5` does), or half of them by the strength of edges (the
absolute value of a Laplacian of a Gaussian, see `neuralfield.images.edges`).
"""

import argparse
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import yaml
from measuring.ours import TrainingSteps, fit_db
from threadpoolctl import threadpool_limits

from config.configuration import read_settings
from neuralfield.fields import field_settings
from neuralfield.images import read_picture, resize_picture
from neuralfield.images.edges import EdgeFilter
from neuralfield.images.metrics import as_seen, wrong_pixels
from neuralfield.nn.sampling import detail_density
from neuralfield.rendering.render import render
from neuralfield.system.device import Device, available_cores, select_device
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_objective import ImageObjective
from neuralfield.tasks.image.image_task import PictureTask
from neuralfield.tasks.training_settings import PictureTraining

ROOT = Path(__file__).resolve().parents[1]

SIGMAS_PX = (0.7, 1.4)


@dataclass(frozen=True)
class DensityTask(PictureTask):
    """A picture of which each pixel is looked at as often as `density` says; float64, (pixels,)."""

    density: np.ndarray

    def objective(self, *arguments: Any, **named: Any) -> ImageObjective:
        """As ever, with other batches."""
        objective = super().objective(*arguments, **named)
        cumulative = objective.batches.xp.asarray(np.cumsum(self.density))
        batches = dataclasses.replace(objective.batches, cumulative_density=cumulative)
        return dataclasses.replace(objective, batches=batches)


def even(values: np.ndarray, share: float) -> np.ndarray:
    """All pixels alike, but drawn as the others are."""
    return np.full(values[..., 0].size, 1 / values[..., 0].size)


def by_edges(values: np.ndarray, share: float, *, sigma_px: float) -> np.ndarray:
    """As `detail_density`, with the strength of edges in place of contrast."""
    grey = values[..., 0]
    found = EdgeFilter(sigma_px).bands(lambda top, bottom: grey[top:bottom], *grey.shape)
    strength = np.abs(np.concatenate(list(found)).astype(np.float64)).reshape(-1)
    return (1 - share) / strength.size + share * strength / strength.sum()


DENSITIES: dict[str, Callable[[np.ndarray, float], np.ndarray] | None] = {
    "none, each pixel once an epoch": None,
    "none, drawn like those below": even,
    "contrast": detail_density,
    **{f"edges, sigma {sigma:g} px": partial(by_edges, sigma_px=sigma) for sigma in SIGMAS_PX},
}


def main() -> None:
    """Print a row for each way to choose pixels."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--image", default="lion_cub", help="of config.yaml")
    parser.add_argument("--field", default="siren", help="of config.yaml")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--share", type=float, default=0.5, help="of the batches, by detail")
    parser.add_argument("--steps", type=int, help="default: config.yaml's")
    parser.add_argument("--look-every", type=int, default=25, help="steps")
    parser.add_argument("--by", nargs="+", choices=DENSITIES, default=list(DENSITIES))
    parser.add_argument("--device", choices=("cpu", "gpu"), default="cpu")
    parser.add_argument("--threads", type=int, default=available_cores())
    arguments = parser.parse_args()
    task = lesson(arguments.image, arguments.field, arguments.steps)
    device = select_device(arguments.device)
    print(f"{arguments.image}, {arguments.field}, {task.training.steps:,} steps\n")
    print(
        "| by | 0 wrong pixels after steps, by seed | median | seconds, median | wrong at the end"
        " | fit, dB |"
    )
    print("|---" * 6 + "|", flush=True)
    for name in arguments.by:
        found = [
            learn(
                of_seed(task, DENSITIES[name], arguments.share, seed),
                device,
                arguments.look_every,
                arguments.threads,
            )
            for seed in range(arguments.seeds)
        ]
        firsts, seconds, wrongs, fits = zip(*found, strict=True)
        middle = median(first or float("inf") for first in firsts)
        cells = [", ".join(str(first or "-") for first in firsts), f"{middle:g}"]
        cells.append(f"{median(seconds):.2g}")
        cells += [", ".join(map(str, wrongs)), f"{np.mean(fits):.2f}"]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


def lesson(image: str, field: str, steps: int | None) -> PictureTask:
    """A run of config.yaml."""
    settings = read_settings(yaml.safe_load((ROOT / "config.yaml").read_text()), lambda _: "")
    about, network = settings["images"][image], dict(settings["fields"][field])
    training = network.pop("training") | ({"steps": steps} if steps else {})
    keys = [key.name for key in dataclasses.fields(PictureTraining)]
    picture = read_picture(about["path"], mode=about["mode"], threshold=about["threshold"])
    picture = resize_picture(picture, about.get("size"), about["filter"], mode=about["mode"])
    network["output"] = "sigmoid" if picture.mode == "bilevel" else "linear"
    taught = PictureTraining(**{key: training[key] for key in keys if key in training})
    return PictureTask(picture.values(), picture.mode, field_settings(network), taught)


def of_seed(
    task: PictureTask,
    density: Callable[[np.ndarray, float], np.ndarray] | None,
    share: float,
    seed: int,
) -> PictureTask:
    """The task with another random seed and choice of pixels."""
    training = dataclasses.replace(task.training, random_seed=seed, detail_share=0.0)
    what = (task.values, task.mode, task.field, training)
    return DensityTask(*what, density(task.values, share)) if density else PictureTask(*what)


def learn(
    task: PictureTask, device: Device, look_every: int, threads: int
) -> tuple[int | None, float, int, float]:
    """When there was no wrong pixel first, in steps and seconds; the wrong at the end; the fit."""
    first, seconds, until_first_s, wrong = None, 0.0, float("inf"), 0
    with TrainingSteps(task, device, "auto", threads) as steps:
        while steps.taken < task.training.steps:
            seconds += steps.timed_s(min(look_every, task.training.steps - steps.taken))
            model = Model(task.field, task.shape, task.mode, steps.arrays(), {})
            drawn = render(
                model, task.shape.width, task.shape.height, device=device, threads=threads
            )
            wrong = wrong_pixels(as_seen(drawn), task.values)
            if wrong == 0 and first is None:
                first, until_first_s = steps.taken, seconds
        return first, until_first_s, wrong, fit_db(steps.arrays(), task, device)


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        main()
