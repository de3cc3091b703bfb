"""Teach pictures to several networks at once: those of a batch of a sweep."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from entry.training import ProgressBar, logging_kept_results, when_to_leave_s
from neuralfield.system.device import available_cores, require_cores, select_device
from neuralfield.system.heat import guard_card
from neuralfield.system.kept import FOLDER_NAME
from neuralfield.training.fit import fit_batch
from neuralfield.training.loop import Execution, Training
from neuralfield.training.results import publish_results

# they stand beside this file, which Snakemake runs from elsewhere with this folder on the path
from train import read_task

if TYPE_CHECKING:
    from entry.job import snakemake


@dataclass(frozen=True)
class Member:
    """One network of a batch, and the picture that it is taught.

    Attributes
    ----------
    name : str
    pixels, facts : Path
        As in ``train.py``.
    field, training : mapping
        Settings of the network and of its training.
    folder : Path
        Where its outputs go, and its state.
    """

    name: str
    pixels: Path
    facts: Path
    field: Mapping[str, Any]
    training: Mapping[str, Any]
    folder: Path


class BatchProgress(ProgressBar):
    """How far a batch is: one line in the log for all, and one bar.

    Parameters
    ----------
    name : str
    steps : int
        Of each member.
    """

    def __init__(self, name: str, steps: int) -> None:
        super().__init__(name, steps)
        self.rows: dict[str, Mapping[str, float]] = {}

    def add_row(self, row: Mapping[str, float], *, member: str) -> None:
        """Take note of a row of a member's history."""
        self.rows[member] = row
        step = int(min(row["step"] for row in self.rows.values()))
        levels_db = [row["psnr_db"] for row in self.rows.values()]
        quality = f"{min(levels_db):.2f} to {max(levels_db):.2f} dB"
        self.show(step, quality, f"{len(self.rows)} networks, {quality}")


def main(members: Sequence[Member], *, threads: int, name: str) -> None:
    """Train all members, and write their networks and what ``train.py`` writes beside them.

    Parameters
    ----------
    members : sequence of Member
        Their settings differ in what `batches.VARIED` of the workflow names.
    threads : int
        Cores to use: each member has one, or more where there are more cores than members.
    name : str
        What the bar is called.
    """
    training = members[0].training
    leave_at_s = when_to_leave_s(training)
    if "threads" in training:  # --cores may have lowered what it was asked for
        require_cores(training["threads"])
    cores = min(threads, available_cores())
    device = select_device(training["device"])
    kept_folders = [member.folder / FOLDER_NAME for member in members]
    with BatchProgress(name, training["steps"]) as progress, logging_kept_results(kept_folders):
        trainings = []
        heat = guard_card(
            training.get("max_temperature_celsius"), device, partial(progress.say, name=name)
        )
        for member in members:
            run = Execution(
                device,
                member.folder / ".state" / "segment_1",
                training["engine"],
                max(1, cores // len(members)),
                training["checkpoint_interval_s"],
                partial(progress.add_row, member=member.name),
                partial(progress.say, name=member.name),
                leave_at_s,
                heat,
                member.folder / FOLDER_NAME,
            )
            outputs = {
                "model": member.folder / "model.safetensors",
                "history": member.folder / "history.csv",
                "checkpoints": member.folder / "checkpoints",
                "record": member.folder / "training.json",
            }
            publish = partial(publish_results, **outputs, execution=run)
            task = read_task(member.pixels, member.facts, member.field, member.training)
            trainings.append(Training(task, run, publish, name=member.name, outputs=outputs))
        fit_batch(trainings, min(cores, len(members)))


def member_of(model: Path, fields: Mapping[str, Mapping[str, Any]]) -> Member:
    """What is to be known of a network, from the file that it becomes.

    Parameters
    ----------
    model : Path
        ``results/{image}/{field}/model.safetensors``
    fields : mapping
        Settings of all networks by name.
    """
    folder = model.parent
    picture = folder.parent
    field = dict(fields[folder.name])
    training = field.pop("training")
    name = f"{picture.name}, {folder.name}"
    pixels, facts = picture / "pixels.csv", picture / "picture.json"
    return Member(name, pixels, facts, field, training, folder)


if __name__ == "__main__":
    from entry.job import run_job

    members = [
        member_of(Path(model), snakemake.config["fields"]) for model in snakemake.output.models
    ]
    run_job(
        main,
        snakemake,
        members=members,
        threads=snakemake.threads,
        name=f"batch {snakemake.params.batch} of {len(members)}",
    )
