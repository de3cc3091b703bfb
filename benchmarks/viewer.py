"""Counts the operations of the viewer for a point, and times it on a software renderer or a GPU.

    python benchmarks/viewer.py [--gpu] [--pages results/*/*/view.html]

prints the tables of docs/viewer.md: the number of operations, counted in the passes that a GPU
executes; the time to the first tile, the frame rate of a moving view, and the points per
millisecond of a still view. They are measured in a headless Chromium that renders on the processor
or, with `--gpu`, on the GPU through Vulkan. `--pages` also measures the given pages. `--results
results` adds the bytes of the pages in a folder of results, and the errors of their rounded
snapshots.
"""

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from measuring.chromium import GPU, SOFTWARE, BrowserPage, chromium, missing_reason
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
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.presets import read_preset

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
    "mlp original": read_preset("original"),
}

FIRST = """(() => {
  const { gl } = viewer.tiles;
  gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  return performance.now() / 1000;
})()"""
"""Seconds until the GPU has rendered the first tile."""

MOVING = """(async () => {
  const end = performance.now() + a[0];
  const times = [];
  let last = performance.now();
  while (performance.now() < end) {
    viewer.look({ x: viewer.state.x + 0.31, zoom: viewer.state.zoom * 1.01 });
    await new Promise(requestAnimationFrame);
    const now = performance.now();
    times.push(now - last);
    last = now;
  }
  times.sort((x, y) => x - y);
  return [(1000 * times.length) / a[0], times[Math.floor(0.95 * times.length)], times.at(-1)];
})()"""
"""Frames per second while the view moves and zooms, and the 95th percentile and the maximum of the
milliseconds of a frame."""

STILL = """(async () => {
  const { gpu } = viewer.tiles;
  const [start, points] = [performance.now(), gpu.points];
  viewer.look({ x: viewer.state.x + 1, zoom: viewer.state.zoom * 1.07 });
  await new Promise(requestAnimationFrame);
  while (document.body.dataset.ready !== "1" && performance.now() < start + a[0]) {
    await new Promise((end) => setTimeout(end, 5));
  }
  const ms = performance.now() - start;
  return [document.body.dataset.ready === "1" ? ms / 1000 : null, (gpu.points - points) / ms];
})()"""
"""Seconds until a new view is exact, or None after the time limit; and points per millisecond."""

RENDERER = """(() => {
  const about = viewer.tiles.gl.getExtension("WEBGL_debug_renderer_info");
  return viewer.tiles.gl.getParameter(about.UNMASKED_RENDERER_WEBGL);
})()"""

ALONE = """(async () => {
  const { tiles } = viewer;
  const { gl, gpu, store } = tiles;
  const last = store.layout.snapshots;
  const sides = [0.001, 0.001];
  const none = [0, 0, 0, 0];
  const blend = { pixels: none, fades: none, gradients: none };
  const part = { arrays: () => store.arrays(0, last), place: [-1, -1, ...sides], sides, ...blend };
  const parts = [{ key: `0 ${last}`, ...part }];
  const region = { left: 0, top: 0, width: 128, height: 128, parts };
  const tile = tiles.newTile();
  const pixels = Math.ceil(Math.min(65536, gpu.mostPoints, tiles.slice) / 4);
  const run = (count) => {
    const start = performance.now();
    for (let i = 0; i < count; ++i) gpu.run(tile, region, 0, pixels, 4, false);
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
    return performance.now() - start;
  };
  let count = 1;
  while (run(count) < a[0] / 16) count *= 2;
  return (4 * pixels * count) / Math.min(run(count), run(count), run(count));
})()"""
"""Points per millisecond without other work."""


def write_page(folder: Path, name: str) -> Path:
    """Write the page of one of `NETWORKS`, with fresh weights."""
    description = NETWORKS[name]
    settings, shape = field_settings(description), ImageShape(SIDE_PX, SIDE_PX, 3)
    network = build_field(settings, shape).to(HOST, "float32")
    model, image = folder / "model.safetensors", folder / "resized.png"
    Model(settings, shape, "rgb", network.arrays, {"step": 0}).write(model)
    Image.fromarray(np.zeros((SIDE_PX, SIDE_PX, 3), np.uint8)).save(image)
    page = folder / f"{name}.html"
    view.main(model, image, image, page, image="image", field=name)
    return page


