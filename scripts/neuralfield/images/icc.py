"""ICC profiles that consist of curves and a matrix, computed in float64.

Little CMS has 8 bits per channel when it is used through Pillow, and 16 bits with an error of up to
51 levels of 65,535 when it is used through libvips. Nearly all profiles of RGB and grey images
consist of three curves and a matrix, or of one curve, and are computed here. Format: ICC.1:2022.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Curve = Callable[[np.ndarray], np.ndarray]
"""A function that converts a channel's values in [0, 1] to linear light."""

D50 = np.array([0.9642, 1.0, 0.8249])
"""White point of the profile connection space, in XYZ."""

SRGB_TO_XYZ = np.array(
    [
        [0.4360747, 0.3850649, 0.1430804],
        [0.2225045, 0.7168786, 0.0606169],
        [0.0139322, 0.0971045, 0.7141733],
    ]
)
"""Matrix from linear sRGB to XYZ, adapted to D50 with Bradford's matrix."""

_LARGEST_CURVE = 1 << 16
_TAGS = 256
_WHITE_TOLERANCE = 0.02


@dataclass(frozen=True)
class Profile:
    """An ICC profile without its tables."""

    name: str  # description of the profile
    space: str  # ``RGB``, ``GRAY``, ``CMYK``, ``Lab`` or another name of the format
    curves: tuple[Curve, ...] = ()  # three for RGB, one for grey; none if the profile has tables
    matrix: np.ndarray | None = None
    """Matrix from the profile's linear light to that of sRGB, float64, shape (3, 3); only for RGB
    with curves."""

    def to_linear(self, values: np.ndarray) -> np.ndarray:
        """Convert values in [0, 1], shape (n, channels), to linear light of sRGB, not clipped."""
        light = [curve(values[:, c]) for c, curve in enumerate(self.curves)]
        linear = np.stack(light, axis=1)
        return linear if self.matrix is None else linear @ self.matrix.T


def read_profile(content: bytes) -> Profile:
    """Read a profile; raises ValueError if it is damaged."""
    if len(content) < 132 or content[36:40] != b"acsp":
        raise ValueError("not an ICC profile")
    space, connection = content[16:20].decode("latin-1").strip(), content[20:24]
    (count,) = struct.unpack_from(">I", content, 128)
    if count > _TAGS or len(content) < 132 + 12 * count:
        raise ValueError("a damaged list of tags")
    tags = {}
    for entry in range(count):
        name, start, size = struct.unpack_from(">4sII", content, 132 + 12 * entry)
        if start + size > len(content):
            raise ValueError("a tag that extends beyond the profile")
        tags[name] = content[start : start + size]
    name = _description(tags.get(b"desc", b"")) or "an unnamed profile"
    if any(tag in tags for tag in (b"A2B0", b"A2B1", b"A2B2")):
        return Profile(name, space)
    if space == "GRAY" and b"kTRC" in tags:
        curve = _curve(tags[b"kTRC"])
        return Profile(name, space, (_of_lightness(curve) if connection == b"Lab " else curve,))
    curve_names, column_names = (b"rTRC", b"gTRC", b"bTRC"), (b"rXYZ", b"gXYZ", b"bXYZ")
    if space == "RGB" and connection == b"XYZ " and {*curve_names, *column_names} <= set(tags):
        columns = np.stack([_xyz(tags[column]) for column in column_names], axis=1)
        matrix = np.linalg.inv(SRGB_TO_XYZ) @ columns
        white = matrix.sum(axis=1, keepdims=True)
        if np.abs(white - 1).max() < _WHITE_TOLERANCE:
            matrix /= white  # removes rounding errors, so that grey and white stay neutral
        return Profile(name, space, tuple(_curve(tags[curve]) for curve in curve_names), matrix)
    return Profile(name, space)


def encode_srgb(linear: np.ndarray) -> np.ndarray:
    """Encode linear light, clipped to [0, 1], as values of sRGB (IEC 61966-2-1)."""
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def _description(tag: bytes) -> str:
    """Decode a description of version 2 or 4; return '' if there is none."""
    try:
        if tag[:4] == b"desc":
            (length,) = struct.unpack_from(">I", tag, 8)
            text = tag[12 : 12 + length].decode("latin-1")
        else:
            size, start = struct.unpack_from(">II", tag, 20)
            text = tag[start : start + size].decode("utf-16-be", "replace")
    except struct.error:
        return ""
    return text.rstrip("\0").strip()[:80]


def _xyz(tag: bytes) -> np.ndarray:
    if len(tag) < 20:
        raise ValueError("a damaged colour")
    return np.array(struct.unpack_from(">3i", tag, 8)) / 65536


def _of_lightness(curve: Curve) -> Curve:
    """Convert a curve whose results are L* / 100 to a curve whose results are linear light."""

    def linear(values: np.ndarray) -> np.ndarray:
        root = (100 * curve(values) + 16) / 116
        return np.where(root > 6 / 29, root**3, 3 * (6 / 29) ** 2 * (root - 4 / 29))

    return linear


def _curve(tag: bytes) -> Curve:
    """Read a tone curve: a power function, a table, or one of the format's five formulas."""
    kind = tag[:4]
    if kind == b"curv" and len(tag) >= 12:
        (count,) = struct.unpack_from(">I", tag, 8)
        if count > _LARGEST_CURVE or len(tag) < 12 + 2 * count:
            raise ValueError("a damaged curve")
        table = np.frombuffer(tag, ">u2", count, 12)
        if count == 0:
            return lambda values: values
        if count == 1:
            return _formula(0, [int(table[0]) / 256])
        places, heights = np.linspace(0, 1, count), table / 65535
        return lambda values: np.interp(values, places, heights)
    if kind == b"para" and len(tag) >= 12:
        (number,) = struct.unpack_from(">H", tag, 8)
        length = (1, 3, 4, 5, 7)[number] if number < 5 else 0
        if length and len(tag) >= 12 + 4 * length:
            return _formula(number, [n / 65536 for n in struct.unpack_from(f">{length}i", tag, 12)])
    raise ValueError("a damaged curve")


def _formula(number: int, parameters: list[float]) -> Curve:
    """Return formula `number` of ICC.1:2022, 10.18, with its parameters g, a, b, c, d, e and f."""
    g, a, b, c, d, e, f = {
        0: lambda g: (g, 1, 0, 0, 0, 0, 0),
        1: lambda g, a, b: (g, a, b, 0, -b / a, 0, 0),
        2: lambda g, a, b, c: (g, a, b, 0, -b / a, c, c),
        3: lambda g, a, b, c, d: (g, a, b, c, d, 0, 0),
        4: lambda g, a, b, c, d, e, f: (g, a, b, c, d, e, f),
    }[number](*parameters)
    if not g > 0:
        raise ValueError("a damaged curve")

    def curve(values: np.ndarray) -> np.ndarray:
        power = np.maximum(a * values + b, 0) ** g + e
        return np.where(values >= d, power, c * values + f)

    return curve
