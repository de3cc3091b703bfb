"""Max pooling, with forward and backward pass."""

from collections.abc import Iterator

from neuralfield.nn.convolution import require_images, window_places
from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of


def max_pool2d(x: Tensor, window: int) -> Tensor:
    """Compute the maximum of each square window and channel of images.

    The shape of x is (batch, height, width, channels). Windows do not overlap; a remainder smaller
    than a window at the right or bottom is ignored. If several values of a window are the maximum,
    the first of them, line by line, gets the gradient. Raises `ConfigError` if a window is larger
    than the images.
    """
    require_images(x.shape, "max_pool2d")
    sides = (window, window)
    places = window_places((x.shape[1], x.shape[2]), sides, stride=window, where="max_pool2d")
    xp = namespace_of(x.data)
    if xp.__name__ == "cupy":
        return _pool_in_few_launches(x, places, window)
    planes = _planes(x.data, places, window)
    largest = next(planes).copy()
    index_type = xp.uint8 if window**2 <= 256 else xp.uint32
    winner = xp.zeros(largest.shape, dtype=index_type)  # index of the maximum in its window
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


def _pool_in_few_launches(x: Tensor, places: tuple[int, int], window: int) -> Tensor:
    """Compute the same with a copy of the windows, in a third of the launches on a GPU."""
    xp, (batch, *_, channels), (rows, columns) = namespace_of(x.data), x.shape, places

    def windows(images: Array) -> Array:
        inner = images[:, : rows * window, : columns * window]
        parts = inner.reshape(batch, rows, window, columns, window, channels)
        return parts.transpose(0, 1, 3, 5, 2, 4)  # a view

    values = windows(x.data).reshape(batch, rows, columns, channels, window**2)  # a copy
    winner = values.argmax(axis=-1)

    def backward(g: Array) -> tuple[Array]:
        gradients = xp.zeros(x.shape, dtype=g.dtype)
        is_winner = winner[..., None] == xp.arange(window**2)
        windows(gradients)[...] = (g[..., None] * is_winner).reshape(*g.shape, window, window)
        return (gradients,)

    return record(values.max(axis=-1), (x,), backward)


def _planes(images: Array, places: tuple[int, int], window: int) -> Iterator[Array]:
    """Yield, for each position in a window, line by line, a view of the values of all windows."""
    height, width = (count * window for count in places)
    for y in range(window):
        for x in range(window):
            yield images[:, y:height:window, x:width:window]
