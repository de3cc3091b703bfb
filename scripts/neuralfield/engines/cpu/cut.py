"""The division of the cpu engine's work into pieces, which is the same on every machine and for
any number of threads."""

from itertools import pairwise
from typing import TYPE_CHECKING

from neuralfield.fields import CoordinateNetwork
from neuralfield.nn.optimizers import Muon, unclipped
from neuralfield.tasks.image.image_objective import ImageObjective

if TYPE_CHECKING:
    from neuralfield.engines.cpu.kernels.layout import Layout

MOST_SHARDS = 32
"""Maximum number of shards in a chunk: more than most machines have cores. Each has its own
gradient."""

_MOST_SHARD_NUMBERS = 1 << 25
"""Maximum number of values in all shards' gradients: 128 MiB."""

_MOST_CHUNK_NUMBERS = 1 << 21
"""Maximum number of values stored per chunk, which are points and gradients of their encoded
values: 8 MiB."""

_PART_PARAMETERS = 1 << 13
"""Approximate number of parameters that a piece of work updates."""


class Cut:
    """The division of batches and parameters into pieces.

    `block_pixels` pixels pass through the network together. The batch is divided into `chunks`;
    after each of them, its part of the encoding's gradient is added up. If the encoding is not
    trained, there is one chunk. A chunk is a list of shards, each the first pixel of the batch and
    the end. Each chunk has `shards` shards, and at most `chunk_points` points.
    The encoding has `encoding_numbers` trained parameters. The parameters that a piece of work
    updates are `encoding_parts`, first and end of a range of the encoding's parameters, and
    `layer_parts`: layer, first and end of rows of its weights. `matrices` are those that Muon
    updates as a whole: layer, first and end of rows; the biases of their layers are separate parts.
    """

    def __init__(self, objective: ImageObjective, layout: "Layout") -> None:
        network = objective.network
        tables = network.encoding.parameters.values()
        self.encoding_numbers = sum(table.data.size for table in tables)
        points = objective.points
        self.block_pixels = layout.block_rows // points
        pixels = objective.batches.size
        blocks = -(-pixels // self.block_pixels)
        most_blocks = blocks
        if self.encoding_numbers:
            block_numbers = self.block_pixels * points * (2 + network.encoding.size)
            most_blocks = max(1, _MOST_CHUNK_NUMBERS // block_numbers)
        chunks = -(-blocks // most_blocks)
        size = network.parameter_count - self.encoding_numbers
        self.shards = min(blocks // chunks, MOST_SHARDS, max(1, _MOST_SHARD_NUMBERS // size))
        self.chunks = [
            [
                (min(pixels, start * self.block_pixels), min(pixels, end * self.block_pixels))
                for start, end in pairwise(_ends(first, last, self.shards))
            ]
            for first, last in pairwise(_ends(0, blocks, chunks))
        ]
        self.chunk_points = max(chunk[-1][1] - chunk[0][0] for chunk in self.chunks) * points
        self.encoding_parts = [
            (first, min(first + _PART_PARAMETERS, self.encoding_numbers))
            for first in range(0, self.encoding_numbers, _PART_PARAMETERS)
        ]
        optimizer = unclipped(objective.optimizer)
        hidden = optimizer.hidden_matrices if isinstance(optimizer, Muon) else ()
        self.matrices = [
            matrix
            for layer in range(len(network.layers))
            for name, matrix in _matrices(network, layer)
            if name in hidden
        ]
        self.layer_parts: list[tuple[int, int, int]] = []
        for layer, linear in enumerate(network.layers):
            rows = linear.fan_in + (linear.bias is not None)
            step = max(1, _PART_PARAMETERS // linear.fan_out)
            has_matrix = any(matrix[0] == layer for matrix in self.matrices)
            stretches = (0, linear.fan_in, rows) if has_matrix else (0, rows)
            for start, end in pairwise(stretches):
                self.layer_parts += [
                    (layer, first, min(end, first + step)) for first in range(start, end, step)
                ]


def _matrices(network: CoordinateNetwork, layer: int) -> list[tuple[str, tuple[int, int, int]]]:
    """List a layer's matrices: the parameter's name, and layer, first and end of its rows."""
    found, first = [], 0
    for name, tensor in network.layers[layer].parameters.items():
        if len(tensor.shape) == 2:
            end = first + tensor.shape[0]
            found.append((f"layers.{layer}.{name}", (layer, first, end)))
            first = end
    return found


def _ends(first: int, end: int, parts: int) -> list[int]:
    """Divide a range as evenly as possible; return the parts' beginnings and the last one's end."""
    return [first + (end - first) * i // parts for i in range(parts + 1)]
