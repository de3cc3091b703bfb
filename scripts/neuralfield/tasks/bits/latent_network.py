"""Latents on grids of falling sizes, the rate model of their bits, and the synthesis of pixels.

The functions are those of `neuralfield.coding.coded_image.CodedImage`, in floating point and for
latents that are not yet whole. A matrix has one row for each output, and biases in the last column.
"""

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from neuralfield.coding.context import (
    INPUTS,
    MOST_GRIDS,
    NEIGHBOURS,
    SURROUNDINGS,
    coarse_features,
    grid_shapes,
    usual_grids,
)
from neuralfield.nn import ops
from neuralfield.nn.layers import Linear
from neuralfield.nn.network import Network
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array
from neuralfield.system.input_files import read_json

LATENT_SCALE = 16.0
"""Latents per unit of their parameters, so that one learning rate suits all parameters."""

INPUT_SCALE = 0.25
"""Factor on latents before the synthesis, for which weights of usual size are of use."""

PROBABILITY_FLOOR = 2.0**-16
"""What every probability is increased by, as in the coder, in which no latent is impossible."""

USUAL_HIDDEN = 48
"""The largest number of hidden values of the synthesis: there are so many initial weights."""

LEAST_LOG_SCALE, LARGEST_LOG_SCALE = -6.0, 7.0


