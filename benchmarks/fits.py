"""Measures fits of images: dB, seconds, and the stability at the end of the training.

    python benchmarks/fits.py --pictures kodak/*.png --output fits.md
    python benchmarks/fits.py --config benchmarks/configs/sizes.yaml --fields hashgrid_400k \
        --pictures kodak/*.png

The networks are those of configs/photographs.yaml or of another config, with changed settings as in
`--fields "hashgrid_180k steps=100"`, or presets. "lost at the end" is the largest drop of the whole
image's dB below the best value so far within the last tenth of the steps, in which it is measured
`--looks` times. Seconds are those of the steps alone.
"""

import argparse
from pathlib import Path

import numpy as np
import yaml
from measuring.command_line import new_parser, start
from measuring.environment import describe
from measuring.field_runs import LOOKS, Fit, fit
from measuring.measure import Report, markdown_table
from measuring.preset_network import PresetNetwork

from neuralfield.images import ImageData, read_image, resize_image
from neuralfield.system.device import select_device

CONFIG = Path(__file__).parent / "configs" / "photographs.yaml"

_HEADER = ["network", "image", "parameters", "steps", "seconds", "fit, dB", "lost at the end, dB"]


def main(arguments: argparse.Namespace) -> int:
    """Measure each network on each image, and the means; for "lost", report the worst image."""
    names = arguments.fields or yaml.safe_load(arguments.config.read_text())["fields"]
    networks = [PresetNetwork.read(name, arguments.config) for name in names]
    images = {path.stem: _read_reduced(path, arguments.side) for path in arguments.pictures}
    device, report = select_device(arguments.device), Report()
    lines = []
    for network in networks:
        rows = []
        for image_name, image in images.items():
            settings = network.settings(image)
            rows.append(fit(image, *settings, device, arguments.threads, arguments.looks))
            report.add("fits", image_name, network.text, **rows[-1]._asdict())
            lines.append(_line(network.text, image_name, rows[-1]))
        means = Fit(*np.mean(rows, axis=0).tolist())
        whole = means._replace(lost_db=max(row.lost_db for row in rows))
        lines.append(_line(f"**{network.text}**", "mean, and the most lost", whole))
    report.tables.append(markdown_table(_HEADER, lines))
    found = describe(device) | {"looks at the last tenth of the steps": arguments.looks}
    return report.publish(found, arguments.output)


def _read_reduced(path: Path, side_px: int | None) -> ImageData:
    """Read an image, its longer side reduced to `side_px` if it is larger."""
    image = read_image(path)
    if side_px is None or side_px >= max(image.width, image.height):
        return image
    return resize_image(image, side_px)


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
    add("--config", type=Path, default=CONFIG, help="YAML file with the networks")
    add("--fields", nargs="+", help="names in the config, with changed settings (default: all)")
    add("--looks", type=int, default=LOOKS, help="measurements in the last tenth of the steps")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
