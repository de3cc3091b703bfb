"""Convolution of images as matrix products, its forward beside its backward.

Windows are copied into the rows of a matrix, as in "im2col" (Chellapilla et al., "High performance
convolutional neural networks for document processing", IWFHR 2006), but a row serves a tile of
several neighbouring places: it holds all columns that the tile sees, and a banded matrix holds the
weights once for each place, with zeros between. Neighbours see mostly the same columns. Copying
them once saves more time than multiplying with the zeros costs, and the gradient of the input,
which adds up the rows where tiles overlap, has fewer rows to add.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from neuralfield.nn.tensor import Tensor, record
from neuralfield.nn.windows import (
    Pair,
    as_pair,
    padded_with,
    require_images,
    window_places,
    without_padding,
)
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.errors import ConfigError

BLOCK_VALUES = {"numpy": 1 << 17, "cupy": 1 << 26}
"""About the number of window values in memory at once: a core's cache, or little of a GPU's memory.
It affects the result, because gradients of weights are summed block by block."""

_MOST_PLACES = 16
_COPY_COST = 50
"""Multiplications that take as long as copying a value, forward and backward together."""

Block = tuple[slice, slice]
"""Slices of the images, and of the lines of the result."""


@dataclass(frozen=True)
class _Plan:
    """The matrix products of one convolution.

    A matrix of windows has the axes (group, image, line, tile, kernel line, column, channel); the
    first four number its rows, the last three the values of a row.
    """

    batch: int
    places: tuple[int, int]  # where the kernel lies: height and width of the result
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    channels_in: int  # of a group
    channels_out: int  # of a group
    tile: int  # neighbouring places that share a row; divides the width of the result

    @property
    def tiles(self) -> int:
        """Tiles in a line of the result."""
        return self.places[1] // self.tile

    @property
    def columns(self) -> int:
        """Columns of the image that a tile sees."""
        return _columns(self.tile, self.kernel[1], self.stride[1], self.dilation[1])

    @property
    def row_values(self) -> int:
        """Values in a row of the matrix of windows."""
        return self.kernel[0] * self.columns * self.channels_in

    def blocks(self, library: str) -> Iterator[Block]:
        """Yield the images, or lines of one image, of each block of work."""
        line_values = self.groups * self.tiles * self.row_values
        lines = max(1, BLOCK_VALUES[library] // line_values)
        images = max(1, lines // self.places[0])
        lines = min(lines, self.places[0])
        for first in range(0, self.batch, images):
            for line in range(0, self.places[0], lines):
                yield (
                    slice(first, min(first + images, self.batch)),
                    slice(line, min(line + lines, self.places[0])),
                )

    def windows(self, padded: Array) -> Array:
        """Return the matrix of windows as a view of the images, without a copy."""
        n, y, x, c = padded.strides
        shape = (self.batch, self.places[0], self.tiles, self.kernel[0], self.columns)
        steps = (n, self.stride[0] * y, self.tile * self.stride[1] * x, self.dilation[0] * y, x)
        return namespace_of(padded).lib.stride_tricks.as_strided(
            padded, (self.groups, *shape, self.channels_in), (self.channels_in * c, *steps, c)
        )

    def overlaps(self, padded: Array) -> list[tuple[int, slice, Array]]:
        """Return views of the images in which no two tiles see the same value.

        Each comes with its kernel line and its columns of a tile; the views' axes are those of
        `windows`, less the kernel line.
        """
        advance = self.tile * self.stride[1]
        windows, found = self.windows(padded), []
        for line in range(self.kernel[0]):
            for first in range(0, self.columns, advance):
                columns = slice(first, min(first + advance, self.columns))
                found.append((line, columns, windows[:, :, :, :, line, columns]))
        return found

    def band(self, weight: Array) -> Array:
        """Repeat weights for each place of a tile: (groups, row values, tile * channels out)."""
        kernel = weight.reshape(
            *self.kernel, self.channels_in, self.groups, self.channels_out
        ).transpose(3, 0, 1, 2, 4)
        band = namespace_of(weight).zeros(self._band_shape, dtype=weight.dtype)
        for place in range(self.tile):
            band[:, :, self._seen_from(place), :, place] = kernel
        return band.reshape(self.groups, self.row_values, self.tile * self.channels_out)

    def kernel_of(self, band: Array) -> Array:
        """Sum the values that belong to each weight: the transpose of `band`."""
        parts = band.reshape(self._band_shape)
        kernel = parts[:, :, self._seen_from(0), :, 0]
        for place in range(1, self.tile):
            kernel = kernel + parts[:, :, self._seen_from(place), :, place]
        shape = (*self.kernel, self.channels_in, self.groups * self.channels_out)
        return kernel.transpose(1, 2, 3, 0, 4).reshape(shape)

    @property
    def _band_shape(self) -> tuple[int, ...]:
        row = (self.kernel[0], self.columns, self.channels_in)
        return (self.groups, *row, self.tile, self.channels_out)

    def _seen_from(self, place: int) -> slice:
        """Return the columns of a tile that the kernel covers at a place."""
        first, step = place * self.stride[1], self.dilation[1]
        return slice(first, first + step * (self.kernel[1] - 1) + 1, step)

    def by_group(self, block: Array) -> Array:
        """Reshape a block of the result: (n, h, w, c) -> (groups, rows, tile * channels out)."""
        rows = block.size // (self.groups * self.tile * self.channels_out)
        if self.groups == 1:
            return block.reshape(1, rows, -1)
        split = block.reshape(rows, self.tile, self.groups, self.channels_out)
        return split.transpose(2, 0, 1, 3).reshape(self.groups, rows, -1)

    def from_groups(self, rows: Array) -> Array:
        """Invert `by_group` up to the shape, which is (rows, tile, groups, channels out)."""
        split = rows.reshape(self.groups, -1, self.tile, self.channels_out)
        return split.transpose(1, 2, 0, 3)


def conv2d(
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None = None,
    *,
    stride: Pair = 1,
    padding: Pair = 0,
    dilation: Pair = 1,
    groups: int = 1,
) -> Tensor:
    """Cross-correlate images with a kernel, which networks call convolution.

    y[n, i, j, o] = bias[o] + sum over a, b, c of
    x[n, stride i + dilation a - padding, stride j + dilation b - padding, c] weight[a, b, c, o],
    where x is 0 outside the images, and c runs over the channels of the group of o.

    The result does not depend on the order of threads. Besides input, result and their gradients,
    and a padded copy of the input where there is padding, about `BLOCK_VALUES` values are in memory
    (more only where a single line of the result takes more).

    Parameters
    ----------
    x : Tensor, shape (batch, height, width, channels in)
    weight : Tensor, shape (kernel height, kernel width, channels in / groups, channels out)
    bias : Tensor, shape (channels out,), optional
    stride, padding, dilation : int or (along the height, along the width)
        Steps between places; zeros on each side; steps between values that the kernel lies on.
    groups : int
        Equal parts of the channels, each with kernels of its own.

    Returns
    -------
    Tensor, shape (batch, places along the height, places along the width, channels out)
        See `neuralfield.nn.windows.window_places`.

    Raises
    ------
    ConfigError
        The shapes do not match, or the kernel is larger than the padded images.
    """
    margin = as_pair(padding, "conv2d", "padding", 0)
    plan = _plan(x.shape, weight.shape, stride, margin, dilation, groups)
    if bias is not None and bias.shape != weight.shape[3:]:
        raise ConfigError("conv2d", f"bias of shape {bias.shape}", f"shape {weight.shape[3:]}")
    xp = namespace_of(x.data)
    padded = padded_with(xp.ascontiguousarray(x.data), margin, 0)
    data = _forward(plan, padded, weight.data)
    parents = (x, weight)
    if bias is not None:
        data += bias.data
        parents += (bias,)

    def backward(g: Array) -> tuple[Array | None, ...]:
        g = xp.ascontiguousarray(g)
        gradients = _backward(plan, padded, weight.data, g, into_x=x.differentiable)
        image = None if gradients[0] is None else without_padding(gradients[0], margin)
        if bias is None:
            return image, gradients[1]
        rows = g.reshape(-1, g.shape[3])
        return image, gradients[1], xp.ones(len(rows), dtype=g.dtype) @ rows

    return record(data, parents, backward)


def _plan(
    x: tuple[int, ...],
    weight: tuple[int, ...],
    stride: Pair,
    padding: tuple[int, int],
    dilation: Pair,
    groups: int,
) -> _Plan:
    """Check the shapes, and choose how many neighbouring places share a row."""
    require_images(x, "conv2d")
    if len(weight) != 4:
        expected = "shape (kernel height, kernel width, channels in / groups, channels out)"
        raise ConfigError("conv2d", f"weight of shape {weight}", expected)
    if groups < 1 or x[3] % groups or weight[3] % groups:
        found = f"groups {groups} with {x[3]} channels in and {weight[3]} out"
        raise ConfigError("conv2d", found, "a divisor of both numbers of channels")
    if weight[2] * groups != x[3]:
        found = f"weight of shape {weight} with {groups} groups, for images of shape {x}"
        expected = f"{x[3] // groups} channels in a group"
        raise ConfigError("conv2d", found, expected)
    steps = as_pair(stride, "conv2d", "stride", 1)
    spread = as_pair(dilation, "conv2d", "dilation", 1)
    kernel, channels_out = (weight[0], weight[1]), weight[3] // groups
    places = window_places((x[1], x[2]), kernel, steps, padding, spread, "conv2d")

    def cost(tile: int) -> float:
        columns = _columns(tile, kernel[1], steps[1], spread[1])
        return columns * (_COPY_COST / tile + channels_out)

    divisors = (t for t in range(1, min(places[1], _MOST_PLACES) + 1) if places[1] % t == 0)
    tile = min(divisors, key=cost)
    return _Plan(x[0], places, kernel, steps, spread, groups, weight[2], channels_out, tile)


def _columns(tile: int, kernel: int, stride: int, dilation: int) -> int:
    return (tile - 1) * stride + (kernel - 1) * dilation + 1


def _forward(plan: _Plan, padded: Array, weight: Array) -> Array:
    xp = namespace_of(padded)
    channels_out = plan.groups * plan.channels_out
    result = xp.empty((plan.batch, *plan.places, channels_out), dtype=padded.dtype)
    windows, band = plan.windows(padded), plan.band(weight)
    buffer = _Buffer(padded)
    for images, lines in plan.blocks(xp.__name__):
        rows = buffer.copy_of(windows[:, images, lines]).reshape(plan.groups, -1, plan.row_values)
        block = result[images, lines]
        if plan.groups == 1:  # without a copy
            xp.matmul(rows[0], band[0], out=block.reshape(rows.shape[1], -1))
        else:
            block[...] = plan.from_groups(rows @ band).reshape(block.shape)
    return result


def _backward(
    plan: _Plan, padded: Array, weight: Array, g: Array, *, into_x: bool
) -> tuple[Array | None, Array]:
    """Compute gradients of the padded images, with `into_x`, and of the weights."""
    xp = namespace_of(padded)
    windows = plan.windows(padded)
    band = plan.band(weight).swapaxes(1, 2)
    band_gradients = xp.zeros((plan.groups, plan.row_values, band.shape[1]), dtype=padded.dtype)
    gradients = xp.zeros_like(padded) if into_x else None
    overlaps = plan.overlaps(gradients) if into_x else []
    buffer = _Buffer(padded)
    for images, lines in plan.blocks(xp.__name__):
        block = windows[:, images, lines]
        rows = buffer.copy_of(block).reshape(plan.groups, -1, plan.row_values)
        row_gradients = plan.by_group(g[images, lines])
        band_gradients += rows.swapaxes(1, 2) @ row_gradients
        if into_x:
            xp.matmul(row_gradients, band, out=rows)
            parts = rows.reshape(block.shape)
            # tiles of one view do not overlap, and the views are added one after another
            for line, columns, view in overlaps:
                view[:, images, lines] += parts[:, :, :, :, line, columns]
    return gradients, plan.kernel_of(band_gradients)


class _Buffer:
    """Memory that each block reuses; the first block is the largest."""

    def __init__(self, like: Array) -> None:
        self._like, self._memory = like, None

    def copy_of(self, view: Array) -> Array:
        """Copy a view into contiguous memory, over the previous copy."""
        if self._memory is None:
            self._memory = namespace_of(self._like).empty(view.size, dtype=self._like.dtype)
        copy = self._memory[: view.size].reshape(view.shape)
        copy[...] = view
        return copy
