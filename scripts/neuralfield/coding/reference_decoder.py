"""The reference decoder of .nfz files: NumPy alone, in the words of docs/format.md.

It is not fast, and it trusts its input: `neuralfield.decode` checks sizes before it allocates. It
imports nothing of the package, so that it can be copied, and be read beside the page. Of a large
image in tiles, it decodes the file of each tile.
"""

import zlib
from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

INPUTS = 18
NEIGHBOURS = (
    *((0, -1), (-1, 0), (-1, -1), (-1, 1), (0, -2), (-2, 0), (-1, -2), (-1, 2)),
    *((-2, -1), (-2, 1), (-2, -2), (-2, 2), (0, -3), (-3, 0)),
)
AROUND = (
    *(((0, -1), (0, 1)), ((-1, 0), (1, 0)), ((-1, -1), (-1, 1), (1, -1), (1, 1))),
    *(((0, -2), (0, 2)), ((-2, 0), (2, 0))),
)
ROOTS = np.array([max(n for n in range(2**15 + 1) if n**64 <= 1 << 960 - i) for i in range(64)])
FINE = np.array([2**15 - (j * 5678 >> 10) + (j * j >> 11) for j in range(64)])

Layer = tuple[np.ndarray, np.ndarray, int]
"""Weights, what sums begin with, and by how many bits sums are shifted."""


