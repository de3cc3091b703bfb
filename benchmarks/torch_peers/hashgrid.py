"""The hash grid of Mueller et al. 2022 in PyTorch, as in their library tiny-cuda-nn.

Positions, resolutions, hash, initial values and the network are those of its grid encoding and its
fully fused network. The arithmetic is float32, or the library's own float16.
"""

import math
from itertools import pairwise
from typing import Any

import torch
from torch import nn

_PRIME = 2654435761
_ROWS_MULTIPLE = 8
_OUTPUTS_MULTIPLE = 16
_LOSS_SCALE = 128.0


class WeightedRows(torch.autograd.Function):
    """Weighted sums of four rows of a table each, and their gradient, in the table's precision."""

    @staticmethod
    def forward(
        ctx: Any, table: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        weights = weights.to(table.dtype)
        ctx.save_for_backward(rows, weights)
        ctx.shape = table.shape
        values = table[rows[0]] * weights[0, :, None]
        for corner in (1, 2, 3):
            values.addcmul_(table[rows[corner]], weights[corner, :, None])
        return values

    @staticmethod
    def backward(ctx: Any, *derivatives: torch.Tensor) -> tuple[torch.Tensor, None, None]:
        rows, weights = ctx.saved_tensors
        (derivative,) = derivatives
        gradient = torch.zeros(ctx.shape, dtype=derivative.dtype, device=derivative.device)
        for corner in range(4):
            gradient.index_add_(0, rows[corner], weights[corner, :, None] * derivative)
        return gradient, None, None


class HashGrid(nn.Module):
    """Bilinearly interpolated features of the corners around each point, for several grids.

    Grid l has N_min b ** l - 1 cells, which may be a fractional number, shifted by half a cell.
    """

    def __init__(self, levels: int, features: int, log2_table_size: int, base: int, finest: int):
        super().__init__()
        growth = (finest / base) ** (1 / (levels - 1))
        self.grids, start = [], 0
        for level in range(levels):
            cells = base * growth**level - 1
            side = math.ceil(cells) + 1
            dense = _ROWS_MULTIPLE * math.ceil(side**2 / _ROWS_MULTIPLE)
            rows = min(dense, 1 << log2_table_size)
            self.grids.append((cells, side, start, rows))
            start += rows
        self.table = nn.Parameter(torch.empty(start, features).uniform_(-1e-4, 1e-4))

    def corners(self, points: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return rows of the table and their weights, both of shape (4, points * levels)."""
        all_rows, all_weights = [], []
        for cells, side, start, rows in self.grids:
            position = (points + 1) / 2 * cells + 0.5
            near = position.floor()
            (u, v), (x, y) = (position - near).T, near.long().T
            for j, i in ((0, 0), (0, 1), (1, 0), (1, 1)):
                a, b = x + i, y + j
                index = a ^ (b * _PRIME) if rows < side**2 else a + b * side
                all_rows.append((start + index % rows).int())
                all_weights.append((u if i else 1 - u) * (v if j else 1 - v))
        shape = (len(points), len(self.grids), 4)
        return tuple(
            torch.stack(found, 1).reshape(shape).permute(2, 0, 1).flatten(1).contiguous()
            for found in (all_rows, all_weights)
        )


class HashGridNetwork(nn.Module):
    """A hash grid followed by relu layers without biases, whose initial values are near 0, black.

    With `grey`, the initial values are 0.5, as in this package. With `our_layers`, the layers after
    the grid are those of this package: He's initial weights, biases, and (1 + z) / 2. With `half`,
    the arithmetic is that of the library: values, sums and gradients are in float16, gradients are
    scaled by 128 in the backward pass, and the trained parameters are in float32.
    """

    def __init__(self, grid: HashGrid, sizes: list[int], half: bool, grey: bool, our_layers: bool):
        super().__init__()
        self.grid, self._seen, self._corners = grid, None, None
        self._begin, self._our_layers = 0.5 if grey else 0.0, our_layers
        self._dtype = torch.float16 if half else torch.float32
        self.layers = nn.ModuleList()
        for fan_in, fan_out in pairwise(sizes):
            # the library's last layer has 16 outputs, of which only the first are used
            outputs = max(fan_out, _OUTPUTS_MULTIPLE) if fan_out == sizes[-1] else fan_out
            bound = math.sqrt(6 / (fan_in if our_layers else fan_in + outputs))
            layer = nn.Linear(fan_in, fan_out, bias=our_layers)
            nn.init.uniform_(layer.weight, -bound, bound)
            self.layers.append(layer)
        if half:
            for parameter in self.parameters():
                parameter.register_hook(lambda derivative: derivative / _LOSS_SCALE)

    def forward(self, points: torch.Tensor) -> torch.Tensor:
        """Return the values at points in [-1, 1]."""
        if self._seen is not points:  # they are the same in every step
            self._seen, self._corners = points, self.grid.corners(points)
        features = WeightedRows.apply(self.grid.table.to(self._dtype), *self._corners)
        x = features.reshape(len(points), -1)
        for index, layer in enumerate(self.layers):
            x = torch.relu(x) if index else x
            bias = None if layer.bias is None else layer.bias.to(self._dtype)
            x = nn.functional.linear(x, layer.weight.to(self._dtype), bias)
        x = x.float()
        if self._dtype == torch.float16 and x.requires_grad:
            x.register_hook(lambda derivative: derivative * _LOSS_SCALE)
        return x if self._our_layers else 2 * (x + self._begin) - 1


def hashgrid(
    channels: int,
    levels: int = 8,
    features: int = 2,
    log2_table_size: int = 12,
    base_resolution: int = 16,
    finest_resolution: int = 0,
    hidden_layers: int = 2,
    width: int = 64,
    half: bool = False,
    grey: bool = False,
    our_layers: bool = False,
) -> nn.Module:
    """Return the network of Mueller et al. 2022, as in tiny-cuda-nn; `finest_resolution` is > 0."""
    grid = HashGrid(levels, features, log2_table_size, base_resolution, finest_resolution)
    sizes = [levels * features, *[width] * hidden_layers, channels]
    return HashGridNetwork(grid, sizes, half, grey, our_layers)
