"""Make a time-lapse of a training from its snapshots."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from entry.job import run_job
from neuralfield.images import read_made_image
from neuralfield.images.image import MODES
from neuralfield.images.metrics import as_seen, finite_db, psnr_db
from neuralfield.images.timelapse import choose_steps, label_frame, to_frame, write_timelapse
from neuralfield.rendering.render import choose_samples, render, size_for_longer_side
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.device import select_device
from neuralfield.system.provenance import measured, saved_step
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import load_trained, load_trained_snapshot
from neuralfield.training.history import nearest_measured, read_history

MOST_SAMPLES = 2
"""Maximum number of samples per pixel of a frame: more would take minutes without a visible
difference."""


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
    """
    snapshots = dict(list_snapshots(checkpoints))
    finished = load_trained(model)
    last_step = saved_step(model, finished.metadata)
    snapshots[last_step] = model
    # with `keep_best`, the saved network may be of an earlier step than the last one
    steps = choose_steps(sorted(step for step in snapshots if step <= last_step), frames)
    learning = read_history(history)
    width, height = size_for_longer_side(finished, size)
    place = select_device(device)
    # metrics.json need not exist: measuring on a GPU is faster than waiting for another job
    final_psnr_db = measured(model, "psnr_db")
    if final_psnr_db is None and resized and isinstance(finished, Model):
        truth = as_seen(read_made_image(resized, MODES[finished.channels]).values())
        sides = finished.width, finished.height
        rendered = render(finished, *sides, device=place, threads=threads)
        final_psnr_db = finite_db(psnr_db(as_seen(rendered), truth))

    def frame_of(step: int) -> np.ndarray:
        snapshot = load_trained_snapshot(snapshots[step], step, finished)
        samples = min(choose_samples(snapshot, width, height), MOST_SAMPLES)
        values = render(
            snapshot, width, height, samples=samples, only_edges=True, device=place, threads=threads
        )
        reached_db = final_psnr_db if step == last_step else None
        if reached_db is None:
            reached_db = nearest_measured(learning, step)
        frame = to_frame(values)
        return label_frame(frame, f"step {step:,}  {reached_db:.1f} dB") if label else frame

    # frames are rendered once for all formats, while earlier frames are written
    renderer = ThreadPoolExecutor(1)
    try:
        rendered = [renderer.submit(frame_of, step) for step in steps]
        for output in outputs:
            film = (frame.result() for frame in rendered)
            write_timelapse(output, film, frames_per_second)
    finally:
        renderer.shutdown(cancel_futures=True)


if __name__ == "__main__":
    run_job(main)
