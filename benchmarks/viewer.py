"""Counts what a viewer computes for a point, and times it on a software renderer.

    python benchmarks/viewer.py

prints the tables of docs/viewer.md: operations by counting, in the passes that a GPU gets; the
time to the first image, the frames of a moving view and the points that refine a still one, in a
headless Chromium that renders on the processor. `--results results` adds those of
its pages: their bytes, and how near their rounded snapshots are to the exact ones.
"""

import argparse
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
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render, size_for_longer_side
from neuralfield.system.checkpoint import snapshot_path
from neuralfield.system.device import HOST
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.image_model import load_model, save_model

SIDE_PX = 200
COMPARED_SNAPSHOTS = 6
MIDDLE = (0.375, 0.375, 0.625, 0.625)

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
  const end = performance.now() + a[0];
  let [frames, longest, last] = [0, 0, performance.now()];
  while (performance.now() < end) {
    viewer.look({ x: viewer.state.x + 0.31, zoom: viewer.state.zoom * 1.01 });
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    [frames, longest, last] = [frames + 1, Math.max(longest, now - last), now];
  }
  return [(1000 * frames) / a[0], longest];
})()"""
"""Frames a second while the view moves and zooms, and milliseconds of the longest one."""

STILL = """(async () => {
  const points = viewer.tiles.gpu.points;
  await new Promise((end) => setTimeout(end, a[0]));
  return (1000 * (viewer.tiles.gpu.points - points)) / a[0];
})()"""
"""Points a second that refine a view which is still."""


def write_page(folder: Path, description: dict[str, Any]) -> Path:
    """Write the page of a network with fresh weights."""
    settings, shape = field_settings(description), ImageShape(SIDE_PX, SIDE_PX, 3)
    network = build_field(settings, shape).to(HOST, "float32")
    model, image = folder / "model.safetensors", folder / "resized.png"
    save_model(model, network, settings, shape, "rgb", {"step": 0})
    Image.fromarray(np.zeros((SIDE_PX, SIDE_PX, 3), np.uint8)).save(image)
    view.main(model, image, image, folder / "view.html", image="image", field="network")
    return folder / "view.html"


def measure(page: Page, path: Path, seconds: float) -> list[Any]:
    """Count what a GPU does for a point, and time the software renderer."""
    page.open(path, "#gpu", wait=False)
    page.wait("window.viewer && viewer.tiles")
    gpu = "viewer.tiles.gpu"
    counts = page.run(f"[{gpu}.passes.length, {gpu}.cost, {gpu}.texelReads]")
    page.open(path, wait=False)
    page.wait("window.viewer && viewer.tiles && document.getElementById('preview').hidden")
    first_s = page.run("performance.now() / 1000")
    before_s = page.processor_s()
    frames, longest_ms = page.run(MOVING, 1000 * seconds)
    frame_ms = 1000 * (page.processor_s() - before_s) / (frames * seconds)
    still = page.run(STILL, 1000 * seconds)
    return [
        *counts,
        f"{first_s:.1f}",
        f"{frames:.0f}",
        f"{frame_ms:.0f}",
        f"{longest_ms:.0f}",
        f"{still / 1e3:.0f}",
    ]


def fidelity(page: Page, path: Path) -> tuple[int, str]:
    """Return how many networks a page has, and how near some are to the snapshots kept."""
    page.open(path, wait=False)
    page.wait("window.viewer && viewer.tiles")
    labels = page.run("JSON.parse(document.getElementById('page').textContent).snapshots")
    steps = [int(found["label"].split()[1].replace(",", "")) for found in labels]
    nearness_db = []
    for number in np.linspace(0, len(steps) - 2, COMPARED_SNAPSHOTS).astype(int):
        model = load_model(snapshot_path(path.parent / "checkpoints", steps[number]))
        width, height = size_for_longer_side(model, max(model.width, model.height) // 4, MIDDLE)
        exact = render(model, width, height, box=MIDDLE, device=HOST)
        about = {"width": width, "height": height, "box": MIDDLE, "snapshot": int(number)}
        shown = np.array(page.run("[...(await viewer.pixels(a[0]))]", about)) / 255
        shown = shown.reshape(height, width, 4)[..., : model.channels]
        nearness_db.append(psnr_db(shown, exact))
    return len(steps), f"{min(nearness_db):.0f} to {max(nearness_db):.0f}"


def main(arguments: argparse.Namespace) -> None:
    """Print the tables."""
    if reason := missing_reason():
        raise ConfigError("viewer", reason, "a browser to measure in")
    print_header(
        *("network", "passes", "products", "texels read", "first image, s", "frames/s"),
        "processor ms/frame",
        *("longest frame, ms", "1,000 points/s when still"),
    )
    with chromium() as page, TemporaryDirectory() as folder:
        page.look(*arguments.screen)
        for name, description in NETWORKS.items():
            path = write_page(Path(folder), description)
            passes, products, reads, *times = measure(page, path, arguments.seconds)
            print_row(name, passes, f"{products:,}", f"{reads:,}", *times)
        if arguments.results:
            print_header("page", "bytes", "networks on the slider", "snapshots, dB to exact")
        for path in sorted(arguments.results.glob("*/*/view.html")) if arguments.results else ():
            page.look(160, 240)  # a view that is soon refined
            name = "/".join(path.parts[-3:-1])
            print_row(name, f"{path.stat().st_size:,}", *fidelity(page, path))


if __name__ == "__main__":
    parser = new_parser(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of moving, for each network")
    parser.add_argument("--screen", type=int, nargs=2, default=(1920, 1080), help="of the page, px")
    parser.add_argument("--results", type=Path, help="folder of results whose pages are listed")
    start(main, parser)
