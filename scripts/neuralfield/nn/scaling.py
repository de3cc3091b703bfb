"""Scaling of columns to a range that is suitable for training, and its inverse."""

from dataclasses import dataclass
from typing import Any

import numpy as np

RULES = ("standard", "range", "none")

_AS_GOOD_AS_EQUAL = 1e-12
"""Maximum relative spread of a column that is regarded as constant, because of rounding."""


@dataclass(frozen=True, eq=False)
class Scaling:
    """(value - centre) / spread, for each column; both are float64 of shape (columns,)."""

    centre: np.ndarray
    spread: np.ndarray

    def apply(self, values: np.ndarray) -> np.ndarray:
        """Convert from the units of a table or an image to a network's."""
        return (values - self.centre) / self.spread

    def undo(self, values: np.ndarray) -> np.ndarray:
        """Convert from a network's units to those of a table or an image."""
        return values * self.spread + self.centre

    def described(self) -> dict[str, list[float]]:
        """Return the scaling as plain numbers, without loss."""
        return {"centre": self.centre.tolist(), "spread": self.spread.tolist()}

    @classmethod
    def from_description(cls, found: Any, columns: int) -> "Scaling":
        """Create a scaling from untrusted content in the form of `described`.

        Raises ValueError, KeyError or TypeError unless there are two lists of `columns` finite
        numbers, with spreads above 0.
        """
        centre, spread = (np.array(found[key], dtype=np.float64) for key in ("centre", "spread"))
        for name, values in (("centre", centre), ("spread", spread)):
            if values.shape != (columns,) or not np.isfinite(values).all():
                raise ValueError(f"{name} of a scaling of {columns} columns: {values}")
        if not (spread > 0).all():
            raise ValueError(f"spread of a scaling: {spread}")
        return cls(centre, spread)


def fit_scaling(values: np.ndarray, rule: str) -> Scaling:
    """Compute the scaling of columns, shape (n, columns).

    The rule ``standard`` scales to mean 0 and (population) standard deviation 1, ``range`` to the
    interval [-1, 1]; a constant column becomes 0. ``none`` leaves values as they are.
    """
    if rule == "none":
        return Scaling(np.zeros(values.shape[1]), np.ones(values.shape[1]))
    lowest, highest = values.min(axis=0), values.max(axis=0)
    if rule == "standard":
        centre, spread = values.mean(axis=0), values.std(axis=0)
    else:
        centre, spread = (lowest + highest) / 2, (highest - lowest) / 2
    constant = spread <= _AS_GOOD_AS_EQUAL * np.maximum(abs(lowest), abs(highest))
    return Scaling(np.where(constant, lowest, centre), np.where(constant, 1.0, spread))
