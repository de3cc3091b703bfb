"""Train the networks of a batch of a sweep together."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.training import JobConditions, ProgressLog
from neuralfield.rendering.publishing import publishing
from neuralfield.tasks.image_fit import read_task
from neuralfield.training.fit import fit_batch
from neuralfield.training.loop import Training
from neuralfield.training.results import outputs_in


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
    conditions = JobConditions(training, threads)
    folders = [model.parent for model in models]
    name = f"batch {batch} of {len(models)}"
    progress = ProgressLog(name, training["steps"], log_path)
    rows: dict[str, Mapping[str, float]] = {}

    def add_row(row: Mapping[str, float], *, network: str) -> None:
        """Report the progress of all networks together, with the last row of each."""
        rows[network] = row
        step = int(min(row["step"] for row in rows.values()))
        levels_db = [row["psnr_db"] for row in rows.values()]
        quality = f"{min(levels_db):.2f} to {max(levels_db):.2f} dB"
        progress.row(step, quality, f"{len(rows)} networks, {quality}")

    trainings = []
    heat = conditions.heat_guard(partial(progress.say, name=name))
    for folder, settings in zip(folders, networks, strict=True):
        image, own_name = folder.parent, f"{folder.parent.name} / {folder.name}"
        run = conditions.execution(
            folder,
            threads=max(1, conditions.cores // len(networks)),
            progress=partial(add_row, network=own_name),
            say=partial(progress.say, name=own_name),
            heat=heat,
            stepped=[progress.stepped],
        )
        outputs = outputs_in(folder)
        field = {key: value for key, value in settings.items() if key != "training"}
        files = image / "pixels.csv", image / "picture.json"
        task = read_task(*files, field, settings["training"])
        publish = publishing(outputs, run)
        trainings.append(Training(task, run, publish, name=own_name, outputs=outputs))
    fit_batch(trainings, min(conditions.cores, len(networks)))


if __name__ == "__main__":
    run_job(main, lambda job: {"log_path": Path(job.log[0])})
