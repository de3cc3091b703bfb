"""The images of a training's snapshots, and their quality, as a time-lapse shows them."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from neuralfield.images import ImageData, read_made_image, resize_image
from neuralfield.images.image import MODES
from neuralfield.images.metrics import as_seen, finite_db, psnr_db
from neuralfield.rendering.render import choose_samples, render, size_for_longer_side
from neuralfield.system.checkpoint import snapshot_path
from neuralfield.system.device import Device
from neuralfield.system.provenance import measured
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import load_trained, load_trained_snapshot
from neuralfield.training.history import History, nearest_measured

ImageOfStep = Callable[[int], tuple[np.ndarray, str]]
"""A function that returns the image of a step, shape (h, w, c), and its quality in words."""

_MOST_SAMPLES = 2
"""Maximum number of samples per pixel: more would take minutes without a visible difference."""


def rendered_snapshots(
    model: Path,
    snapshots: Mapping[int, Path],
    history: History,
    resized: Path | None,
    size_px: int,
    device: Device,
    threads: int,
) -> ImageOfStep:
    """Return the function for a network, with `size_px` pixels on the longer side.

    The PSNR is that of `history` at the step. That of the finished network `model` is the one in
    the metrics.json beside it, or else it is measured against the image `resized`, if that is
    given.
    """
    finished = load_trained(model)
    width, height = size_for_longer_side(finished, size_px)
    # metrics.json need not exist: measuring on a GPU is faster than waiting for another job
    final_db = measured(model, "psnr_db")
    if final_db is None and resized and isinstance(finished, Model):
        truth = as_seen(read_made_image(resized, MODES[finished.channels]).values())
        sides = finished.width, finished.height
        rendered = render(finished, *sides, device=device, threads=threads)
        final_db = finite_db(psnr_db(as_seen(rendered), truth))

    def image_of(step: int) -> tuple[np.ndarray, str]:
        snapshot = load_trained_snapshot(snapshots[step], step, finished)
        samples = min(choose_samples(snapshot, width, height), _MOST_SAMPLES)
        options = {"device": device, "threads": threads, "only_edges": True}
        values = render(snapshot, width, height, samples=samples, **options)
        is_known = snapshots[step] == model and final_db is not None
        reached_db = final_db if is_known else nearest_measured(history, step)
        return values, f"{reached_db:.1f} dB"

    return image_of


def decoded_snapshots(
    coded: Path, checkpoints: Path, last_step: int, resized: Path, size_px: int
) -> ImageOfStep:
    """Return the function for a coded image: what a decoder would show of a file of each step.

    Images are enlarged by Lanczos to `size_px` pixels on the longer side. The PSNR is measured
    against the image `resized`, and beside it are the bits per pixel of the file.
    """
    # imported here, because they import Numba, which takes time
    from neuralfield.coding import nfz
    from neuralfield.coding.decoding import pixels_of
    from neuralfield.tasks.bits.bits_model import BitsModel
    from neuralfield.training.coding import coded_snapshot

    finished = nfz.from_bytes(coded.read_bytes(), str(coded))
    trained = BitsModel.load(snapshot_path(checkpoints, last_step))
    truth = as_seen(read_made_image(resized, trained.mode).values())

    def image_of(step: int) -> tuple[np.ndarray, str]:
        image = finished
        if step < last_step:
            snapshot = trained.load_snapshot(snapshot_path(checkpoints, step), step)
            image = coded_snapshot(snapshot, finished)
        pixels = ImageData(pixels_of(image), trained.mode, 8)
        reached_db = finite_db(psnr_db(as_seen(pixels.values()), truth))
        bits_per_pixel = 8 * len(nfz.to_bytes(image)) / (image.width * image.height)
        quality = f"{reached_db:.1f} dB  {bits_per_pixel:.2f} bpp"
        return resize_image(pixels, size_px, "lanczos").values(), quality

    return image_of
