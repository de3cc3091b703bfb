"""Make a film of a network learning its picture, out of the snapshots kept on the way."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from neuralfield.checkpoint import list_snapshots
from neuralfield.device import select_device
from neuralfield.errors import CheckpointError, InputError
from neuralfield.film import label_frame, to_frame, write_film
from neuralfield.history import read_history
from neuralfield.images import read_facts, require_picture
from neuralfield.mosaic import Trained, load_trained, load_trained_snapshot
from neuralfield.render import choose_samples, render, size_for_longer_side

if TYPE_CHECKING:
    from job import snakemake

MOST_SAMPLES = 2
"""A film is looked at in passing: more than this costs minutes and is not seen."""


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
    facts: Path | None = None,
    threads: int = 1,
    device: str = "auto",
) -> None:
    """Draw up to `frames` snapshots and write them as one film in each format of `outputs`.

    The steps are spread evenly in their logarithm, because a network learns most at the
    beginning; the first snapshot and the finished model are always there.

    Parameters
    ----------
    checkpoints : Path
        Folder of snapshots.
    model : Path
        The finished network: the last frame.
    history : Path
        CSV with the columns ``step`` and ``psnr_db``, for the labels.
    outputs : list of Path
        Films to write; the suffix chooses the format.
    size : int
        Longer side of the film, in pixels.
    facts : Path, optional
        JSON that says what the picture is, see ``resize.py``: another picture's network is refused.

    Raises
    ------
    CheckpointError, InputError
        A file is damaged, or belongs to another picture, training or step.
    """
    snapshots = dict(list_snapshots(checkpoints))
    finished = load_trained(model)
    if facts:
        require_picture(model, finished.metadata.get("picture"), read_facts(facts))
    snapshots[step_of(finished, model)] = model
    steps = choose_steps(sorted(snapshots), frames)
    learning = read_history(history)
    width, height = size_for_longer_side(finished, size)
    place = select_device(device)

    # Drawing is the costly part: it is done once, for all formats.
    film = []
    for step in steps:
        snapshot = load_trained_snapshot(snapshots[step], step, finished)
        samples = min(choose_samples(snapshot, width, height), MOST_SAMPLES)
        values = render(snapshot, width, height, samples=samples, device=place, threads=threads)
        frame = to_frame(values)
        film.append(label_frame(frame, label_of(step, learning)) if label else frame)
    for output in outputs:
        write_film(output, film, frames_per_second)


def step_of(finished: Trained, path: Path) -> int:
    """How many steps a trained network has behind it."""
    step = finished.metadata.get("step")
    if type(step) is not int or step < 0:
        raise CheckpointError(str(path), f"step {step!r}", "a network that was trained here")
    return step


def choose_steps(available: list[int], count: int) -> list[int]:
    """Pick up to `count` of the sorted steps, evenly spread in their logarithm.

    Examples
    --------
    >>> choose_steps([0, 1, 2, 5, 10, 20, 50, 100], 4)
    [0, 5, 20, 100]
    """
    if not available:
        raise InputError("time-lapse", "no snapshots", "at least one")
    if count >= len(available):
        return available
    positions = np.log1p(available)
    wanted = np.linspace(positions[0], positions[-1], max(count, 2))
    nearest = np.abs(positions[None, :] - wanted[:, None]).argmin(axis=1)
    return [available[index] for index in np.unique(nearest)]


def label_of(step: int, learning: pd.DataFrame) -> str:
    """Say the step and the PSNR measured nearest to it."""
    measured = learning.dropna(subset="psnr_db")
    nearest = (measured["step"] - step).abs().to_numpy().argmin()
    return f"step {step:,}  {measured['psnr_db'].iloc[nearest]:.1f} dB"


if __name__ == "__main__":
    from job import run_job

    run_job(
        main,
        snakemake,
        checkpoints=Path(snakemake.input.checkpoints),
        model=Path(snakemake.input.model),
        facts=Path(snakemake.input.facts),
        history=Path(snakemake.input.history),
        outputs=[Path(path) for path in snakemake.output],
        size=snakemake.params.size,
        frames=snakemake.params.frames,
        frames_per_second=snakemake.params.frames_per_second,
        label=snakemake.params.label,
        device=snakemake.params.device,
        threads=snakemake.threads,
    )
