"""The file of a coded image: a header, layers and latents coded by rANS, a checksum.

docs/format.md describes it. Sizes are checked before anything is allocated.
"""

import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from operator import length_hint

import numpy as np

from neuralfield.coding import kernels
from neuralfield.coding.coded_image import (
    LARGEST_LATENT,
    LARGEST_WEIGHT,
    MOST_HIDDEN,
    CodedImage,
    Layer,
    layer_shapes,
)
from neuralfield.coding.context import MOST_GRIDS, grid_shapes
from neuralfield.coding.decoding import Symbols, code_grid, largest_of
from neuralfield.coding.laplace import LARGEST_SCALE, LEAST_SCALE, PROBABILITY_BITS
from neuralfield.system.errors import InputError
from neuralfield.system.input_files import FETCH_AGAIN

MAGIC = b"NFZ"
VERSION = 2
TILES = b"T"
"""In place of the version in files of `neuralfield.coding.tiles`."""

MAX_MEGAPIXELS = 100.0
MOST_BYTES = 1 << 32

EXPECTED = "a file written by neuralfield.encode (.nfz)"
_BIT_DEPTH = 8
LONGEST_SIDE_PX = 1 << 20
_SCALE_STEP = 8
_SCALES = (LARGEST_SCALE - LEAST_SCALE) // _SCALE_STEP + 1
_MOST_LANES_LOG2 = 5
_LANES_LOG2, _BYTES_FOR_LANES = 2, 4096
"""Streams of at least this size have four states, which a GPU decodes at once, for 9 bytes."""


@dataclass(frozen=True)
class _Part:
    """How the weights, or the biases, of a layer are coded."""

    step_bits: int
    size_bits: int  # values are below 2 ** size_bits in size
    scale: int  # number of the scale of their distribution

    @property
    def largest(self) -> int:
        return (1 << self.size_bits) - 1

    @property
    def laplace_scale(self) -> int:
        return LEAST_SCALE + _SCALE_STEP * self.scale


