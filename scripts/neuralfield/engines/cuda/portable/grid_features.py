"""Features of hash grids for the passes of the cuda engine; see `grid_features.cu`."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import NetworkArrays
from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import NetworkPlan
from neuralfield.system.device import Array

_SECTOR_BYTES = 32
"""Minimum number of bytes that a GPU reads or writes at a time."""

_PLACES = 4
"""Number of points of a thread, whose rows of the table are loaded at the same time."""


@dataclass(frozen=True)
class FeatureLayout:
    """The memory layout of rows' features, or of their gradients.

    Number c of row r is at ``r * row_stride + c // 2 * pair_stride + c % 2``; strides are even.
    """

    row_stride: int
    pair_stride: int
    is_mixed: bool  # whether numbers are fp16, not float32

    @classmethod
    def of_rows(cls, width: int, *, is_mixed: bool) -> "FeatureLayout":
        """Return the layout of rows of `width` numbers, one after another."""
        return cls(width, 2, is_mixed)

    @classmethod
    def of_pairs(cls, rows: int) -> "FeatureLayout":
        """Return the layout of pairs of fp16 numbers: the first of all rows, then the second."""
        return cls(2, 2 * rows, True)


def grid_constants(network: NetworkPlan, layout: FeatureLayout) -> dict[str, Any]:
    """Return the constants of a kernel that includes grid_corners.cuh."""
    structs = [
        (
            *(level.resolution, level.start, level.rows, (level.rows - 1) * level.is_hashed),
            *(level.columns, level.start - level.skipped),
        )
        for level in network.levels
    ]
    return {
        "LEVELS": len(structs),
        "GRID_LEVELS": structs,
        "FEATURES": network.table_shape[1],
        "MIXED": layout.is_mixed,
        "ROW_STRIDE": layout.row_stride,
        "PAIR_STRIDE": f"{layout.pair_stride}ll",
    }


class GridFeatures:
    """Computes features of points; each launch reads the table as it is then."""

    def __init__(self, network: NetworkPlan, arrays: NetworkArrays, layout: FeatureLayout) -> None:
        self._table = arrays.parameters[arrays.offsets["encoding.table"] :]
        levels_abreast = _levels_abreast(network, layout)
        self._levels = levels_abreast, -(-len(network.levels) // levels_abreast)
        constants = grid_constants(network, layout)
        constants |= {"LEVELS_ABREAST": levels_abreast, "PLACES": _PLACES}
        self._kernel = compile_kernel("portable/grid_features.cu", "grid_features", constants)

    def launch(self, inputs: Array, valid_rows: int, rows: int, features: Array) -> Launch:
        """Return the launch that computes features of rows; `inputs` has the valid rows, and the
        other rows get the features of (0, 0).

        The launch writes to `features`, whose first number is that of the first row.
        """
        arguments = (inputs, np.int32(valid_rows), np.int32(rows), self._table, features)
        levels_abreast, groups = self._levels
        grid = (-(-rows * levels_abreast // (THREADS * _PLACES)), groups)
        return Launch(self._kernel, grid, arguments)


def _levels_abreast(network: NetworkPlan, layout: FeatureLayout) -> int:
    """Count the levels of a row that fit in the memory that a GPU writes at a time."""
    if layout.pair_stride != 2:
        return 1
    level_bytes = network.table_shape[1] * (2 if layout.is_mixed else 4)
    return min(len(network.levels), max(1, _SECTOR_BYTES // level_bytes))