class LatentNetwork(Network[Linear]):
    """Latents and networks for an image of a size; parameters are zeros until `initialise`."""

    def __init__(self, height: int, width: int, channels: int, hidden: int) -> None:
        super().__init__([])
        self.shapes = grid_shapes(height, width, usual_grids(height, width))
        grids = len(self.shapes)
        self.hidden, self.channels = hidden, channels
        shapes = {
            **{f"latents.{k}": shape for k, shape in enumerate(self.shapes)},
            "rate.0": (INPUTS, INPUTS + 1),
            "rate.1": (INPUTS, INPUTS + 1),
            "rate.2": (2, INPUTS + 1),
            "filters": (grids - 1, 4),
            "hidden": (hidden, grids + len(SURROUNDINGS) + 1),
            "output": (channels, hidden + grids + len(SURROUNDINGS) + 1),
        }
        self._tensors = {name: Tensor(np.zeros(shape), True) for name, shape in shapes.items()}
        self.bit_weight = np.zeros(1)  # lambda, which a target steers

    @property
    def parameters(self) -> dict[str, Tensor]:
        return self._tensors

    @property
    def buffers(self) -> dict[str, Array]:
        return {"bit_weight": self.bit_weight}

    @property
    def grids(self) -> int:
        return len(self.shapes)

    @property
    def latents(self) -> list[Tensor]:
        return [self._tensors[f"latents.{k}"] for k in range(self.grids)]

    def initialise(self, mean: np.ndarray) -> None:
        """Set the initial weights; latents are zeros, and all pixels are `mean`.

        The networks start with weights that were trained on other photographs (see
        `benchmarks/initial_latent_weights.py`), which helps short trainings most. There are weights
        for 3 channels and 7 grids; other images use some of them, or their mean, and those hidden
        values with the largest products of weights.
        """
        stored = read_json(Path(__file__).with_name("initial_weights.json"))
        found = {name: np.array(rows, np.float16).astype(float) for name, rows in stored.items()}
        hidden, output = found["hidden"], found["output"]
        sizes = np.linalg.norm(hidden, axis=1)
        sizes *= np.linalg.norm(output[:, : len(hidden)], axis=0)
        used = np.sort(np.argsort(-sizes, kind="stable")[: self.hidden])
        inputs = np.r_[: self.grids, MOST_GRIDS : hidden.shape[1]]
        found["filters"] = found["filters"][: self.grids - 1]
        found["hidden"] = hidden[np.ix_(used, inputs)]
        output = output[:, np.r_[used, len(hidden) + inputs]]
        if self.channels != 3:
            output = np.tile(output.mean(axis=0), (self.channels, 1))
        bias = found["hidden"][:, -1]
        output[:, -1] = mean - output[:, : self.hidden] @ np.maximum(bias, 0)
        found["output"] = output
        for name, array in found.items():
            self._tensors[name].data[:] = array

    def pixels(self, latents: list[Tensor]) -> Tensor:
        """Compute all pixels from latents, shape (height * width, channels)."""
        columns = []
        for k, grid in enumerate(latents):
            plane = ops.reshape(grid, (-1, 1))
            for level in range(k - 1, -1, -1):
                taps = _sums(self._tensors["filters"], np.array([[[level]]]))
                for index in self._enlargements[level]:
                    plane = ops.matmul(_sums(plane, index[..., None]), ops.reshape(taps, (4, 1)))
            columns.append(ops.multiply(plane, INPUT_SCALE))
        finest = ops.reshape(latents[0], (-1, 1))
        for index in self._around:
            columns.append(ops.multiply(_sums(finest, index[:, None]), INPUT_SCALE))
        values = ops.concatenate([*columns, self._ones(columns[0])], axis=1)
        rectified = ops.relu(self._apply("hidden", values))
        return self._apply("output", ops.concatenate([rectified, values], axis=1))

    def distributions(self, latents: Tensor) -> Tensor:
        """Compute mean and binary logarithm of the scale of all latents, (n, 1), shape (n, 2)."""
        index, exists = self._context
        weights = exists.astype(latents.data.dtype)
        x = ops.weighted_rows(latents, index[..., None], weights[..., None])
        for name in ("rate.0", "rate.1"):
            x = ops.add(ops.relu(self._apply(name, self._with_ones(x))), x)
        return self._apply("rate.2", self._with_ones(x))

    def _apply(self, name: str, values: Tensor) -> Tensor:
        return ops.matmul(values, ops.transpose(self._tensors[name]))

    def _with_ones(self, values: Tensor) -> Tensor:
        return ops.concatenate([values, self._ones(values)], axis=1)

    def _ones(self, values: Tensor) -> Tensor:
        return Tensor(np.ones((len(values.data), 1), values.data.dtype))

    @cached_property
    def _enlargements(self) -> list[tuple[Array, Array]]:
        """For each level, the indices (values, 4) of the two passes from the next grid."""
        found = []
        for (rows, columns), (high, wide) in zip(self.shapes[1:], self.shapes, strict=False):
            down = _tap_places(high, rows)
            across = _tap_places(wide, columns)
            first = down[:, None, :] * columns + np.arange(columns)[None, :, None]
            second = np.arange(high)[:, None, None] * columns + across[None]
            found.append((first.reshape(-1, 4), second.reshape(-1, 4)))
        return found

    @cached_property
    def _around(self) -> list[Array]:
        """For each input of `SURROUNDINGS`, the indices (latents, offsets) in the finest grid."""
        rows, columns = self.shapes[0]
        padded = np.pad(np.arange(rows * columns).reshape(rows, columns), 2, "edge")
        windows = sliding_window_view(padded, (rows, columns))
        return [
            np.stack([windows[2 + y, 2 + x].ravel() for y, x in offsets], axis=1)
            for offsets in SURROUNDINGS
        ]

    @cached_property
    def _context(self) -> tuple[Array, Array]:
        """The indices of the rate model's inputs among all latents, and whether there are such."""
        starts = np.cumsum([1, *(rows * columns for rows, columns in self.shapes)])
        grids = [
            np.arange(start, end).reshape(shape)
            for start, end, shape in zip(starts, starts[1:], self.shapes, strict=False)
        ]
        parts = []
        for k, grid in enumerate(grids):
            windows = sliding_window_view(np.pad(grid, 3), grid.shape)
            near = [windows[3 + y, 3 + x] for y, x in NEIGHBOURS]
            parts.append(np.stack([*near, *coarse_features(grids, k)], -1).reshape(-1, INPUTS))
        index = np.concatenate(parts)
        return np.maximum(index - 1, 0), index > 0


def _sums(table: Tensor, rows: Array) -> Tensor:
    """Compute sums of rows of a table, (n, groups, k), over k; see `ops.weighted_rows`."""
    return ops.weighted_rows(table, rows, np.ones(rows.shape, table.data.dtype))


def _tap_places(length: int, coarse: int) -> Array:
    """Return the places (length, 4) that the taps multiply; see `CodedImage`."""
    place, tap = np.arange(length)[:, None], np.arange(4)[None]
    offsets = np.where(place & 1, 2 - tap, tap - 2)
    return np.clip((place >> 1) + offsets, 0, coarse - 1)
