"""Teach a network a picture: a whole training, or one segment of it."""

import logging
import os
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from neuralfield.device import available_cores, require_cores, select_device
from neuralfield.fields import network_settings
from neuralfield.fit import Run, fit, publish_results, publish_segment
from neuralfield.heat import guard_card
from neuralfield.images import read_facts, read_pixel_csv, require_picture
from neuralfield.time_limit import leaving_time_s
from neuralfield.training import PictureTraining
from neuralfield.upscaling_task import picture_task

if TYPE_CHECKING:
    from job import snakemake

log = logging.getLogger(__name__)

SECONDS_BETWEEN_LINES = 5.0
"""In the log; the history has all rows."""

HOW_AND_WHERE = (
    *("device", "engine", "threads", "checkpoint_interval_s", "segments"),
    *("time_limit_s", "time_margin_s", "max_temperature_celsius"),
)
"""Settings of the section `training` that are not of the training itself."""


class Progress:
    """How far a training is: lines in the log, and a bar where somebody looks on.

    Parameters
    ----------
    name : str
    steps : int
        All there are.
    """

    def __init__(self, name: str, steps: int) -> None:
        self.name, self.steps = name, steps
        self.next_line_s = 0.0
        self.bar = tqdm(
            total=steps,
            desc=name,
            unit="step",
            leave=False,
            disable=not sys.stderr.isatty(),
            dynamic_ncols=True,
        )

    def __call__(self, row: Mapping[str, float]) -> None:
        """Take note of a row of the history."""
        step, psnr_db = int(row["step"]), row["psnr_db"]
        if time.monotonic() >= self.next_line_s or step == self.steps:
            self.next_line_s = time.monotonic() + SECONDS_BETWEEN_LINES
            log.info(
                f"step {step:,} of {self.steps:,}: loss {row['loss']:.6g}, {psnr_db:.2f} dB,"
                f" {row['seconds']:.1f} s"
            )
        self.bar.set_postfix_str(f"{psnr_db:.1f} dB", refresh=False)
        self.bar.update(step - self.bar.n)

    def say(self, line: str) -> None:
        """Tell the user something, here and in the log."""
        log.info(line)
        tqdm.write(f"{self.name}: {line}", file=sys.stderr)

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        self.bar.close()


def main(
    pixels: Path,
    facts: Path,
    *,
    field: Mapping[str, Any],
    training: Mapping[str, Any],
    state: Path,
    threads: int,
    name: str,
    model: Path | None = None,
    history: Path | None = None,
    record: Path | None = None,
    checkpoints: Path | None = None,
    segment_folder: Path | None = None,
    segment: int = 1,
    earlier_segment: Path | None = None,
) -> None:
    """Train until the end of a segment; the last one writes the network.

    Parameters
    ----------
    pixels : Path
        CSV with a row for each pixel.
    facts : Path
        JSON that says what the picture is, see ``resize.py``.
    field, training : mapping
        Settings of the network and of its training.
    state : Path
        Folder to resume from, and to leave the state in; each segment has its own part of it.
    threads : int
        Cores to use.
    name : str
        What the bar is called.
    model, history, record, checkpoints : Path
        What the last segment writes.
    segment_folder : Path, optional
        What an earlier one writes, instead.
    segment : int
        Its number, from 1.
    earlier_segment : Path, optional
        Folder of the one before it.
    """
    leave_at_s = leaving_time_s(
        training.get("time_limit_s"),
        training["time_margin_s"],
        os.environ,
        started_s=time.monotonic(),
    )
    if "threads" in training:  # --cores may have lowered what it was asked for
        require_cores(training["threads"])
    about = read_facts(facts)
    mode = about["source"]["mode"]
    settings = {key: value for key, value in training.items() if key not in HOW_AND_WHERE}
    task = picture_task(
        read_pixel_csv(pixels).values,
        mode,
        network_settings(with_output(field, mode, training["loss"])),
        PictureTraining.from_mapping(settings),
    )
    require_picture(pixels, task.picture, about)
    with Progress(name, task.training.steps) as progress:
        device = select_device(training["device"])
        run = Run(
            device,
            state / f"segment_{segment}",
            training["engine"],
            min(threads, available_cores()),  # more may have been said on the command line
            training["checkpoint_interval_s"],
            progress,
            progress.say,
            leave_at_s,
            guard_card(training.get("max_temperature_celsius"), device, progress.say),
        )
        if segment_folder:
            publish = partial(publish_segment, segment_folder=segment_folder)
        else:
            assert model and history and checkpoints and record
            publish = partial(
                publish_results,
                model=model,
                history=history,
                checkpoints=checkpoints,
                record=record,
                run=run,
            )
        fit(
            task,
            run,
            publish,
            until_step=task.training.steps * segment // training["segments"],
            earlier_segment=earlier_segment,
        )


def with_output(field: Mapping[str, Any], mode: str, loss: str) -> dict[str, Any]:
    """A field's settings with its output chosen.

    Black and white wants steep edges, and binary cross-entropy wants probabilities.
    """
    if field.get("output") != "auto":
        return dict(field)
    is_probability = mode == "bilevel" or loss == "binary_cross_entropy"
    return {**field, "output": "sigmoid" if is_probability else "linear"}


if __name__ == "__main__":
    from job import run_job

    outputs = {name: Path(path) for name, path in snakemake.output.items()}
    training = snakemake.config["fields"][snakemake.wildcards.field]["training"]
    run_job(
        main,
        snakemake,
        pixels=Path(snakemake.input.pixels),
        facts=Path(snakemake.input.facts),
        field=snakemake.params.field,
        training=training,
        state=Path(snakemake.params.state),
        threads=snakemake.threads,
        name=", ".join(
            snakemake.wildcards[key]
            for key in ("image", "field", "tile")
            if key in snakemake.wildcards.keys()  # noqa: SIM118
        ),
        segment=int(snakemake.wildcards.get("segment", training["segments"])),
        earlier_segment=next(map(Path, snakemake.input.earlier), None),
        **outputs,
    )
