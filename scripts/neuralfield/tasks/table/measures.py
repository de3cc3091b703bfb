"""Measures of a table's network: errors, coefficients, and how much it remembers."""

import math
from typing import Any

import numpy as np

from neuralfield.tasks.table.samples import Samples
from neuralfield.tasks.table.table_model import TableModel


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


def measures(
    prefix: str, answers: np.ndarray, targets: np.ndarray, is_accuracy: bool
) -> dict[str, float | None]:
    """Return the error and, for targets that are 0 or 1, the accuracy; None without answers."""
    accuracy = None
    if is_accuracy and answers.size:
        accuracy = float(((answers >= 0.5) == (targets >= 0.5)).mean())
    error = rmse(answers, targets) if answers.size else None
    return {f"{prefix}rmse": error, f"{prefix}accuracy": accuracy}


def rmse(answers: np.ndarray, targets: np.ndarray) -> float:
    """Return the root of the mean squared error."""
    return math.sqrt(float(((answers - targets) ** 2).mean()))


def least_squares(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return the weights and the intercepts of a linear regression."""
    inputs = np.column_stack([samples.input_values, np.ones(samples.count)])
    solution = np.linalg.lstsq(inputs, samples.target_values, rcond=None)[0]
    return solution[:-1], solution[-1]


def coefficients_by_target(
    network: TableModel, weights: np.ndarray, intercepts: np.ndarray
) -> dict[str, dict[str, Any]]:
    """Return the weight of each input and the intercept, for each target."""
    parts = zip(network.targets, weights.T.tolist(), intercepts.tolist(), strict=True)
    return {
        target: {"weights": dict(zip(network.inputs, column, strict=True)), "intercept": intercept}
        for target, column, intercept in parts
    }
