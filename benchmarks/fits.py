"""How closely networks fit pictures: dB, seconds, and how steady the end of the training is.

    PYTHONPATH=scripts:workflow python benchmarks/fits.py --pictures kodak/*.png --output fits.md

Networks are those of photographs.yaml, or of another config. "lost at the end" is how far the whole
picture's dB falls below its best so far within the last tenth of the steps, at the most; `--looks`
says how often it is looked at there. Seconds are of the steps alone.
"""

import argparse
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.config_networks import ConfigNetworks
from measuring.environment import describe
from measuring.measure import Report, markdown_table
from measuring.ours import TrainingSteps, fit_db, lost_db
from threadpoolctl import threadpool_limits

from neuralfield.fields import field_settings
from neuralfield.images import Picture
from neuralfield.images.reading import read_picture
from neuralfield.images.resizing import resize_picture
from neuralfield.system.device import Device, available_cores, select_device
from neuralfield.tasks.image.image_task import PictureTask
from neuralfield.tasks.training_settings import PictureTraining

CONFIG = Path(__file__).parent / "configs" / "photographs.yaml"
LOOKS = 10
"""In the last tenth of a training."""

_HEADER = ["network", "picture", "parameters", "steps", "seconds", "fit, dB", "lost at the end, dB"]


class Fit(NamedTuple):
    """What a network reached on the pixels it was taught.

    Attributes
    ----------
    parameters, steps : float
    seconds : float
        Of the steps alone.
    db : float
    lost_db : float
        How far it fell below its best so far within the last tenth of the steps, at the most.
    """

    parameters: float
    steps: float
    seconds: float
    db: float
    lost_db: float


def main() -> int:
    """Measure each network on each picture, and their means; "lost" in the worst picture."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pictures", nargs="+", type=Path, required=True)
    parser.add_argument("--side", type=int, help="longer side in px, if larger; default: as it is")
    ConfigNetworks.add_options(parser, CONFIG)
    parser.add_argument("--looks", type=int, default=LOOKS, help="at the last tenth of the steps")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--threads", type=int, default=available_cores())
    parser.add_argument("--output", type=Path, help="Markdown file; a JSON file is put beside it")
    arguments = parser.parse_args()
    networks = ConfigNetworks.chosen(arguments)
    pictures = {path.stem: picture_of(path, arguments.side) for path in arguments.pictures}
    device, report = select_device(arguments.device), Report()
    lines = []
    for name in networks.names:
        rows = []
        for picture_name, picture in pictures.items():
            field, training = networks.settings(name, picture)
            threads, looks = arguments.threads, arguments.looks
            rows.append(fit(picture, field, training, device, threads, looks))
            report.add("fits", picture_name, name, **rows[-1]._asdict())
            lines.append(_line(name, picture_name, rows[-1]))
        means = Fit(*np.mean(rows, axis=0).tolist())
        whole = means._replace(lost_db=max(row.lost_db for row in rows))
        lines.append(_line(f"**{name}**", "mean, and the most lost", whole))
    report.tables.append(markdown_table(_HEADER, lines))
    found = describe(device) | {"looks at the last tenth of the steps": arguments.looks}
    return report.publish(found, arguments.output)


def picture_of(path: Path, side_px: int | None) -> Picture:
    """A picture, its longer side reduced to `side_px` if it is larger."""
    picture = read_picture(path)
    is_larger = side_px is not None and side_px < max(picture.width, picture.height)
    return resize_picture(picture, side_px) if side_px is not None and is_larger else picture


def fit(
    picture: Picture,
    field: dict[str, Any],
    training: dict[str, Any],
    device: Device,
    threads: int,
    looks: int = LOOKS,
) -> Fit:
    """Teach a field a picture, by the engine that suits it, and measure it.

    Parameters
    ----------
    picture : Picture
    field : dict
        Its type and settings.
    training : dict
        Settings of the section `training`.
    device : Device
    threads : int
        Cores to use, on the CPU.
    looks : int
        At the whole picture, in the last tenth of the steps; two at least.
    """
    settings = PictureTraining.from_mapping(training)
    task = PictureTask(picture.values(), picture.mode, field_settings(field), settings)
    seconds, found_db = 0.0, []
    with TrainingSteps(task, device, "auto", threads) as steps:
        shares = [0.0, *np.linspace(0.9, 1, max(2, looks))]
        ends = [round(share * settings.steps) for share in shares]
        for start, end in pairwise(ends):
            seconds += steps.timed_s(end - start)
            found_db.append(fit_db(steps.arrays(), task, device, samples="auto"))
        parameters = steps.trainer.network.parameter_count
    return Fit(parameters, settings.steps, seconds, found_db[-1], lost_db(found_db))


def _line(network: str, picture: str, found: Fit) -> list[str]:
    """Of the table."""
    return [
        *(network, picture, f"{found.parameters:,.0f}", f"{found.steps:,.0f}"),
        *(f"{found.seconds:.1f}", f"{found.db:.2f}", f"{found.lost_db:.2f}"),
    ]


if __name__ == "__main__":
    with threadpool_limits(limits=1):
        sys.exit(main())