def count(page: BrowserPage, path: Path) -> list[int]:
    """Count the passes of WebGL, and its products and texel reads for a point."""
    page.open(path, "#gpu", wait=False)
    page.wait("window.viewer && viewer.tiles")
    gpu = "viewer.tiles.gpu"
    return page.run(f"[{gpu}.passes.length, {gpu}.cost, {gpu}.texelReads]")


def measure(page: BrowserPage, path: Path, seconds: float) -> list[str]:
    """Time the rendering of a page."""
    page.open(path, wait=False)
    page.wait("window.viewer && viewer.tiles && viewer.tiles.finished")
    first_s = page.run(FIRST)
    before_s = page.processor_s()
    frames, usual_ms, longest_ms = page.run(MOVING, 1000 * seconds)
    frame_ms = 1000 * (page.processor_s() - before_s) / (frames * seconds)
    exact_s, still = page.run(STILL, 1000 * seconds)
    alone = page.run(ALONE, 1000 * seconds)
    return [
        f"{first_s:.1f}",
        f"{frames:.0f}",
        f"{frame_ms:.0f}",
        f"{usual_ms:.0f}",
        f"{longest_ms:.0f}",
        f"over {seconds:.0f}" if exact_s is None else f"{exact_s:.2f}",
        f"{still:,.0f}",
        f"{alone:,.0f}",
    ]


def fidelity(page: BrowserPage, path: Path) -> tuple[int, str]:
    """Return the number of networks of a page, and the errors of some against the snapshots."""
    page.open(path, wait=False)
    page.wait("window.viewer && viewer.tiles")
    labels = page.run("JSON.parse(document.getElementById('page').textContent).snapshots")
    steps = [int(found["label"].split()[1].replace(",", "")) for found in labels]
    nearness_db = []
    for number in np.linspace(0, len(steps) - 2, COMPARED_SNAPSHOTS).astype(int):
        model = Model.load(snapshot_path(path.parent / "checkpoints", steps[number]))
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
    with chromium(GPU if arguments.gpu else SOFTWARE) as page, TemporaryDirectory() as folder:
        page.look(*arguments.screen)
        paths = {name: write_page(Path(folder), name) for name in NETWORKS}
        paths |= {"/".join(path.parts[-3:-1]): path for path in arguments.pages}
        print_header("network", "passes", "products", "texels read")
        for name, path in paths.items():
            print_row(name, *(f"{found:,}" for found in count(page, path)))
        print_header(
            *("network", "first tile, s", "frames/s", "processor ms/frame"),
            *("95% of frames, ms", "longest frame, ms", "exact view, s"),
            *("1,000 points/s when still", "alone"),
        )
        for name, path in paths.items():
            print_row(name, *measure(page, path, arguments.seconds))
        print(page.run(RENDERER))
        if arguments.results:
            print_header("page", "bytes", "networks on the slider", "snapshots, dB to exact")
        for path in sorted(arguments.results.glob("*/*/view.html")) if arguments.results else ():
            page.look(160, 240)  # a small view that is refined quickly
            name = "/".join(path.parts[-3:-1])
            print_row(name, f"{path.stat().st_size:,}", *fidelity(page, path))


if __name__ == "__main__":
    parser = new_parser(__doc__)
    parser.add_argument(
        "--seconds", type=float, default=4.0, help="seconds of moving for each network"
    )
    parser.add_argument(
        "--screen", type=int, nargs=2, default=(1920, 1080), help="size of the page in pixels"
    )
    parser.add_argument("--gpu", action="store_true", help="render on this machine's GPU")
    parser.add_argument("--pages", type=Path, nargs="*", default=(), help="further viewers to time")
    parser.add_argument("--results", type=Path, help="folder of results whose pages are listed")
    start(main, parser)