def to_bytes(image: CodedImage) -> bytes:
    """Return the content of the file of a coded image."""
    parts = [
        (_part_of(values, bits), values.ravel().copy())
        for layer in image.layers
        for values, bits in ((layer.weights, layer.weight_bits), (layer.bias, layer.bias_bits))
        if values.size
    ]
    largest = [largest_of(grid) for grid in image.latents]
    most = sum(values.size for _, values in parts) + sum(grid.size for grid in image.latents)
    symbols = Symbols(intervals=np.empty((most, 2), np.int32))
    for part, values in parts:
        if part.size_bits:
            arguments = (values, part.largest, part.laplace_scale, *symbols.arguments())
            kernels.code_values(*arguments)
    code_latents(image.latents, image.rate, largest, symbols)
    intervals = symbols.intervals[: symbols.cursor[kernels.SYMBOLS]]
    bits = PROBABILITY_BITS - np.log2(intervals[:, 1])
    lanes_log2 = _LANES_LOG2 if bits.sum() >= 8 * _BYTES_FOR_LANES else 0
    states = np.full(1 << lanes_log2, kernels.LEAST_STATE, np.int32)
    stream = np.empty(int(bits.sum() * 1.01) // 8 + 64, np.uint8)
    used = kernels.range_encoded(intervals, states, stream)
    sizes = (image.channels, len(image.latents), len(image.hidden.weights))
    content = bytearray(MAGIC + bytes([VERSION]) + _varint(image.width) + _varint(image.height))
    content += bytes([_BIT_DEPTH, *sizes, lanes_log2, *largest])
    for part, _ in parts:
        content += bytes([part.step_bits << 4 | part.size_bits, part.scale])
    content += states.astype("<i4").tobytes() + stream[stream.size - used :].tobytes()
    return bytes(content) + struct.pack("<I", zlib.crc32(content))


LatentReader = Callable[[Sequence[np.ndarray], Sequence[Layer], Sequence[int], Symbols], None]
"""Decodes the latents of all grids, given the rate model and the largest latent of each grid."""


def code_latents(
    latents: Sequence[np.ndarray], rate: Sequence[Layer], largest: Sequence[int], symbols: Symbols
) -> None:
    """Decode the latents of all grids on the CPU, or write their intervals."""
    for k in reversed(range(len(latents))):
        if largest[k] and not symbols.is_cut:
            code_grid(k, latents, rate, largest[k], symbols)


def from_bytes(
    content: bytes,
    where: str = "content",
    max_megapixels: float = MAX_MEGAPIXELS,
    reader: LatentReader = code_latents,
) -> CodedImage:
    """Read the content of a file.

    Parameters
    ----------
    content : bytes
    where : str
        Name of the file in errors.
    max_megapixels : float
        Maximum size of the image; it limits time and memory, as a small file can be a large image.
    reader : callable
        Decodes the latents.

    Raises
    ------
    InputError
        The content is damaged, cut, of a newer version or of another kind, or the image is too
        large.
    """
    if content[: len(MAGIC)] != MAGIC or len(content) < 5:
        raise InputError(where, "is not a coded image", EXPECTED)
    if content[3:4] == TILES:
        remedy = "decode it to a PNG or TIFF with neuralfield decode"
        raise InputError(where, "is an image in tiles", "an image in one piece", remedy)
    if content[3] != VERSION:
        found = f"has version {content[3]} of the format"
        raise InputError(where, found, f"version {VERSION}", "update neuralfield")
    if struct.pack("<I", zlib.crc32(content[:-4])) != content[-4:]:
        raise damaged(where, "its checksum is wrong")
    try:
        return _read(content[4:-4], where, max_megapixels, reader)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        raise damaged(where, error) from error


def damaged(where: str, reason: object) -> InputError:
    """Return the error of a file that is not whole."""
    return InputError(where, f"is cut off or damaged ({reason})", EXPECTED, FETCH_AGAIN)


def _read(content: bytes, where: str, max_megapixels: float, reader: LatentReader) -> CodedImage:
    """Read what follows the version. Raises ValueError if it is damaged."""
    head = iter(content)
    width, height = _read_varint(head), _read_varint(head)
    depth, channels, grids, units, lanes_log2 = islice(head, 5)
    if not 1 <= min(width, height) <= max(width, height) <= LONGEST_SIDE_PX:
        raise ValueError(f"sides of {width:,} x {height:,} pixels")
    if width * height > max_megapixels * 1e6:
        found, expected = f"{width:,} x {height:,} pixels", f"at most {max_megapixels:g} megapixels"
        remedy = "raise max_megapixels (--max-megapixels) if you trust the file"
        raise InputError(where, found, expected, remedy)
    is_known = depth == _BIT_DEPTH and channels in (1, 3, 4) and 1 <= grids <= MOST_GRIDS
    if not is_known or units > MOST_HIDDEN:
        raise ValueError(f"sizes {depth}, {channels}, {grids}, {units}")
    largest = list(islice(head, grids))
    if max(largest) > LARGEST_LATENT or lanes_log2 > _MOST_LANES_LOG2:
        raise ValueError(f"latents of {max(largest)}, 2^{lanes_log2} states")
    shapes = layer_shapes(grids, units, channels)
    parts: list[_Part] = []
    for size in (n for outputs, inputs, biases in shapes for n in (outputs * inputs, biases)):
        bits, scale = islice(head, 2) if size else (0, 0)
        parts.append(_Part(bits >> 4, bits & 15, scale))
        if parts[-1].largest > LARGEST_WEIGHT or scale >= _SCALES:
            raise ValueError(f"{parts[-1]}")
    rest = content[len(content) - length_hint(head) :]
    symbols = Symbols(
        np.frombuffer(rest, np.uint8, offset=4 << lanes_log2).copy(),  # kernels are for one type
        np.frombuffer(rest, "<i4", 1 << lanes_log2),
    )
    if (symbols.states < kernels.LEAST_STATE).any():
        raise ValueError("a state of the range coder")
    layers = []
    for number, (outputs, inputs, biases) in enumerate(shapes):
        weights, bias = parts[2 * number : 2 * number + 2]
        layers.append(
            Layer(
                _read_values(outputs * inputs, weights, symbols).reshape(outputs, inputs),
                _read_values(biases, bias, symbols),
                *(weights.step_bits, bias.step_bits),
            )
        )
    latents = [np.zeros(shape, np.int8) for shape in grid_shapes(height, width, grids)]
    reader(latents, layers[:3], largest, symbols)
    if not symbols.is_complete:
        raise ValueError("its stream does not end with its symbols")
    return CodedImage(height, width, channels, latents, layers[:3], *layers[3:])


def _read_values(count: int, part: _Part, symbols: Symbols) -> np.ndarray:
    values = np.zeros(count, np.int32)
    if part.size_bits:
        kernels.code_values(values, part.largest, part.laplace_scale, *symbols.arguments())
    return values


def _part_of(values: np.ndarray, step_bits: int) -> _Part:
    """Return how to code values: the scale is that of the fewest bits, near the mean size."""
    size_bits = largest_of(values).bit_length()
    best, fewest = 0, np.inf
    for scale in range(_SCALES):
        # the ideal length, which is within 1 % of that of the integer arithmetic
        width = 2.0 ** ((LEAST_SCALE + _SCALE_STEP * scale) / 64)
        edge = 0.5 / width
        zero = 1 - 2.0**-edge
        size = abs(values[values != 0]).astype(float)
        tail = 0.5 * (2.0**edge - 2.0**-edge) * 2.0 ** -(size / width) + 2.0**-16
        bits = -(values == 0).sum() * np.log2(max(zero, 2.0**-16)) - np.log2(tail).sum()
        if bits < fewest:
            best, fewest = scale, bits
    return _Part(step_bits, size_bits, best)


def _varint(number: int) -> bytes:
    """Return a number in groups of 7 bits, the lowest first; all but the last have bit 7."""
    groups = []
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    return bytes([*groups, number])


def _read_varint(head: Iterator[int]) -> int:
    number = 0
    for place, byte in enumerate(islice(head, 5)):
        number |= (byte & 127) << 7 * place
        if byte < 128:
            return number
    raise ValueError("a number of more than 5 bytes")