def decode(content: bytes) -> np.ndarray:
    """Decode a file; return levels, uint8, shape (height, width, channels)."""
    if content[:4] == b"NFZT":
        raise ValueError("an image in tiles: decode the file of each")
    if content[:4] != b"NFZ\2" or zlib.crc32(content[:-4]) != int.from_bytes(
        content[-4:], "little"
    ):
        raise ValueError("not an undamaged file of version 2")
    head = iter(content[4:-4])
    width, height = _varint(head), _varint(head)
    _, channels, grids, hidden, lanes_log2 = (next(head) for _ in range(5))
    largest = [next(head) for _ in range(grids)]
    shapes = [
        *[(INPUTS, INPUTS, INPUTS)] * 2,
        *[(2, INPUTS, 2), (grids - 1, 4, 0)],
        *[(hidden, grids + 5, hidden), (channels, hidden + grids + 5, channels)],
    ]
    counts = [count for rows, columns, biases in shapes for count in (rows * columns, biases)]
    parts = [(next(head), next(head)) if count else (0, 0) for count in counts]
    states = [sum(next(head) << 8 * i for i in range(4)) for _ in range(1 << lanes_log2)]
    symbols = _Symbols(states, head)
    values, layers = [], []
    for count, (code, scale) in zip(counts, parts, strict=True):
        most, s = (1 << (code & 15)) - 1, np.full(count, 8 * scale - 384)
        values.append(symbols.read(most, np.zeros(count, int), s))
    for number, (rows, columns, biases) in enumerate(shapes):
        bits, bias_bits = parts[2 * number][0] >> 4, parts[2 * number + 1][0] >> 4
        start = values[2 * number + 1] << (8 + bits - bias_bits) if biases else np.zeros(rows, int)
        weights = values[2 * number].reshape(rows, columns)
        layers.append((weights, start + (1 << bits >> 1), bits))
    latents = [np.zeros((-(-height // 2**k), -(-width // 2**k)), int) for k in range(grids)]
    for k in reversed(range(grids)):
        if largest[k]:
            _read_grid(latents, k, largest[k], layers[:3], symbols)
    return _synthesised(latents, layers[3:], channels)


def _varint(head: Iterator[int]) -> int:
    number = shift = 0
    while True:
        byte = next(head)
        number |= (byte & 127) << shift
        if byte < 128:
            return number
        shift += 7


class _Symbols:
    """The symbols of the stream, which states decode in turns."""

    def __init__(self, states: list[int], stream: Iterator[int]) -> None:
        self.states, self.stream, self.turn = states, stream, 0

    def read(self, largest: int, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """Read values of at most `largest` in size, with means in 2^-8 and scales in 2^-6."""
        values = np.zeros(len(mean), int)
        if not largest:
            return values
        for i, sums in enumerate(_cumulative(largest, mean, scale).tolist()):
            state, lane = self.states[self.turn], self.turn
            self.turn = (self.turn + 1) % len(self.states)
            slot = state & 0xFFFF
            found = bisect_right(sums, slot) - 1
            state = (sums[found + 1] - sums[found]) * (state >> 16) + slot - sums[found]
            while state < 1 << 23:
                state = state << 8 | next(self.stream)
            self.states[lane] = state
            values[i] = found - largest
        return values


def _cumulative(largest: int, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the sums of frequencies below -largest ... largest + 1, shape (n, 2 largest + 2)."""
    v = np.arange(-largest, largest + 2)
    x = (2 * v - 1) * 128 - mean[:, None]
    f, whole = (scale & 63)[:, None], (scale >> 6)[:, None]
    octaves = (np.minimum(abs(x), 65535) * ROOTS[f]) >> (11 + whole)
    mass = (ROOTS[(octaves >> 6) & 63] * FINE[octaves & 63] >> 15) >> np.minimum(octaves >> 12, 16)
    free = 2**16 - 2 * largest - 1
    share = free * mass >> 16
    sums = v + largest + np.where(x <= 0, share, free - share)
    sums[:, 0], sums[:, -1] = 0, 2**16
    return sums


def _read_grid(
    latents: list[np.ndarray], k: int, largest: int, rate: list[Layer], symbols: _Symbols
) -> None:
    """Read the latents of grid k, wave by wave."""
    rows, columns = latents[k].shape
    features = _features(latents, k)
    padded = np.zeros((rows + 3, columns + 6), int)  # three above, and on each side
    for wave in range(columns + 3 * (rows - 1)):
        y = np.arange(max(0, -(-(wave - columns + 1) // 3)), min(rows, wave // 3 + 1))
        x = wave - 3 * y
        near = [padded[y + 3 + dy, x + 3 + dx] for dy, dx in NEIGHBOURS]
        inputs = np.concatenate([near, features[:, y, x]]) << 8
        h1 = _clamped(np.maximum(_apply(rate[0], inputs), 0) + inputs)
        h2 = _clamped(np.maximum(_apply(rate[1], h1), 0) + h1)
        mean, scale = _apply(rate[2], h2)
        mean, scale = mean.clip(-(64 << 8), 64 << 8), (scale >> 2).clip(-384, 447)
        latents[k][y, x] = padded[y + 3, x + 3] = symbols.read(largest, mean, scale)


def _features(latents: list[np.ndarray], k: int) -> np.ndarray:
    """Return the four inputs from coarser grids, shape (4, rows, columns)."""
    y, x = np.indices(latents[k].shape)
    features = np.zeros((4, *y.shape), int)
    for up, coarse in enumerate(latents[k + 1 : k + 5], start=1):
        features[up - 1] = coarse[y >> up, x >> up]
    return features


def _clamped(values: np.ndarray) -> np.ndarray:
    return values.clip(-32767, 32767)


def _apply(layer: Layer, inputs: np.ndarray) -> np.ndarray:
    """Compute a layer; `inputs` has shape (inputs, n)."""
    weights, start, bits = layer
    return _clamped((weights @ inputs + start[:, None]) >> bits)


def _synthesised(latents: list[np.ndarray], layers: list[Layer], channels: int) -> np.ndarray:
    filters, hidden, output = layers
    planes: list[np.ndarray] = []
    for k in reversed(range(len(latents))):
        height, width = latents[k].shape
        for i, plane in enumerate(planes):
            taps, bits = filters[0][k], filters[2]
            tall = _enlarged(plane, taps, bits)[:height]
            planes[i] = _enlarged(tall.T, taps, bits).T[:, :width]
        planes.insert(0, latents[k] << 8)
    height, width = latents[0].shape
    p = np.pad(planes[0], 2, "edge")
    for offsets in AROUND:
        near = [p[2 + y : 2 + y + height, 2 + x : 2 + x + width] for y, x in offsets]
        planes.append(np.sum(near, axis=0) // len(near))
    inputs = np.array(planes).reshape(len(planes), -1)
    between = np.maximum(_apply(hidden, inputs), 0)
    pixels = _apply(output, np.concatenate([between, inputs]))
    levels = ((pixels * 255 + (1 << 13)) >> 14).clip(0, 255).astype(np.uint8)
    return levels.reshape(channels, height, width).transpose(1, 2, 0)


def _enlarged(values: np.ndarray, taps: np.ndarray, bits: int) -> np.ndarray:
    """Enlarge by 2 along the first axis."""
    p = np.pad(values, ((2, 2), (0, 0)), "edge")
    a, b, c, d = taps
    n, half = len(values), 1 << bits >> 1
    enlarged = np.empty((2 * n, values.shape[1]), int)
    near = [p[i : i + n] for i in range(5)]
    enlarged[::2] = a * near[0] + b * near[1] + c * near[2] + d * near[3]
    enlarged[1::2] = d * near[1] + c * near[2] + b * near[3] + a * near[4]
    return _clamped((enlarged + half) >> bits)
