"""Convolution of images as matrix products, with forward and backward pass.

Windows are copied into the rows of a matrix, as in "im2col" (Chellapilla et al., "High performance
convolutional neural networks for document processing", IWFHR 2006), but each row contains the
windows of a tile of several neighbouring positions. A row contains all columns of the image that
the tile needs, and a banded matrix contains the weights once for each position of the tile, with
zeros in between. Neighbouring windows mostly contain the same columns: copying these only once
saves more time than the multiplications by zeros cost. The gradient of the input is a convolution
of the result's gradient with the mirrored kernel.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.errors import ConfigError

BLOCK_VALUES = {"numpy": 1 << 17, "cupy": 1 << 26}
"""Approximate number of window values in memory at a time, which fits in the cache of a CPU core or
in a small part of a GPU's memory. The result depends on it, because gradients of weights are summed
block by block."""

_MOST_PLACES = 16
_COPY_COST = 50
"""Time to copy a value, in multiplications, for forward and backward pass together."""


@dataclass(frozen=True)
class _Plan:
    """The matrix products of one convolution.

    A matrix of windows has the axes (image, line, tile, kernel line, column, channel); the first
    three number its rows, the last three the values of a row.
    """

    batch: int
    places: tuple[int, int]  # positions of the kernel: height and width of the result
    kernel: tuple[int, int]
    channels_in: int
    channels_out: int
    tile: int  # neighbouring positions that share a row; divides the width of the result

    @property
    def tiles(self) -> int:
        """The number of tiles in a line of the result."""
        return self.places[1] // self.tile

    @property
    def columns(self) -> int:
        """The number of columns of the image that a tile needs."""
        return self.tile + self.kernel[1] - 1

    @property
    def row_values(self) -> int:
        """The number of values in a row of the matrix of windows."""
        return self.kernel[0] * self.columns * self.channels_in

    def blocks(self, padded: Array) -> Iterator[tuple[slice, slice, Array]]:
        """Yield blocks of several images, or of several lines of one image.

        A block consists of slices of the images and of the lines of the result, and a copy of their
        windows, in contiguous memory that the next block overwrites.
        """
        xp, windows, memory = namespace_of(padded), self.windows(padded), None
        lines = max(1, BLOCK_VALUES[xp.__name__] // (self.tiles * self.row_values))
        images = max(1, lines // self.places[0])
        lines = min(lines, self.places[0])
        for first in range(0, self.batch, images):
            for line in range(0, self.places[0], lines):
                some_images = slice(first, min(first + images, self.batch))
                some_lines = slice(line, min(line + lines, self.places[0]))
                view = windows[some_images, some_lines]
                if memory is None:  # the first block is the largest
                    memory = xp.empty(view.size, dtype=padded.dtype)
                copy = memory[: view.size].reshape(view.shape)
                copy[...] = view
                yield some_images, some_lines, copy

    def windows(self, padded: Array) -> Array:
        """Return the matrix of windows as a view of the images, without a copy."""
        n, y, x, c = padded.strides
        row = (self.kernel[0], self.columns, self.channels_in)
        return namespace_of(padded).lib.stride_tricks.as_strided(
            padded, (self.batch, self.places[0], self.tiles, *row), (n, y, self.tile * x, y, x, c)
        )

    def band(self, weight: Array) -> Array:
        """Repeat weights for each position of a tile: (row values, tile * channels out)."""
        band = namespace_of(weight).zeros(self._band_shape, dtype=weight.dtype)
        for place in range(self.tile):
            band[:, place : place + self.kernel[1], :, place] = weight
        return band.reshape(self.row_values, -1)

    def kernel_of(self, band: Array) -> Array:
        """Sum the values that belong to each weight: the transpose of `band`."""
        parts = band.reshape(self._band_shape)
        kernel = parts[:, : self.kernel[1], :, 0]
        for place in range(1, self.tile):
            kernel = kernel + parts[:, place : place + self.kernel[1], :, place]
        return kernel

    @property
    def _band_shape(self) -> tuple[int, ...]:
        return (self.kernel[0], self.columns, self.channels_in, self.tile, self.channels_out)


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, padding: int = 0) -> Tensor:
    """Cross-correlate images with a kernel, which networks call convolution.

    y[n, i, j, o] = bias[o] + sum over a, b, c of
    x[n, i + a - padding, j + b - padding, c] weight[a, b, c, o], where x is 0 outside the images.

    The shape of `x` is (batch, height, width, channels in), that of `weight` (kernel height, kernel
    width, channels in, channels out), and that of the result (batch, positions along the height,
    positions along the width, channels out). The result is deterministic. In addition to the input,
    the result, their gradients, and padded copies of the input and of the result's gradient, about
    `BLOCK_VALUES` values are in memory (more only if a single line of the result needs more).
    Raises `ConfigError` if the shapes do not match.
    """
    plan = _plan(x.data, weight.shape, padding)
    if bias is not None and bias.shape != weight.shape[3:]:
        raise ConfigError("conv2d", f"bias of shape {bias.shape}", f"shape {weight.shape[3:]}")
    xp = namespace_of(x.data)
    padded = _padded(x.data, padding, padding)
    data = _forward(plan, padded, weight.data)
    parents = (x, weight)
    if bias is not None:
        data += bias.data
        parents += (bias,)

    def backward(g: Array) -> tuple[Array | None, ...]:
        g = xp.ascontiguousarray(g)
        image = _image_gradients(plan, weight.data, g, padding) if x.differentiable else None
        kernel = _weight_gradients(plan, padded, g)
        if bias is None:
            return image, kernel
        rows = g.reshape(-1, g.shape[3])
        return image, kernel, xp.ones(len(rows), dtype=g.dtype) @ rows

    return record(data, parents, backward)


def window_places(
    sides: tuple[int, int],
    window: tuple[int, int],
    *,
    stride: int = 1,
    padding: int = 0,
    where: str,
) -> tuple[int, int]:
    """Return the number of positions of a window along the height and the width of an image.

    Raises `ConfigError`, which names the operation or setting `where`, if the window is larger
    than the padded image.
    """
    height, width = (side + 2 * padding for side in sides)
    if window[0] > height or window[1] > width:
        found = f"images of {height} x {width} values with their padding"
        expected = f"at least the {window[0]} x {window[1]} of a window"
        remedy = "make the window smaller, or the padding wider"
        raise ConfigError(where, found, expected, remedy)
    return (height - window[0]) // stride + 1, (width - window[1]) // stride + 1


def require_images(shape: tuple[int, ...], where: str) -> None:
    """Check that a shape is that of a batch of images; raises `ConfigError`."""
    if len(shape) != 4:
        raise ConfigError(where, f"shape {shape}", "shape (batch, height, width, channels)")


def _plan(x: Array, weight: tuple[int, ...], padding: int) -> _Plan:
    """Check the shapes, and choose the number of neighbouring positions that share a row."""
    require_images(x.shape, "conv2d")
    if len(weight) != 4:
        expected = "shape (kernel height, kernel width, channels in, channels out)"
        raise ConfigError("conv2d", f"weight of shape {weight}", expected)
    if weight[2] != x.shape[3]:
        found = f"weight of shape {weight} for images of shape {x.shape}"
        raise ConfigError("conv2d", found, f"{x.shape[3]} channels in")
    *kernel, channels_in, channels_out = weight
    sides = (kernel[0], kernel[1])
    places = window_places(x.shape[1:3], sides, padding=padding, where="conv2d")
    tile = _tile(namespace_of(x).__name__, places[1], kernel[1], channels_out)
    return _Plan(len(x), places, sides, channels_in, channels_out, tile)


def _tile(library: str, positions: int, kernel_width: int, channels_out: int) -> int:
    """Choose the number of neighbouring positions of a tile."""
    if library == "cupy":
        return 1  # on a GPU, launches cost more than copies

    def cost(tile: int) -> float:
        return (tile + kernel_width - 1) * (_COPY_COST / tile + channels_out)

    return min(
        (t for t in range(1, min(positions, _MOST_PLACES) + 1) if positions % t == 0), key=cost
    )


def _padded(images: Array, rows: int, columns: int) -> Array:
    """Return images with zeros around them, in contiguous memory."""
    xp = namespace_of(images)
    if not (rows or columns):
        return xp.ascontiguousarray(images)
    batch, height, width, channels = images.shape
    shape = (batch, height + 2 * rows, width + 2 * columns, channels)
    padded = xp.zeros(shape, dtype=images.dtype)
    padded[:, rows : rows + height, columns : columns + width] = images
    return padded


def _forward(plan: _Plan, padded: Array, weight: Array) -> Array:
    xp = namespace_of(padded)
    result = xp.empty((plan.batch, *plan.places, plan.channels_out), dtype=padded.dtype)
    band = plan.band(weight)
    for images, lines, windows in plan.blocks(padded):
        rows = windows.reshape(-1, plan.row_values)
        xp.matmul(rows, band, out=result[images, lines].reshape(len(rows), -1))  # without a copy
    return result


def _weight_gradients(plan: _Plan, padded: Array, g: Array) -> Array:
    xp, row_outputs = namespace_of(padded), plan.tile * plan.channels_out
    # the first axis has length 1, because CuPy may sum products of plain matrices in another order
    band_gradients = xp.zeros((1, plan.row_values, row_outputs), dtype=padded.dtype)
    for images, lines, windows in plan.blocks(padded):
        rows = windows.reshape(1, -1, plan.row_values)
        band_gradients += rows.swapaxes(1, 2) @ g[images, lines].reshape(1, -1, row_outputs)
    return plan.kernel_of(band_gradients)


def _image_gradients(plan: _Plan, weight: Array, g: Array, padding: int) -> Array:
    """Convolve the gradients of the result with the mirrored kernel."""
    mirrored = weight[::-1, ::-1].swapaxes(2, 3)
    rows, columns = (side - 1 - padding for side in plan.kernel)
    outer = slice(max(0, -rows), g.shape[1] + min(0, rows))  # without what only padding has seen
    padded = _padded(
        g[:, outer, max(0, -columns) : g.shape[2] + min(0, columns)],
        max(0, rows),
        max(0, columns),
    )
    return _forward(_plan(padded, mirrored.shape, 0), padded, mirrored)
