"""Measure the errors of a table's network, and write its answer for every row."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entry.job import run_job
from entry.records import names_of, read_record, write_metrics
from entry.table_network import read_own
from neuralfield.system.files import write_csv
from neuralfield.tasks.table.measures import (
    coefficients_by_target,
    least_squares,
    measures,
    remembered_bits,
    rmse,
)
from neuralfield.tasks.table.samples import read_columns


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
    weights, solved = None, None
    if not network.settings.widths:
        weights = coefficients_by_target(network, *network.coefficients())
        if network.settings.output == "linear":
            solved = coefficients_by_target(network, *least_squares(samples.rows(~held_out)))
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
        numbers |= measures(prefix, answers[rows], samples.target_values[rows], is_accuracy)
    noiseless = read_columns(table, truth) if truth else None
    numbers |= {
        "rmse_to_truth": None if noiseless is None else rmse(answers, noiseless),
        "bits_remembered": None,
        "bits_per_parameter": None,
        "coefficients": weights,
        "least_squares": solved,
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


if __name__ == "__main__":
    run_job(main)
