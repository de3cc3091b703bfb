"""Measure the accuracy of a classifier, and write its prediction for every image."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from entry.job import run_job
from entry.records import names_of, read_record, write_metrics
from neuralfield.system.files import write_csv
from neuralfield.system.provenance import require_finished, require_same_training
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.labelled import read_labelled
from neuralfield.tasks.classifier.measures import by_class, confusion


def main(
    training_images: Path,
    training_labels: Path,
    held_out_images: Path,
    held_out_labels: Path,
    model: Path,
    record: Path,
    metrics: Path,
    predictions: Path,
    *,
    network: Mapping[str, Any],
    training: Mapping[str, Any],
    checksums: Mapping[str, str],
) -> None:
    """Evaluate a classifier on the images that it was trained on, and on those held out.

    The images and labels are IDX files, whose `checksums` (SHA-256) are given by their names.
    """
    classifier = ClassifierModel.load(model)
    known = read_labelled(training_images, training_labels, checksums)
    others = read_labelled(held_out_images, held_out_labels, checksums)
    task = ClassifierTask.from_settings(known, network, training)
    expected = f"the classifier that the settings describe, of {known.where}"
    require_same_training(model, classifier.provenance, task.provenance, expected)
    require_finished(model, classifier.metadata, task.training.steps)
    others.require_fit(classifier.shape, classifier.classes, f"as in {known.where}")
    trained = read_record(record, model)
    numbers: dict[str, Any] = {
        **names_of(metrics.parent),
        "pictures": known.count,
        "held_out_pictures": others.count,
        "width": classifier.shape.width,
        "height": classifier.shape.height,
        "classes": classifier.classes,
    }
    rows: list[tuple[Any, ...]] = []
    parts = [("", known), ("held_out_", others)]
    found = [classifier.probabilities(part.images) for _, part in parts]
    for is_held_out, ((prefix, part), probabilities) in enumerate(zip(parts, found, strict=True)):
        predicted = probabilities.argmax(axis=1)
        wrong = int(np.count_nonzero(predicted != part.labels))
        numbers |= {f"{prefix}wrong": wrong, f"{prefix}accuracy": 1 - wrong / len(predicted)}
        certain = (f"{probability:.6g}" for probability in probabilities.max(axis=1))
        answers = zip(part.labels, predicted, certain, strict=True)
        rows += [(is_held_out, number, *answer) for number, answer in enumerate(answers)]
    counts = confusion(others.labels, found[1].argmax(axis=1), classifier.classes)
    numbers |= {"confusion": counts.tolist(), "per_class": by_class(counts)}
    numbers["parameters"] = trained["parameters"]
    write_csv(predictions, ("held_out", "picture", "label", "predicted", "probability"), rows)
    write_metrics(metrics, numbers, trained, beside=[predictions], allow_nan=True)


if __name__ == "__main__":
    run_job(main)
