"""The tables of sweeps that `compare.py` writes and the report reads."""

from pathlib import Path
from typing import Any

from neuralfield.system.errors import InputError
from neuralfield.system.input_files import read_own_csv

MEASURES = (
    *("psnr_db", "ssim", "upscale_psnr_db", "train_seconds", "parameters"),
    *("stored_bytes", "bits_per_pixel"),
)
NAMES = (
    *("image", "field", "sweep", "base_field", "combination"),
    *("device", "engine", "precision", "upscale_best_filter"),
)
"""Columns that are not converted to numbers; neither are the columns of settings."""

TableRow = dict[str, Any]
"""A row of a table, by the names of its columns; empty numbers are None."""


def read_table(path: Path) -> list[TableRow]:
    """Read the rows of a table that this workflow wrote."""
    expected = "a table written by neuralfield"
    remedy = "remove it, and run the same command again to recreate it"
    table = read_own_csv(path, expected, remedy)
    columns = {}
    for name, texts in table.items():
        is_text = name in NAMES or name.startswith("setting_")
        try:
            columns[name] = [text if is_text else float(text) if text else None for text in texts]
        except ValueError as error:
            raise InputError(str(path), f"{name}: {error}", expected, remedy) from error
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
