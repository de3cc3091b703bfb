"""Small generated ICC profiles: none may be shipped, and Pillow only makes sRGB, LAB and XYZ."""

import struct

import numpy as np

BRADFORD = np.array(
    [[0.8951, 0.2664, -0.1614], [-0.7502, 1.7135, 0.0367], [0.0389, -0.0685, 1.0296]]
)
D50 = np.array([0.9642, 1.0, 0.8249])
D65, D50_XY = (0.3127, 0.3290), (0.3457, 0.3585)
ADOBE_RGB = ((0.64, 0.33), (0.21, 0.71), (0.15, 0.06))
PROPHOTO = ((0.7347, 0.2653), (0.1596, 0.8404), (0.0366, 0.0001))
SRGB = ((0.64, 0.33), (0.30, 0.60), (0.15, 0.06))


def xyz_of(x: float, y: float) -> np.ndarray:
    return np.array([x / y, 1, (1 - x - y) / y])


def to_xyz(primaries: tuple, white: tuple[float, float]) -> np.ndarray:
    """Return the matrix from linear RGB to XYZ, adapted to D50."""
    columns = np.stack([xyz_of(*primary) for primary in primaries], axis=1)
    columns = columns * np.linalg.solve(columns, xyz_of(*white))
    ratio = (BRADFORD @ D50) / (BRADFORD @ xyz_of(*white))
    return np.linalg.inv(BRADFORD) @ np.diag(ratio) @ BRADFORD @ columns


def power(exponent: float) -> bytes:
    return b"curv\0\0\0\0" + struct.pack(">IH", 1, round(exponent * 256)) + b"\0\0"


def profile(
    space: bytes, name: str, tags: dict[bytes, bytes], connection: bytes = b"XYZ "
) -> bytes:
    """Return a display profile of version 2."""
    text = name.encode() + b"\0"
    described = b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(78)
    white = b"XYZ \0\0\0\0" + struct.pack(">3i", *np.rint(D50 * 65536).astype(int))
    tags = {b"desc": described, b"wtpt": white, b"cprt": b"text\0\0\0\0none\0"} | tags
    directory, data = struct.pack(">I", len(tags)), b""
    start = 128 + 4 + 12 * len(tags)
    for tag, content in tags.items():
        content += bytes(-len(content) % 4)
        directory += struct.pack(">4sII", tag, start + len(data), len(content))
        data += content
    kind = b"prtr" if space == b"CMYK" else b"mntr"
    header = struct.pack(
        ">I4sI4s4s4s", start + len(data), b"none", 0x02400000, kind, space, connection
    )
    header += bytes(12) + b"acsp" + bytes(28)
    header += struct.pack(">3i", *np.rint(D50 * 65536).astype(int))
    return header.ljust(128, b"\0") + directory + data


def rgb_profile(name: str, primaries: tuple, white: tuple[float, float], curve: bytes) -> bytes:
    columns = np.rint(to_xyz(primaries, white) * 65536).astype(int)
    tags = {
        letter + b"XYZ": b"XYZ \0\0\0\0" + struct.pack(">3i", *columns[:, place])
        for place, letter in enumerate((b"r", b"g", b"b"))
    }
    return profile(b"RGB ", name, tags | dict.fromkeys((b"rTRC", b"gTRC", b"bTRC"), curve))


def grey_profile(name: str, curve: bytes) -> bytes:
    return profile(b"GRAY", name, {b"kTRC": curve})


def cmyk_profile(name: str = "Test ink") -> bytes:
    """Return a profile with 8-bit tables to Lab: inks darken more than the plain rule, and tint."""
    points = np.linspace(0, 1, 5)
    c, m, y, k = np.meshgrid(points, points, points, points, indexing="ij")
    light = (1 - 0.9 * c) * (1 - 0.8 * m) * (1 - 0.2 * y) * (1 - k) ** 1.5
    a = (-40 * c + 70 * m - 5 * y) * (1 - k)
    b = (-45 * c - 5 * m + 80 * y) * (1 - k)
    lab = np.stack([100 * light ** (1 / 3) * 2.55, a + 128, b + 128], axis=-1)
    grid = np.rint(np.clip(lab, 0, 255)).astype(np.uint8).tobytes()
    ramp = bytes(range(256))
    identity = struct.pack(">9i", *(np.eye(3, dtype=int) * 65536).ravel())
    lut = b"mft1\0\0\0\0" + bytes([4, 3, 5, 0]) + identity + 4 * ramp + grid + 3 * ramp
    return profile(b"CMYK", name, {b"A2B0": lut, b"A2B1": lut}, b"Lab ")


ADOBE = rgb_profile("Adobe RGB (1998)", ADOBE_RGB, D65, power(2.19921875))
PRO_PHOTO = rgb_profile("ProPhoto RGB", PROPHOTO, D50_XY, power(1.8))
GAMMA_1_8 = grey_profile("Grey gamma 1.8", power(1.8))


def encode_srgb(linear: np.ndarray) -> np.ndarray:
    """Encode linear light as values of sRGB (IEC 61966-2-1)."""
    linear = np.clip(linear, 0, 1)
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)


def truth(levels: np.ndarray, primaries: tuple, white: tuple, exponent: float) -> np.ndarray:
    """Compute sRGB in [0, 1] by the definition of an RGB space, in float64."""
    linear = (levels / np.iinfo(levels.dtype).max) ** exponent
    to_srgb = np.linalg.inv(to_xyz(SRGB, D65)) @ to_xyz(primaries, white)
    return encode_srgb(linear @ to_srgb.T)
