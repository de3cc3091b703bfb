"""Where the kernels of latents find grids, their enlarged copies and gradients in flat arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.coding.context import AROUND, FEATURES, INPUTS, NEIGHBOURS, SURROUNDINGS
from neuralfield.tasks.bits.latent_network import INPUT_SCALE

PIECE = 16
"""Latents of a row that a warp treats together; see `rate.cu`."""

_BORDER = 4
"""Zeros around a grid on each side; no neighbour of a latent, on either side, is farther."""

Shapes = Sequence[tuple[int, int]]


@dataclass(frozen=True)
class Layout:
    """The tables of structs ``Grid`` and ``Level``, int64, and the lengths of arrays."""

    grids: np.ndarray  # shape (grids, numbers of a struct)
    levels: np.ndarray
    latents: int  # with borders
    features: int
    copies: int
    pieces: int


def make_layout(shapes: Shapes) -> Layout:
    """Lay out grids of shapes (rows, columns), the finest first."""
    grids = np.zeros((len(shapes), 7 + FEATURES), np.int64)
    latents = features = parameters = pieces = 0
    for k, (rows, columns) in enumerate(shapes):
        stride, per_row = columns + 2 * _BORDER, -(-columns // PIECE)
        start = latents + _BORDER * stride + _BORDER
        grids[k, :7] = rows, columns, stride, start, parameters, pieces, per_row
        latents += (rows + 2 * _BORDER) * stride
        parameters += rows * columns
        pieces += rows * per_row
        for up in range(1, FEATURES + 1):
            grids[k, 6 + up] = features
            features += rows * (((columns - 1) >> up) + 1)
    latents += PIECE * (shapes[-1][1] + 2 * _BORDER)  # are read beyond the end of a row
    levels, copies = _levels(shapes, grids)
    return Layout(grids, levels, latents, features, copies, pieces)


def _levels(shapes: Shapes, grids: np.ndarray) -> tuple[np.ndarray, int]:
    """Make the table of levels, and count the numbers of enlarged copies."""
    copies, places = 0, {}
    for size, (rows, columns) in enumerate(shapes):
        for k in range(size + 1, len(shapes) if size else 0):
            places[k, size] = copies
            copies += rows * columns

    def plane(k: int, size: int) -> tuple[int, int, int]:
        """Return the struct ``Plane`` of grid k with the shape of another grid."""
        if size == k:
            return int(grids[k, 3]), int(grids[k, 2]), 1
        return places.get((k, size), 0), shapes[size][1], 0

    high, wide = shapes[0]
    coarser = [*shapes[1:], ((high + 1) // 2, (wide + 1) // 2)]
    rows = []
    for level in range(max(1, len(shapes) - 1)):
        numbers = [*coarser[level], *shapes[level]]
        for size in (level + 1, level):
            for k in range(len(shapes)):
                numbers += plane(k, min(size, k))
        rows.append(numbers)
    return np.array(rows, np.int64), copies


def shared_constants(grids: int, hidden: int, channels: int) -> dict[str, Any]:
    """Return the constants of all kernels, see ``grids.cuh``."""
    return {
        "GRIDS": grids,
        "HIDDEN": hidden,
        "CHANNELS": channels,
        "INPUTS": INPUTS,
        "NEIGHBOURS": len(NEIGHBOURS),
        "OFFSETS": list(NEIGHBOURS),
        "SURROUNDINGS": len(SURROUNDINGS),
        "AROUND": AROUND,
        "AROUND_COUNT": len(AROUND),
        "INPUT_SCALE": f"{INPUT_SCALE}f",
    }
