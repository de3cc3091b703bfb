"""Count what a classifier gets right, and write its answer for every picture."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evaluate import TRAINING_KEYS, read_record
from neuralfield.system.files import write_atomically
from neuralfield.system.provenance import require_finished, require_same_training, sha256_of
from neuralfield.tasks.classifier.classifier_model import ClassifierModel, load_classifier
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import LabelledPictures, read_labelled

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    taught: tuple[Path, Path],
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
    """Ask a classifier for the pictures that it was taught, and for those held out.

    Parameters
    ----------
    taught, held_out : (Path, Path)
        IDX files of the pictures and of their labels.
    model : Path
        The network.
    record : Path
        JSON that says how it was trained.
    metrics, predictions : Path
        The JSON file and the CSV to write.
    name : str
        What the classifier is called.
    settings, training : mapping
        What the config says of the network and of its training; see ``train_classifier.py``.
    checksums : mapping
        SHA-256 of files, by their names.

    Raises
    ------
    CheckpointError, InputError
        A file is missing or damaged, or the network is of other pictures or another training.
    """
    network = load_classifier(model)
    known, others = read_labelled(*taught, checksums), read_labelled(*held_out, checksums)
    task = ClassifierTask.from_settings(known, settings, training)
    expected = f"the classifier that the settings describe, of {known.where}"
    require_same_training(model, network.provenance, task.provenance, expected)
    require_finished(model, network.metadata, task.training.steps)
    others.require_fit(network.shape, network.classes, f"as in {known.where}")
    trained = read_record(record, model, training)
    answers = [Answers.of(network, some) for some in (known, others)]
    counts = confusion(answers[1].labels, answers[1].predicted, network.classes)
    numbers: dict[str, Any] = {
        "classifier": name,
        "pictures": known.count,
        "held_out_pictures": others.count,
        "width": network.shape.width,
        "height": network.shape.height,
        "classes": network.classes,
    }
    for prefix, found in zip(("", "held_out_"), answers, strict=True):
        wrong = int((found.predicted != found.labels).sum())
        numbers[f"{prefix}wrong"] = wrong
        numbers[f"{prefix}accuracy"] = 1 - wrong / len(found.labels)
    numbers |= {"confusion": counts.tolist(), "per_class": by_class(counts)}
    numbers["parameters"] = trained["parameters"]
    numbers |= {key: trained[key] for key in TRAINING_KEYS}
    _write_predictions(predictions, answers)
    noted = {predictions.name: sha256_of(predictions)}
    numbers["sha256"] = trained.get("sha256", {}) | noted
    write_atomically(metrics, (json.dumps(numbers, indent=2) + "\n").encode())


class Answers:
    """What a classifier says of pictures.

    Attributes
    ----------
    labels, predicted : ndarray of int64, shape (n,)
    probability : ndarray of float64, shape (n,)
        That it gives its answer.
    """

    def __init__(self, labels: np.ndarray, predicted: np.ndarray, probability: np.ndarray) -> None:
        self.labels, self.predicted, self.probability = labels, predicted, probability

    @classmethod
    def of(cls, network: ClassifierModel, labelled: LabelledPictures) -> "Answers":
        """Ask it."""
        probabilities = network.probabilities(labelled.pictures)
        predicted = probabilities.argmax(axis=1)
        return cls(labelled.labels, predicted, probabilities.max(axis=1))


def confusion(labels: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """How often each class was taken for each.

    Returns
    -------
    ndarray of int64, shape (classes, classes)
        A row is what pictures show, a column what was answered.
    """
    both = np.bincount(labels * classes + predicted, minlength=classes**2)
    return both.reshape(classes, classes)


def by_class(counts: np.ndarray) -> list[dict[str, Any]]:
    """For each class: pictures of it, how many were found, and how often its name was right.

    Parameters
    ----------
    counts : ndarray of int64, shape (classes, classes)
        See `confusion`.

    Returns
    -------
    list of dict
        ``label``, ``pictures``, ``right``, ``recall`` (right of those that show it) and
        ``precision`` (right of those that were called it); None where there are none.
    """
    shown, said, right = counts.sum(axis=1), counts.sum(axis=0), counts.diagonal()
    return [
        {
            "label": label,
            "pictures": int(shown[label]),
            "right": int(right[label]),
            "recall": float(right[label] / shown[label]) if shown[label] else None,
            "precision": float(right[label] / said[label]) if said[label] else None,
        }
        for label in range(len(counts))
    ]


def _write_predictions(path: Path, answers: list[Answers]) -> None:
    parts = [
        pd.DataFrame(
            {
                "held_out": held_out,
                "picture": np.arange(len(found.labels)),
                "label": found.labels,
                "predicted": found.predicted,
                "probability": found.probability,
            }
        )
        for held_out, found in enumerate(answers)
    ]
    text = pd.concat(parts).to_csv(index=False, float_format="%.6g", lineterminator="\n")
    write_atomically(path, text.encode())


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        taught=(Path(snakemake.input.taught_pictures), Path(snakemake.input.taught_labels)),
        held_out=(
            Path(snakemake.input.held_out_pictures),
            Path(snakemake.input.held_out_labels),
        ),
        model=Path(snakemake.input.model),
        record=Path(snakemake.input.record),
        metrics=Path(snakemake.output.metrics),
        predictions=Path(snakemake.output.predictions),
        name=snakemake.wildcards.classifier,
        settings=snakemake.params.network,
        training=snakemake.params.training,
        checksums=snakemake.params.checksums,
    )
