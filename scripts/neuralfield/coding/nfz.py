"""The file of a coded image: a header, layers and latents coded by rANS, a checksum.

docs/format.md describes it. Sizes are checked before anything is allocated.
"""

import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

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
    parts, counts = [], []
    for layer in image.layers:
        for values, bits in ((layer.weights, layer.weight_bits), (layer.bias, layer.bias_bits)):
            if values.size:
                parts.append((_part_of(values, bits), values.ravel().copy()))
                counts.append(values.size)
    largest = [largest_of(grid) for grid in image.latents]
    counts += [grid.size for grid, most in zip(image.latents, largest, strict=True) if most]
    symbols = Symbols(intervals=np.empty((sum(counts), 2), np.int32))
    for part, values in parts:
        if part.size_bits:
            arguments = (values, part.largest, part.laplace_scale, *symbols.arguments())
            kernels.code_values(*arguments)
    for k in reversed(range(len(image.latents))):
        if largest[k]:
            code_grid(k, image.latents, image.rate, largest[k], symbols)
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


def read_latents(
    latents: Sequence[np.ndarray], rate: Sequence[Layer], largest: Sequence[int], symbols: Symbols
) -> None:
    """Decode the latents of all grids on the CPU."""
    for k in reversed(range(len(latents))):
        if largest[k] and not symbols.is_cut:
            code_grid(k, latents, rate, largest[k], symbols)


def from_bytes(
    content: bytes,
    where: str = "content",
    max_megapixels: float = MAX_MEGAPIXELS,
    reader: LatentReader = read_latents,
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
    except (IndexError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise damaged(where, error) from error


def damaged(where: str, reason: object) -> InputError:
    """Return the error of a file that is not whole."""
    return InputError(where, f"is cut off or damaged ({reason})", EXPECTED, FETCH_AGAIN)


def _read(content: bytes, where: str, max_megapixels: float, reader: LatentReader) -> CodedImage:
    """Read what follows the version. Raises ValueError or IndexError if it is damaged."""
    width, place = _read_varint(content, 0)
    height, place = _read_varint(content, place)
    depth, channels, grids, units, lanes_log2 = content[place : place + 5]
    place += 5
    if not 1 <= min(width, height) <= max(width, height) <= LONGEST_SIDE_PX:
        raise ValueError(f"sides of {width:,} x {height:,} pixels")
    if width * height > max_megapixels * 1e6:
        found, expected = f"{width:,} x {height:,} pixels", f"at most {max_megapixels:g} megapixels"
        remedy = "raise max_megapixels (--max-megapixels) if you trust the file"
        raise InputError(where, found, expected, remedy)
    is_known = depth == _BIT_DEPTH and channels in (1, 3, 4) and 1 <= grids <= MOST_GRIDS
    if not is_known or units > MOST_HIDDEN:
        raise ValueError(f"sizes {depth}, {channels}, {grids}, {units}")
    largest = [content[place + k] for k in range(grids)]
    place += grids
    if max(largest) > LARGEST_LATENT or lanes_log2 > _MOST_LANES_LOG2:
        raise ValueError(f"latents of {max(largest)}, 2^{lanes_log2} states")
    shapes = layer_shapes(grids, units, channels)
    parts: list[_Part] = []
    for size in (n for outputs, inputs, biases in shapes for n in (outputs * inputs, biases)):
        part = _Part(0, 0, 0)
        if size:
            part = _Part(content[place] >> 4, content[place] & 15, content[place + 1])
            place += 2
        if part.largest > LARGEST_WEIGHT or part.scale >= _SCALES:
            raise ValueError(f"{part}")
        parts.append(part)
    states_end = place + 4 * (1 << lanes_log2)
    if states_end > len(content):
        raise ValueError("its length")
    symbols = Symbols(
        np.frombuffer(content, np.uint8, offset=states_end).copy(),  # kernels are for one type
        np.frombuffer(content, "<i4", 1 << lanes_log2, place),
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


def _read_varint(content: bytes, place: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = content[place]
        number |= (byte & 127) << shift
        place, shift = place + 1, shift + 7
        if byte < 128:
            return number, place
        if shift > 28:
            raise ValueError("a number of more than 5 bytes")
