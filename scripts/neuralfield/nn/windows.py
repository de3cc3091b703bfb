"""Places of windows on images, for convolution and pooling."""

from neuralfield.system.device import Array, namespace_of
from neuralfield.system.errors import ConfigError

Pair = int | tuple[int, int]
"""(along the height, along the width), or one number for both."""


def as_pair(value: Pair, where: str, name: str, at_least: int) -> tuple[int, int]:
    """Return both numbers; raises `ConfigError` unless they are whole and >= `at_least`."""
    pair = (value, value) if isinstance(value, int) else tuple(value)
    if len(pair) != 2 or not all(isinstance(n, int) and n >= at_least for n in pair):
        expected = f"a whole number from {at_least} up, or two of them"
        raise ConfigError(where, f"{name} {value!r}", expected)
    return pair


def window_places(
    sides: tuple[int, int],
    window: tuple[int, int],
    stride: tuple[int, int],
    padding: tuple[int, int] = (0, 0),
    where: str = "windows",
) -> tuple[int, int]:
    """Count the places of a window along the height and the width of an image.

    All pairs are (along the height, along the width), and `sides` are those of the image without
    padding. Raises `ConfigError`, which names the operation or setting `where`, if the window is
    larger than the padded image.
    """
    padded = [side + 2 * pad for side, pad in zip(sides, padding, strict=True)]
    if any(inside > side for inside, side in zip(window, padded, strict=True)):
        found = f"images of {padded[0]} x {padded[1]} values with their padding"
        expected = f"at least the {window[0]} x {window[1]} of a window"
        remedy = "make the window smaller, or the padding wider"
        raise ConfigError(where, found, expected, remedy)
    height, width = (
        (side - inside) // step + 1
        for side, inside, step in zip(padded, window, stride, strict=True)
    )
    return height, width


def require_images(shape: tuple[int, ...], where: str) -> None:
    """Check that a shape is that of a batch of images; raises `ConfigError`."""
    if len(shape) != 4:
        raise ConfigError(where, f"shape {shape}", "shape (batch, height, width, channels)")


def padded_with(x: Array, padding: tuple[int, int], value: float) -> Array:
    """Add a margin to images: (n, h, w, c) -> (n, h + 2 p, w + 2 q, c); no copy without one."""
    if padding == (0, 0):
        return x
    (up, left), (batch, height, width, channels) = padding, x.shape
    shape = (batch, height + 2 * up, width + 2 * left, channels)
    padded = namespace_of(x).full(shape, value, dtype=x.dtype)
    padded[:, up : up + height, left : left + width] = x
    return padded


def without_padding(x: Array, padding: tuple[int, int]) -> Array:
    """Remove the margin that `padded_with` added."""
    (up, left), (_, height, width, _) = padding, x.shape
    return namespace_of(x).ascontiguousarray(x[:, up : height - up, left : width - left])
