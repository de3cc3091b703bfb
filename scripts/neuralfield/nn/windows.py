"""Windows that slide over pictures: where they lie, for convolutions and pooling alike."""

from neuralfield.system.device import Array, namespace_of
from neuralfield.system.errors import ConfigError

Pair = int | tuple[int, int]
"""(along the height, along the width), or one number for both."""


def as_pair(value: Pair, where: str, name: str, at_least: int) -> tuple[int, int]:
    """Both numbers.

    Raises
    ------
    ConfigError
        They are not whole numbers from `at_least` up.
    """
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
    dilation: tuple[int, int] = (1, 1),
    where: str = "windows",
) -> tuple[int, int]:
    """At how many places along the height and the width a window fits.

    Parameters
    ----------
    sides : (height, width)
        Of the picture, without padding.
    window, stride, padding, dilation : (along the height, along the width)
    where : str
        What the error names.

    Raises
    ------
    ConfigError
        The window is larger than the padded picture.
    """
    padded = [side + 2 * pad for side, pad in zip(sides, padding, strict=True)]
    extent = [d * (k - 1) + 1 for k, d in zip(window, dilation, strict=True)]
    if any(inside > side for inside, side in zip(extent, padded, strict=True)):
        found = f"pictures of {padded[0]} x {padded[1]} values with their padding"
        expected = f"at least the {extent[0]} x {extent[1]} of a window"
        remedy = "make the window smaller, or the padding wider"
        raise ConfigError(where, found, expected, remedy)
    height, width = (
        (side - inside) // step + 1
        for side, inside, step in zip(padded, extent, stride, strict=True)
    )
    return height, width


def require_pictures(shape: tuple[int, ...], where: str) -> None:
    """Check that an array holds a batch of pictures.

    Raises
    ------
    ConfigError
    """
    if len(shape) != 4:
        raise ConfigError(where, f"shape {shape}", "shape (batch, height, width, channels)")


def padded_with(x: Array, padding: tuple[int, int], value: float) -> Array:
    """Pictures with a margin: (n, h, w, c) -> (n, h + 2 p, w + 2 q, c); `x` itself without one."""
    if padding == (0, 0):
        return x
    (up, left), (batch, height, width, channels) = padding, x.shape
    shape = (batch, height + 2 * up, width + 2 * left, channels)
    padded = namespace_of(x).full(shape, value, dtype=x.dtype)
    padded[:, up : up + height, left : left + width] = x
    return padded


def without_padding(x: Array, padding: tuple[int, int]) -> Array:
    """What `padded_with` was given."""
    (up, left), (_, height, width, _) = padding, x.shape
    return namespace_of(x).ascontiguousarray(x[:, up : height - up, left : width - left])
