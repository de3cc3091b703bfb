"""Measures fits of images: dB, seconds, and the stability at the end of the training.

    python benchmarks/fits.py --pictures kodak/*.png --output fits.md

The networks are those of configs/photographs.yaml, or of another config. "lost at the end" is the
largest drop of the whole image's dB below the best value so far within the last tenth of the steps,
in which it is measured `--looks` times. Seconds are those of the steps alone.
"""

import argparse
from pathlib import Path

import numpy as np
from measuring.command_line import new_parser, start
from measuring.config_networks import ConfigNetworks
from measuring.environment import describe
from measuring.field_runs import LOOKS, Fit, fit, read_reduced
from measuring.measure import Report, markdown_table

from neuralfield.system.device import select_device

CONFIG = Path(__file__).parent / "configs" / "photographs.yaml"

_HEADER = ["network", "image", "parameters", "steps", "seconds", "fit, dB", "lost at the end, dB"]


def main(arguments: argparse.Namespace) -> int:
    """Measure each network on each image, and the means; for "lost", report the worst image."""
    networks = ConfigNetworks.chosen(arguments)
    images = {path.stem: read_reduced(path, arguments.side) for path in arguments.pictures}
    device, report = select_device(arguments.device), Report()
    lines = []
    for name in networks.names:
        rows = []
        for image_name, image in images.items():
            field, training = networks.settings(name, image)
            rows.append(fit(image, field, training, device, arguments.threads, arguments.looks))
            report.add("fits", image_name, name, **rows[-1]._asdict())
            lines.append(_line(name, image_name, rows[-1]))
        means = Fit(*np.mean(rows, axis=0).tolist())
        whole = means._replace(lost_db=max(row.lost_db for row in rows))
        lines.append(_line(f"**{name}**", "mean, and the most lost", whole))
    report.tables.append(markdown_table(_HEADER, lines))
    found = describe(device) | {"looks at the last tenth of the steps": arguments.looks}
    return report.publish(found, arguments.output)


def _line(network: str, image: str, found: Fit) -> list[str]:
    """Return a line of the table."""
    return [
        *(network, image, f"{found.parameters:,.0f}", f"{found.steps:,.0f}"),
        *(f"{found.seconds:.1f}", f"{found.db:.2f}", f"{found.lost_db:.2f}"),
    ]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads", "output")
    add = parser.add_argument
    add("--pictures", nargs="+", type=Path, required=True, help="image files")
    add("--side", type=int, help="reduce longer sides to this many pixels")
    ConfigNetworks.add_options(parser, CONFIG)
    add("--looks", type=int, default=LOOKS, help="measurements in the last tenth of the steps")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
