"""Train the networks of a batch of a sweep together."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.progress import progress_path
from entry.training import ProgressLog, logging_kept_results, usable_cores, when_to_leave_s
from neuralfield.rendering.publishing import publishing
from neuralfield.system.device import select_device
from neuralfield.system.heat import guard_gpu
from neuralfield.system.kept import FOLDER_NAME
from neuralfield.tasks.image_fit import read_task
from neuralfield.training.fit import fit_batch
from neuralfield.training.loop import Execution, Training
from neuralfield.training.results import outputs_in


class BatchProgress(ProgressLog):
    """The progress of a batch: lines in the log, and one file, for all its networks together."""

    def __init__(self, *arguments: Any, **others: Any) -> None:
        super().__init__(*arguments, **others)
        self.rows: dict[str, Mapping[str, float]] = {}

    def add_row(self, row: Mapping[str, float], *, network: str) -> None:
        self.rows[network] = row
        step = int(min(row["step"] for row in self.rows.values()))
        levels_db = [row["psnr_db"] for row in self.rows.values()]
        quality = f"{min(levels_db):.2f} to {max(levels_db):.2f} dB"
        self.row(step, quality, f"{len(self.rows)} networks, {quality}")


def main(
    models: Sequence[Path],
    networks: Sequence[Mapping[str, Any]],
    *,
    batch: str,
    threads: int,
    log_path: Path | None = None,
) -> None:
    """Train all networks, and write the same files for each as ``train.py`` does.

    `models` are the files ``results/{image}/{field}/model.safetensors`` to write; `networks` has
    the settings of each network, which may differ in the settings that the workflow's
    `batches.VARIED` names. Each network is trained on one core, or on more if there are more cores
    than networks.
    """
    training = networks[0]["training"]
    leave_at_s = when_to_leave_s(training)
    cores = usable_cores(training, threads)
    device = select_device(training["device"])
    folders = [model.parent for model in models]
    name = f"batch {batch} of {len(models)}"
    file = progress_path(log_path) if log_path else None
    progress = BatchProgress(name, training["steps"], file=file)
    with logging_kept_results(folder / FOLDER_NAME for folder in folders):
        trainings = []
        heat = guard_gpu(
            training.get("max_temperature_celsius"), device, partial(progress.say, name=name)
        )
        for folder, settings in zip(folders, networks, strict=True):
            image, own_name = folder.parent, f"{folder.parent.name} / {folder.name}"
            run = Execution(
                device,
                folder / ".state" / "segment_1",
                training["engine"],
                max(1, cores // len(networks)),
                training["checkpoint_interval_s"],
                partial(progress.add_row, network=own_name),
                partial(progress.say, name=own_name),
                leave_at_s,
                heat,
                folder / FOLDER_NAME,
                stepped=[progress.stepped],
            )
            outputs = outputs_in(folder)
            publish = publishing(outputs, run)
            field = {key: value for key, value in settings.items() if key != "training"}
            files = image / "pixels.csv", image / "picture.json"
            task = read_task(*files, field, settings["training"])
            trainings.append(Training(task, run, publish, name=own_name, outputs=outputs))
        fit_batch(trainings, min(cores, len(networks)))


if __name__ == "__main__":
    run_job(main, lambda job: {"log_path": Path(job.log[0])})
