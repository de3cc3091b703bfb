"""Pooling: one value for each window of an image, its forward beside its backward."""

from collections.abc import Iterator

from neuralfield.nn.convolution import require_images, window_places
from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of


def max_pool2d(x: Tensor, window: int) -> Tensor:
    """Take the largest value of each square window and channel of images, (batch, height, width,
    channels).

    Windows lie side by side; a rest at the end that is smaller than a window is ignored. Where
    several values are the largest, the gradient goes to the first of them, line by line. Raises
    `ConfigError` where a window is larger than the images.
    """
    require_images(x.shape, "max_pool2d")
    sides = (window, window)
    places = window_places((x.shape[1], x.shape[2]), sides, stride=window, where="max_pool2d")
    xp = namespace_of(x.data)
    planes = _planes(x.data, places, window)
    largest = next(planes).copy()
    index_type = xp.uint8 if window**2 <= 256 else xp.uint32
    winner = xp.zeros(largest.shape, dtype=index_type)  # the maximum's place in its window
    for index, plane in enumerate(planes, start=1):
        plane = xp.ascontiguousarray(plane)
        if x.differentiable:
            is_larger = (plane > largest).view(xp.uint8)
            xp.maximum(winner, is_larger * index_type(index), out=winner)
        xp.maximum(largest, plane, out=largest)
    shape = x.shape

    def backward(g: Array) -> tuple[Array]:
        gradients = xp.zeros(shape, dtype=g.dtype)
        for index, plane in enumerate(_planes(gradients, places, window)):
            xp.multiply(g, winner == index, out=plane)
        return (gradients,)

    return record(largest, (x,), backward)


def _planes(images: Array, places: tuple[int, int], window: int) -> Iterator[Array]:
    """Yield a view of all windows' values at each place of a window, line by line."""
    height, width = (count * window for count in places)
    for y in range(window):
        for x in range(window):
            yield images[:, y:height:window, x:width:window]
