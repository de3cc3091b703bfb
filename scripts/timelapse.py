"""Make a time-lapse of a training from its snapshots."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from entry.job import run_job
from neuralfield.images import ImageData, read_made_image, resize_image
from neuralfield.images.image import MODES
from neuralfield.images.metrics import as_seen, finite_db, psnr_db
from neuralfield.images.timelapse import choose_steps, label_frame, to_frame, write_timelapse
from neuralfield.rendering.render import choose_samples, render, size_for_longer_side
from neuralfield.system.checkpoint import list_snapshots, snapshot_path
from neuralfield.system.device import select_device
from neuralfield.system.provenance import measured, saved_step
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import load_trained, load_trained_snapshot
from neuralfield.training.history import History, nearest_measured, read_history

MOST_SAMPLES = 2
"""Maximum number of samples per pixel of a frame: more would take minutes without a visible
difference."""

Shown = Callable[[int], tuple[np.ndarray, str]]
"""A function that returns the values of a frame and a part of its label, given the step."""


def main(
    checkpoints: Path,
    model: Path,
    history: Path,
    outputs: list[Path],
    *,
    size: int,
    frames: int,
    frames_per_second: float,
    label: bool = True,
    resized: Path | None = None,
    threads: int = 1,
    device: str = "auto",
) -> None:
    """Render up to `frames` snapshots and write them as a time-lapse in each format of `outputs`.

    The steps are evenly spaced in their logarithm, because a network improves most at the
    beginning. Labels show the PSNR, which is estimated from `history`. The PSNR of the last frame
    is that of the metrics.json beside the network, or else it is measured against the image
    `resized`, if that is given.

    Of a coded image, frames are what a decoder would show of a file of each step, enlarged by
    Lanczos; labels show its PSNR against `resized`, which is needed, and its bits per pixel.
    """
    snapshots, learning = dict(list_snapshots(checkpoints)), read_history(history)
    if model.suffix == ".nfz" and resized:
        last_step = int(learning["step"][-1])
        shown = _decoded(model, checkpoints, last_step, resized, size)
    else:
        last_step = saved_step(model, load_trained(model).metadata)
        snapshots[last_step] = model
        shown = _rendered(model, snapshots, learning, resized, size, device, threads)
    # with `keep_best`, the saved network may be of an earlier step than the last one
    steps = choose_steps(sorted(step for step in snapshots if step <= last_step), frames)

    def frame_of(step: int) -> np.ndarray:
        values, quality = shown(step)
        frame = to_frame(values)
        return label_frame(frame, f"step {step:,}  {quality}") if label else frame

    # frames are rendered once for all formats, while earlier frames are written
    renderer = ThreadPoolExecutor(1)
    try:
        rendered = [renderer.submit(frame_of, step) for step in steps]
        for output in outputs:
            film = (frame.result() for frame in rendered)
            write_timelapse(output, film, frames_per_second)
    finally:
        renderer.shutdown(cancel_futures=True)


def _rendered(
    model: Path,
    snapshots: Mapping[int, Path],
    learning: History,
    resized: Path | None,
    size: int,
    device: str,
    threads: int,
) -> Shown:
    """Return the function for a network that is rendered at any size."""
    finished, place = load_trained(model), select_device(device)
    width, height = size_for_longer_side(finished, size)
    # metrics.json need not exist: measuring on a GPU is faster than waiting for another job
    final_psnr_db = measured(model, "psnr_db")
    if final_psnr_db is None and resized and isinstance(finished, Model):
        truth = as_seen(read_made_image(resized, MODES[finished.channels]).values())
        sides = finished.width, finished.height
        rendered = render(finished, *sides, device=place, threads=threads)
        final_psnr_db = finite_db(psnr_db(as_seen(rendered), truth))

    def shown(step: int) -> tuple[np.ndarray, str]:
        snapshot = load_trained_snapshot(snapshots[step], step, finished)
        samples = min(choose_samples(snapshot, width, height), MOST_SAMPLES)
        values = render(
            snapshot, width, height, samples=samples, only_edges=True, device=place, threads=threads
        )
        reached_db = final_psnr_db if snapshots[step] == model else None
        if reached_db is None:
            reached_db = nearest_measured(learning, step)
        return values, f"{reached_db:.1f} dB"

    return shown


def _decoded(coded: Path, checkpoints: Path, last_step: int, resized: Path, size: int) -> Shown:
    """Return the function for a coded image."""
    # imported here, because they import Numba, which takes time
    from neuralfield.api.decoding import content_of
    from neuralfield.coding import nfz
    from neuralfield.coding.decoding import pixels_of
    from neuralfield.tasks.bits.bits_model import BitsModel
    from neuralfield.training.coding import coded_snapshot

    finished = nfz.from_bytes(*content_of(coded))
    trained = BitsModel.load(snapshot_path(checkpoints, last_step))
    truth = as_seen(read_made_image(resized, trained.mode).values())

    def shown(step: int) -> tuple[np.ndarray, str]:
        image = finished
        if step < last_step:
            snapshot = trained.load_snapshot(snapshot_path(checkpoints, step), step)
            image = coded_snapshot(snapshot, finished)
        pixels = ImageData(pixels_of(image), trained.mode, 8)
        reached_db = finite_db(psnr_db(as_seen(pixels.values()), truth))
        bits_per_pixel = 8 * len(nfz.to_bytes(image)) / (image.width * image.height)
        quality = f"{reached_db:.1f} dB  {bits_per_pixel:.2f} bpp"
        return resize_image(pixels, size, "lanczos").values(), quality

    return shown


if __name__ == "__main__":
    run_job(main)
