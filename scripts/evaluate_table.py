"""Measure the errors of a table's network, and write its answer for every row."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entry.job import run_job
from entry.records import names_of, read_record, write_metrics
from entry.table_network import read_own
from neuralfield.system.files import write_csv
from neuralfield.tasks.table.samples import Samples, read_columns
from neuralfield.tasks.table.table_model import TableModel


def main(
    table: Path,
    model: Path,
    record: Path,
    metrics: Path,
    predictions: Path,
    *,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    truth: Sequence[str] = (),
    remembers: bool = False,
) -> None:
    """Compare a network's answers with the rows that it was trained on, and with those held out.

    `truth` has the names of columns with the targets without noise, if these are known. With
    `remembers`, the number of bits that the network has memorized is computed for targets that are
    0 or 1.
    """
    network, task = read_own(table, model, settings, training)
    samples, held_out = task.samples, task.held_out
    answers = network.predict(samples.input_values)
    is_accuracy = network.metadata.get("measure") == "accuracy"
    trained = read_record(record, model)
    weights, least_squares = None, None
    if not network.settings.widths:
        weights = _coefficients(network, *network.coefficients())
        if network.settings.output == "linear":
            least_squares = _coefficients(network, *_least_squares(samples.rows(~held_out)))
    numbers: dict[str, Any] = {
        **names_of(metrics.parent),
        "rows": samples.count,
        "held_out_rows": int(held_out.sum()),
        "inputs": list(network.inputs),
        "targets": list(network.targets),
        "widths": list(network.settings.widths),
        "measure": "accuracy" if is_accuracy else "rmse",
    }
    for prefix, rows in (("", ~held_out), ("held_out_", held_out)):
        numbers |= _measured(prefix, answers[rows], samples.target_values[rows], is_accuracy)
    noiseless = read_columns(table, truth) if truth else None
    numbers |= {
        "rmse_to_truth": None if noiseless is None else _rmse(answers, noiseless),
        "bits_remembered": None,
        "bits_per_parameter": None,
        "coefficients": weights,
        "least_squares": least_squares,
        "parameters": trained["parameters"],
    }
    if remembers and is_accuracy:
        trained_on = samples.count - numbers["held_out_rows"]
        bits = remembered_bits(numbers["accuracy"], trained_on * len(network.targets))
        numbers["bits_remembered"] = bits
        numbers["bits_per_parameter"] = bits / numbers["parameters"]
    names = [*samples.inputs, *samples.targets, *(f"predicted_{n}" for n in samples.targets)]
    values = np.column_stack([samples.input_values, samples.target_values, answers])
    rows = zip(values, held_out, strict=True)
    cells = ([*(f"{value:.9g}" for value in row), int(is_out)] for row, is_out in rows)
    write_csv(predictions, [*names, "held_out"], cells)
    write_metrics(metrics, numbers, trained, beside=[predictions], allow_nan=True)


def remembered_bits(accuracy: float, answers: int) -> float:
    """Return the information that answers contain about random binary targets, in bits.

    Each answer gives 1 - H(accuracy) bits, where H(p) = -p log2(p) - (1 - p) log2(1 - p): the
    capacity of a channel that flips bits with the probability 1 - accuracy (Shannon 1948). Answers
    that are no better than guesses give none.
    """
    if accuracy <= 0.5:
        return 0.0
    parts = (accuracy, 1 - accuracy)
    return answers * (1 + sum(p * math.log2(p) for p in parts if p > 0))


def _measured(
    prefix: str, answers: np.ndarray, targets: np.ndarray, is_accuracy: bool
) -> dict[str, float | None]:
    accuracy = None
    if is_accuracy and answers.size:
        accuracy = float(((answers >= 0.5) == (targets >= 0.5)).mean())
    rmse = _rmse(answers, targets) if answers.size else None
    return {f"{prefix}rmse": rmse, f"{prefix}accuracy": accuracy}


def _rmse(answers: np.ndarray, targets: np.ndarray) -> float:
    return math.sqrt(float(((answers - targets) ** 2).mean()))


def _least_squares(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    inputs = np.column_stack([samples.input_values, np.ones(samples.count)])
    solution = np.linalg.lstsq(inputs, samples.target_values, rcond=None)[0]
    return solution[:-1], solution[-1]


def _coefficients(
    network: TableModel, weights: np.ndarray, intercepts: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Return the weight of each input and the intercept, for each target."""
    parts = zip(network.targets, weights.T.tolist(), intercepts.tolist(), strict=True)
    return {
        target: {"weights": dict(zip(network.inputs, column, strict=True)), "intercept": intercept}
        for target, column, intercept in parts
    }


if __name__ == "__main__":
    run_job(main)
