"""Train the networks of a batch of a sweep together."""

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.training import JobConditions, ProgressLog
from neuralfield.system.files import append_json_line
from neuralfield.tasks.image_fit import read_task
from neuralfield.training.fit import fit


def main(
    models: Sequence[Path],
    networks: Sequence[Mapping[str, Any]],
    *,
    line: Mapping[str, Any],
    threads: int,
    log_path: Path | None = None,
) -> None:
    """Train all networks, and write the same files for each as ``train.py`` does.

    `models` are the files ``results/{image}/{field}/model.safetensors`` to write; `networks` has
    the settings of each network, which may differ in the settings that the workflow's
    `batches.VARIED` names. Each network is trained on one core, or on more if there are more cores
    than networks. First, the batch's `line` is added to the ledger, from which the next start of
    Snakemake takes the batches.
    """
    training = networks[0]["training"]
    conditions = JobConditions(training, threads)
    append_json_line(models[0].parents[2] / "batches.jsonl", line)
    name = f"batch {line['batch']} of {len(models)}"
    progress = ProgressLog(name, log_path)
    progress.file.steps = training["steps"]
    trainings = []
    heat = conditions.heat_guard(partial(progress.say, name=name))
    for model, settings in zip(models, networks, strict=True):
        folder, image = model.parent, model.parent.parent
        own_name = f"{image.name} / {folder.name}"
        field = {key: value for key, value in settings.items() if key != "training"}
        files = image / "pixels.csv", image / "picture.json"
        run = conditions.training(
            read_task(*files, field, settings["training"]),
            folder,
            threads=max(1, conditions.cores // len(networks)),
            name=own_name,
            progress=partial(progress.add_row, network=own_name),
            say=partial(progress.say, name=own_name),
            heat=heat,
            stepped=[progress.stepped],
        )
        trainings.append(run)
    fit(trainings, min(conditions.cores, len(networks)))


if __name__ == "__main__":
    run_job(main)
