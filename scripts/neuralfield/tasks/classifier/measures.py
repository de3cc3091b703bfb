"""Measures of a classifier's mistakes: the confusion matrix, and numbers of each class."""

from typing import Any

import numpy as np


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
