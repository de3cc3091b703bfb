"""Pooling: one value for each window of an image, its forward beside its backward."""

from collections.abc import Iterator

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


def max_pool2d(x: Tensor, window: Pair, stride: Pair | None = None, *, padding: Pair = 0) -> Tensor:
    """Take the largest value of each window and channel of images, (batch, height, width,
    channels).

    By default windows lie side by side; a rest at the end that is smaller than a window is ignored.
    `padding` counts places on each side that are never the maximum; at most half a window. Where
    several values are the largest, the gradient goes to the first of them, line by line. Raises
    `ConfigError` where a window is larger than the padded images, or the padding than half a
    window.
    """
    require_images(x.shape, "max_pool2d")
    sides = as_pair(window, "max_pool2d", "window", 1)
    steps = sides if stride is None else as_pair(stride, "max_pool2d", "stride", 1)
    margin = as_pair(padding, "max_pool2d", "padding", 0)
    if any(2 * pad > side for pad, side in zip(margin, sides, strict=True)):
        found = f"padding {padding!r} of windows {window!r}"
        raise ConfigError("max_pool2d", found, "at most half a window")
    places = window_places((x.shape[1], x.shape[2]), sides, steps, margin, "max_pool2d")
    xp = namespace_of(x.data)
    padded = padded_with(x.data, margin, -xp.inf)
    index_type = xp.uint8 if sides[0] * sides[1] <= 256 else xp.uint32
    planes = _planes(padded, places, sides, steps)
    largest = next(planes).copy()
    winner = xp.zeros(largest.shape, dtype=index_type)  # the maximum's place in its window
    for index, plane in enumerate(planes, start=1):
        plane = xp.ascontiguousarray(plane)
        if x.differentiable:
            is_larger = (plane > largest).view(xp.uint8)
            xp.maximum(winner, is_larger * index_type(index), out=winner)
        xp.maximum(largest, plane, out=largest)
    shape, is_disjoint = padded.shape, all(s >= k for s, k in zip(steps, sides, strict=True))

    def backward(g: Array) -> tuple[Array]:
        gradients = xp.zeros(shape, dtype=g.dtype)
        for index, plane in enumerate(_planes(gradients, places, sides, steps)):
            if is_disjoint:
                xp.multiply(g, winner == index, out=plane)
            else:
                plane += g * (winner == index)
        return (without_padding(gradients, margin),)

    return record(largest, (x,), backward)


def _planes(
    images: Array, places: tuple[int, int], window: tuple[int, int], stride: tuple[int, int]
) -> Iterator[Array]:
    """Yield a view of all windows' values at each place of a window, line by line."""
    ends = [(count - 1) * step + 1 for count, step in zip(places, stride, strict=True)]
    for y in range(window[0]):
        for x in range(window[1]):
            yield images[:, y : y + ends[0] : stride[0], x : x + ends[1] : stride[1]]
