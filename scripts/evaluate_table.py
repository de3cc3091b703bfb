"""Measure how near a table's network comes, and write what it answers for every row."""

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from evaluate import TRAINING_KEYS, read_record
from neuralfield.system.files import write_atomically
from neuralfield.system.provenance import require_finished, require_same_training, sha256_of
from neuralfield.tasks.table.samples import Samples, held_out_rows, read_columns, read_samples
from neuralfield.tasks.table.table_model import TableModel, load_table_model
from neuralfield.tasks.table.table_task import TableTask

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    table: Path,
    model: Path,
    record: Path,
    metrics: Path,
    predictions: Path,
    *,
    name: str,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
    truth: Sequence[str] = (),
    remembers: bool = False,
) -> None:
    """Compare a network's answers with the rows that it was taught, and those held out.

    Parameters
    ----------
    table : Path
        The CSV.
    model : Path
        The network.
    record : Path
        JSON that says how it was trained.
    metrics, predictions : Path
        The JSON file and the CSV to write.
    name : str
        What the network is called.
    settings, training : mapping
        See `read_own`.
    truth : sequence of str
        Columns with what the targets are without their noise, if that is known.
    remembers : bool
        Whether to count the bits that a network remembers of targets that are 0 or 1.
    """
    network, samples = read_own(table, model, settings, training)
    answers = predict(network, samples.input_values)
    held_out = held_out_mask(network, samples.count)
    is_accuracy = network.metadata.get("measure") == "accuracy"
    trained = read_record(record, model, training)
    weights, least_squares = None, None
    if not network.settings.widths:
        weights = _coefficients(network, *network.coefficients())
        if network.settings.output == "linear":
            least_squares = _coefficients(network, *_least_squares(samples.rows(~held_out)))
    numbers: dict[str, Any] = {
        "table": name,
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
        taught = samples.count - numbers["held_out_rows"]
        bits = remembered_bits(numbers["accuracy"], taught * len(network.targets))
        numbers["bits_remembered"] = bits
        numbers["bits_per_parameter"] = bits / trained["parameters"]
    numbers |= {key: trained[key] for key in TRAINING_KEYS}
    _write_predictions(predictions, samples, answers, held_out)
    noted = {predictions.name: sha256_of(predictions)}
    numbers["sha256"] = trained.get("sha256", {}) | noted
    write_atomically(metrics, (json.dumps(numbers, indent=2) + "\n").encode())


def read_own(
    table: Path,
    model: Path,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> tuple[TableModel, Samples]:
    """Read a table's network, and the samples that it was trained on.

    Parameters
    ----------
    table, model : Path
    settings, training : mapping, optional
        What the config says of the network and of its training; see ``train_table.py``. Without
        them any network with columns of this table is accepted.

    Raises
    ------
    CheckpointError, InputError
        A file is missing or damaged, or the network is of another table or training.
    """
    network = load_table_model(model)
    if settings is None or training is None:
        return network, read_samples(table, network.inputs, network.targets)
    samples = read_samples(table, settings["inputs"], settings["targets"])
    task = TableTask.from_settings(samples, settings, training)
    expected = f"the network that the settings describe, of {samples.where}"
    require_same_training(model, network.provenance, task.provenance, expected)
    require_finished(model, network.metadata, task.training.steps)
    return network, samples


def predict(network: TableModel, values: np.ndarray) -> np.ndarray:
    """A network's answers, in the precision that it was taught in."""
    is_double = network.metadata.get("precision") == "float64"
    return network.predict(values, dtype="float64" if is_double else "float32")


def held_out_mask(network: TableModel, count: int) -> np.ndarray:
    """Which rows a network was not taught; bool, shape (count,)."""
    seed = network.metadata["training"]["random_seed"]
    return held_out_rows(count, network.metadata["held_out_share"], seed)


def remembered_bits(accuracy: float, answers: int) -> float:
    """What answers tell of as many targets that are 0 or 1 by chance.

    Each tells 1 - H(accuracy) bits, where H(p) = -p log2(p) - (1 - p) log2(1 - p): the capacity of
    a channel that turns over so many bits (Shannon 1948). No better than a guess is nothing.

    Parameters
    ----------
    accuracy : float
        Share of them that is right.
    answers : int
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
    """Weights and intercepts that no others have a smaller squared error than."""
    inputs = np.column_stack([samples.input_values, np.ones(samples.count)])
    solution = np.linalg.lstsq(inputs, samples.target_values, rcond=None)[0]
    return solution[:-1], solution[-1]


def _coefficients(
    network: TableModel, weights: np.ndarray, intercepts: np.ndarray
) -> dict[str, dict[str, Any]]:
    """For each target what each input counts, and what is added."""
    parts = zip(network.targets, weights.T.tolist(), intercepts.tolist(), strict=True)
    return {
        target: {"weights": dict(zip(network.inputs, column, strict=True)), "intercept": intercept}
        for target, column, intercept in parts
    }


def _write_predictions(
    path: Path, samples: Samples, answers: np.ndarray, held_out: np.ndarray
) -> None:
    names = [*samples.inputs, *samples.targets, *(f"predicted_{n}" for n in samples.targets)]
    values = np.column_stack([samples.input_values, samples.target_values, answers])
    table = pd.DataFrame(values, columns=names)
    table.insert(len(names), "held_out", held_out.astype(int), allow_duplicates=True)
    text = table.to_csv(index=False, float_format="%.9g", lineterminator="\n")
    write_atomically(path, text.encode())


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        table=Path(snakemake.input.table),
        model=Path(snakemake.input.model),
        record=Path(snakemake.input.record),
        metrics=Path(snakemake.output.metrics),
        predictions=Path(snakemake.output.predictions),
        name=snakemake.wildcards.network,
        settings=snakemake.params.settings,
        training=snakemake.params.training,
        truth=snakemake.params.truth,
        remembers=snakemake.params.remembers,
    )
