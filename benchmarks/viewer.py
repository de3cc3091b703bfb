"""What a viewer does for a point, and how fast that is on a software renderer.

    python benchmarks/viewer.py

prints the tables of docs/viewer.md: operations by counting, in the passes that a GPU gets; the
frames of a moving view, and the time until the view is refined, in a headless Chromium that renders
on the processor. `--results results` adds the size of each page there.
"""

import argparse
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measuring.chromium import Page, chromium, missing_reason
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from PIL import Image

import view
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.system.device import HOST
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.image_model import save_model

SIDE_PX = 200
TEMPLATE = Path(__file__).parents[1] / "workflow/viewer/view.html.j2"

NETWORKS: dict[str, dict[str, Any]] = {
    "siren 3x96": {"type": "siren", "width": 96},
    "siren 3x256": {"type": "siren", "width": 256},
    "finer": {"type": "finer"},
    "wire": {"type": "wire"},
    "gauss": {"type": "gauss"},
    "fourier": {"type": "fourier"},
    "hashgrid": {"type": "hashgrid"},
    "cafe": {"type": "cafe"},
    "mlp original": {"type": "mlp", "preset": "original"},
}

MOVING = """(async () => {
  const frames = [], end = performance.now() + a[0];
  let points = viewer.tiles.gpu.points;
  while (performance.now() < end) {
    viewer.look({ x: viewer.state.x + 0.31, zoom: viewer.state.zoom * 1.01 });
    await new Promise(requestAnimationFrame);
    frames.push(performance.now());
  }
  return [frames.length / a[0] * 1000, (viewer.tiles.gpu.points - points) / a[0] * 1000];
})()"""


def write_page(folder: Path, description: dict[str, Any]) -> Path:
    """Write the page of a network with fresh weights."""
    settings, shape = field_settings(description), ImageShape(SIDE_PX, SIDE_PX, 3)
    network = build_field(settings, shape).to(HOST, "float32")
    model, image = folder / "model.safetensors", folder / "resized.png"
    save_model(model, network, settings, shape, "rgb", {"step": 0})
    Image.fromarray(np.zeros((SIDE_PX, SIDE_PX, 3), np.uint8)).save(image)
    view.main(model, image, image, TEMPLATE, folder / "view.html", image="image", field="network")
    return folder / "view.html"


def measure(page: Page, path: Path, seconds: float) -> list[Any]:
    """Count what a GPU does for a point, and time the software renderer."""
    page.open(path, "#gpu", wait=False)
    page.wait("viewer.tiles")
    gpu = "viewer.tiles.gpu"
    counts = page.run(f"[{gpu}.passes.length, {gpu}.cost, {gpu}.texelReads]")
    page.open(path)
    frames, points = page.run(MOVING, 1000 * seconds)
    page.run("viewer.look({ x: 100, y: 100, zoom: 7.3 })")
    began_s = time.monotonic()
    page.wait("document.body.dataset.ready === '1'", 300)
    return [*counts, f"{frames:.0f}", f"{points / 1e3:.0f}", f"{time.monotonic() - began_s:.1f}"]


def main(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    if reason := missing_reason():
        raise ConfigError("viewer", reason, "a browser to measure in")
    print_header(
        *("network", "passes", "products", "texels read", "frames/s", "1,000 points/s"),
        "refined, s",
    )
    with chromium() as page, TemporaryDirectory() as folder:
        page.look(*arguments.screen)
        for name, description in NETWORKS.items():
            path = write_page(Path(folder), description)
            passes, products, reads, *times = measure(page, path, arguments.seconds)
            print_row(name, passes, f"{products:,}", f"{reads:,}", *times)
    for path in sorted(arguments.results.glob("*/*/view.html")) if arguments.results else ():
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    parser = new_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of moving, for each network")
    parser.add_argument("--screen", type=int, nargs=2, default=(640, 480), help="of the page, px")
    parser.add_argument("--results", type=Path, help="folder of results whose pages are listed")
    start(main, parser)
