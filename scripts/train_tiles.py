"""Train a network on each of several tiles of a large image."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.training import JobConditions, ProgressLog
from neuralfield.images import read_facts
from neuralfield.images.tiling import Tile
from neuralfield.system.errors import DivergenceError
from neuralfield.system.interruption import StopSignals
from neuralfield.system.ledger import Entry, digests_of, write_ledger
from neuralfield.system.read_ahead import read_ahead
from neuralfield.tasks.image.mosaic import TRAINED_TOGETHER
from neuralfield.tasks.image_fit import read_tile_task
from neuralfield.tasks.task import Task
from neuralfield.training.budget import apply_budget
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training
from neuralfield.training.results import outputs_in
from neuralfield.training.trainer import Trainer

READERS = 2
"""Number of threads that read tiles."""


class TilesProgress(ProgressLog):
    """The progress of a job, in steps of all its tiles together."""

    def __init__(self, name: str, log_path: Path | None) -> None:
        super().__init__(name, log_path)
        self.ended = 0  # number of tiles
        self._present: Sequence[Trainer] = ()
        self._seconds_before = 0.0  # of the tiles that have ended
        self._reported: set[str] = set()

    def stepped(self, trainers: Sequence[Trainer]) -> None:
        """Record steps of the tiles that are being trained."""
        self._present = trainers
        taken = sum(trainer.steps_taken for trainer in trainers)
        seconds = sum(trainer.seconds for trainer in trainers)
        self.file.update(self.steps_before + taken, self._seconds_before + seconds)

    def end(self, trainings: Sequence[Training]) -> None:
        """Record that trainings have ended, now or in an earlier attempt."""
        if not self._present:
            self.file.forget_rate()
        self.ended += len(trainings)
        self.steps_before += sum(training.last_step for training in trainings)
        self._seconds_before += sum(trainer.seconds for trainer in self._present)
        self._present = ()

    def say_of_tile(self, line: str, *, tile: str) -> None:
        """Report a line about a tile, on the terminal only if it is the first one of its kind."""
        kind = line.replace(tile, "")
        is_first = kind not in self._reported
        self._reported.add(kind)
        self.say(line, name=f"{self.name} / {tile}", is_shown=is_first)


def main(
    pixels: Path,
    facts: Path,
    lists: Sequence[Path],
    *,
    tiles: Sequence[Sequence[Sequence[Any]]],
    field: Mapping[str, Any],
    training: Mapping[str, Any],
    execution: Mapping[str, Any],
    threads: int,
    log_path: Path | None = None,
) -> None:
    """Train on each tile, and write its network.

    The tiles are windows of the image that ``unpack.py`` wrote. They are trained as ``train.py``
    trains on an image, and the resulting bytes do not depend on the other tiles of the job. The
    next tiles are read while others are trained. Each file in `lists`, in the folder ``tiles`` of
    the network, is written with the names and digests of the files of the `tiles` at its index,
    which are given by the fields of `Tile`; see `ledger`. All files of a tile are in its own folder
    beside the lists. A job that was interrupted continues: the results of finished tiles are
    published again, and other tiles resume from their states.
    """
    folder = lists[0].parents[1]
    name = f"{folder.parent.name} / {folder.name}"
    listed = [[Tile(*place) for place in part] for part in tiles]
    in_order = [tile for part in listed for tile in part]
    training = {**training, **execution}
    conditions = JobConditions(training, threads)
    progress = TilesProgress(name, log_path)
    heat = conditions.heat_guard(progress.say)
    about = read_facts(facts)

    def read(tile: Tile) -> tuple[Tile, Task]:
        task = read_tile_task(pixels, about, tile, field, training)
        task.identity()  # computes and caches digests of the data while other tiles are trained
        return tile, task

    def training_of(tile: Tile, task: Task) -> Training:
        run = conditions.training(
            task,
            folder / "tiles" / tile.name,
            name=f"{name} / {tile.name}",
            progress=partial(progress.add_row, network=tile.name),
            say=partial(progress.say_of_tile, tile=tile.name),
            heat=heat,
            stepped=[progress.stepped],
        )
        apply_budget(run, training, folder)
        return run

    failures, made = [], {}
    with ThreadPoolExecutor(READERS) as reader, StopSignals(conditions.leave_at_s) as stop:
        together = TRAINED_TOGETHER[conditions.device.kind]
        parts = (in_order[n : n + together] for n in range(0, len(in_order), together))
        for group in read_ahead(list(reader.map(read, part)) for part in parts):
            ended = f"{progress.ended} of {len(in_order)} tiles are trained"
            stop.raise_if_received(ended)
            trainings = [training_of(tile, task) for tile, task in group]
            progress.file.steps = len(in_order) * trainings[0].last_step  # all have as many
            try:
                fit(trainings, stop=stop)
            except DivergenceError as error:
                failures.append(error)
            else:
                for tile, _ in group:
                    own = folder / "tiles" / tile.name
                    names = [path.name for path in outputs_in(own).values()]
                    made[tile.name] = Entry(digests_of(own, names))
            progress.end(trainings)
    if failures:
        raise failures[0]
    for path, own in zip(lists, listed, strict=True):
        write_ledger(path, {tile.name: made[tile.name] for tile in own})


if __name__ == "__main__":
    run_job(main)
