"""Make a time-lapse of a training from its snapshots."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

from entry.job import run_job
from neuralfield.images.timelapse import choose_steps, label_frame, to_frame, write_timelapse
from neuralfield.rendering.snapshot_images import decoded_snapshots, rendered_snapshots
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.device import select_device
from neuralfield.system.provenance import saved_step
from neuralfield.tasks.image.mosaic import load_trained
from neuralfield.training.history import read_history


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
    """Write up to `frames` snapshots as a time-lapse in each format of `outputs`.

    `model` is a network, or the file of a coded image, for which `resized`, the training image, is
    needed. The steps are evenly spaced in their logarithm, because a network improves most at the
    beginning. For images and labels see `neuralfield.rendering.snapshot_images`.
    """
    snapshots, learning = dict(list_snapshots(checkpoints)), read_history(history)
    if model.suffix == ".nfz" and resized:
        last_step = int(learning["step"][-1])
        image_of = decoded_snapshots(model, checkpoints, last_step, resized, size)
    else:
        last_step = saved_step(model, load_trained(model).metadata)
        snapshots[last_step] = model
        place = select_device(device)
        image_of = rendered_snapshots(model, snapshots, learning, resized, size, place, threads)
    # with `keep_best`, the saved network may be of an earlier step than the last one
    steps = choose_steps(sorted(step for step in snapshots if step <= last_step), frames)

    def frame_of(step: int) -> np.ndarray:
        values, quality = image_of(step)
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


if __name__ == "__main__":
    run_job(main)
