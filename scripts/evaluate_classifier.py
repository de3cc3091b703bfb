"""Measure the accuracy of a classifier, and write its prediction for every image."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from entry.job import run_job
from entry.records import read_record, write_metrics
from neuralfield.system.files import write_atomically
from neuralfield.system.provenance import require_finished, require_same_training
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import LabelledImages, read_labelled


def main(
    training_files: tuple[Path, Path],
    held_out: tuple[Path, Path],
    model: Path,
    record: Path,
    metrics: Path,
    predictions: Path,
    *,
    name: str,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    checksums: Mapping[str, str],
) -> None:
    """Evaluate a classifier on the images that it was trained on, and on those held out.

    `training_files` and `held_out` are pairs of IDX files with images and labels, whose `checksums`
    (SHA-256) are given by the names of the files.
    """
    network = ClassifierModel.load(model)
    known, others = read_labelled(*training_files, checksums), read_labelled(*held_out, checksums)
    task = ClassifierTask.from_settings(known, settings, training)
    expected = f"the classifier that the settings describe, of {known.where}"
    require_same_training(model, network.provenance, task.provenance, expected)
    require_finished(model, network.metadata, task.training.steps)
    others.require_fit(network.shape, network.classes, f"as in {known.where}")
    trained = read_record(record, model)
    answers = [_answers(network, known, held_out=0), _answers(network, others, held_out=1)]
    counts = confusion(others.labels, answers[1]["predicted"].to_numpy(), network.classes)
    numbers: dict[str, Any] = {
        "classifier": name,
        "pictures": known.count,
        "held_out_pictures": others.count,
        "width": network.shape.width,
        "height": network.shape.height,
        "classes": network.classes,
    }
    for prefix, found in zip(("", "held_out_"), answers, strict=True):
        wrong = int(np.count_nonzero(found["predicted"] != found["label"]))
        numbers[f"{prefix}wrong"] = wrong
        numbers[f"{prefix}accuracy"] = 1 - wrong / len(found)
    numbers |= {"confusion": counts.tolist(), "per_class": by_class(counts)}
    numbers["parameters"] = trained["parameters"]
    text = pd.concat(answers).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_atomically(predictions, text.encode())
    write_metrics(metrics, numbers, trained, beside=[predictions], allow_nan=True)


def _answers(network: ClassifierModel, labelled: LabelledImages, *, held_out: int) -> pd.DataFrame:
    """Return a row for each image: its class, the predicted class, and the latter's probability."""
    probabilities = network.probabilities(labelled.images)
    return pd.DataFrame(
        {
            "held_out": held_out,
            "picture": np.arange(len(labelled.labels)),
            "label": labelled.labels,
            "predicted": probabilities.argmax(axis=1),
            "probability": probabilities.max(axis=1),
        }
    )


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Count how often each class (row) was predicted as each class (column)."""
    both = np.bincount(labels * classes + predicted, minlength=classes**2)
    return both.reshape(classes, classes)


def by_class(counts: np.ndarray) -> list[dict[str, Any]]:
    """Return recall and precision of each class from `confusion`; None if they are undefined."""
    shown, predicted, right = counts.sum(axis=1), counts.sum(axis=0), counts.diagonal()
    return [
        {
            "label": label,
            "pictures": int(shown[label]),
            "right": int(right[label]),
            "recall": float(right[label] / shown[label]) if shown[label] else None,
            "precision": float(right[label] / predicted[label]) if predicted[label] else None,
        }
        for label in range(len(counts))
    ]


if __name__ == "__main__":
    run_job(
        main,
        lambda job: {
            "training_files": (Path(job.input.training_images), Path(job.input.training_labels)),
            "held_out": (Path(job.input.held_out_images), Path(job.input.held_out_labels)),
            "name": job.wildcards.classifier,
            "settings": job.params.network,
        },
    )
