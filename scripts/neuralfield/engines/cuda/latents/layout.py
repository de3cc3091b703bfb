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
    copies: int  # grids but the finest, at their own and all finer sizes but the finest
    pieces: int


def make_layout(shapes: Shapes) -> Layout:
    """Lay out grids of shapes (rows, columns), the finest first."""
    grids = np.zeros((len(shapes), 8 + FEATURES), np.int64)
    latents = features = parameters = pieces = copies = 0
    for k, (rows, columns) in enumerate(shapes):
        stride, per_row = columns + 2 * _BORDER, -(-columns // PIECE)
        start = latents + _BORDER * stride + _BORDER
        grids[k, :8] = rows, columns, stride, start, parameters, copies, pieces, per_row
        latents += (rows + 2 * _BORDER) * stride
        parameters += rows * columns
        copies += (len(shapes) - k) * rows * columns if k else 0
        pieces += rows * per_row
        for up in range(1, FEATURES + 1):
            grids[k, 7 + up] = features
            features += rows * (((columns - 1) >> up) + 1)
    latents += PIECE * (shapes[-1][1] + 2 * _BORDER)  # are read beyond the end of a row
    high, wide = shapes[0]
    coarser = [*shapes[1:], ((high + 1) // 2, (wide + 1) // 2)][: max(1, len(shapes) - 1)]
    sides = np.column_stack([coarser, shapes[: len(coarser)]])
    starts = np.append(grids[:, 5], copies)
    levels = np.column_stack([sides, starts[1:][: len(sides)], starts[: len(sides)]])
    return Layout(grids, levels, latents, features, copies, pieces)


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
