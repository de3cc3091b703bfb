"""Write the sample tables: ``python workflow/resources/tables/write_tables.py``.

The bytes are the same each time; a test compares them with the files beside this script.
"""

from pathlib import Path

import numpy as np
import pandas as pd

HERE = Path(__file__).parent
DRAWS, NUMBERS = 1000, 8
"""Rows of the lottery, and numbers that are sampled for each."""


def xor() -> dict[str, np.ndarray]:
    """Make the table of exclusive or: the smallest table that no straight line divides."""
    a, b = np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])
    return {"a": a, "b": b, "a_xor_b": a ^ b}


def two_clouds() -> dict[str, np.ndarray]:
    """Make measurements of two kinds of beetles; the second kind is mostly longer and heavier."""
    generator = np.random.default_rng(1)
    kind = np.repeat([0, 1], 200)
    size = generator.normal(size=(400, 2)) @ np.array([[1.0, 0.5], [0.0, 0.8]])
    length = 24 + 3 * size[:, 0] + 4 * kind
    weight = 410 + 70 * size[:, 1] + 90 * kind
    order = generator.permutation(400)
    table = {"length_mm": length.round(1), "weight_mg": weight.round(0), "is_second": kind}
    return {name: values[order] for name, values in table.items()}


def line() -> dict[str, np.ndarray]:
    """Make the forces that extend a spring by given lengths (Hooke's law), with reading errors."""
    generator = np.random.default_rng(2)
    extension = np.sort(generator.uniform(0, 120, size=60)).round(1)
    force = 1.3 + 0.42 * extension + generator.normal(scale=2, size=60)
    return {"extension_mm": extension, "force_n": force.round(2)}


def noisy_curve() -> dict[str, np.ndarray]:
    """Make a decaying tone and a noisy recording of it."""
    generator = np.random.default_rng(3)
    time = np.sort(generator.uniform(0, 4, size=300)).round(3)
    pressure = np.exp(-0.6 * time) * np.sin(2 * np.pi * 0.9 * time)
    recorded = pressure + generator.normal(scale=0.12, size=300)
    return {"time_s": time, "recorded": recorded.round(4), "pressure": pressure.round(4)}


def lottery() -> dict[str, np.ndarray]:
    """Make tickets that win at random: there is no rule, so a network can only memorize rows."""
    generator = np.random.default_rng(4)
    numbers = generator.random(size=(DRAWS, NUMBERS)).round(3)
    won = generator.integers(0, 2, size=DRAWS)
    return {f"number_{i + 1}": numbers[:, i] for i in range(NUMBERS)} | {"won": won}


TABLES = {make.__name__: make for make in (xor, two_clouds, line, noisy_curve, lottery)}


def as_csv(table: dict[str, np.ndarray]) -> bytes:
    """Write the table as text, with the fewest digits that identify each number."""
    text = pd.DataFrame(table).to_csv(index=False, float_format="%g", lineterminator="\n")
    return text.encode()


if __name__ == "__main__":
    for name, make in TABLES.items():
        (HERE / f"{name}.csv").write_bytes(as_csv(make()))
