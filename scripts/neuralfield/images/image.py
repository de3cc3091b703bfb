"""Images in memory, and conversions between their modes."""

import operator
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from neuralfield.system.errors import ConfigError

CHANNELS = {"bilevel": 1, "grey": 1, "rgb": 3, "rgba": 4}
"""The modes of images, and the number of channels of each."""

MODES = {1: "grey", 3: "rgb", 4: "rgba"}
"""Mode of an image that is not bilevel, by its number of channels."""

LUMA_WEIGHTS = np.array([0.2989, 0.5870, 0.1140], np.float32) / np.float32(0.9999)
"""ITU-R BT.601 luma; divided by the sum of the rounded weights, so that white stays white."""

BAND_VALUES = 2**22

LONGER_SIDE_PX = 256
"""Default size of the longer side, in pixels, to which larger images are reduced."""

LEAST_SHORTER_SIDE_PX = 64
"""Minimum size of the shorter side, in pixels, to which panoramas are reduced by default."""

LONGEST_SIDE_PX = 4096
"""Maximum size of the longer side, in pixels, to which panoramas are reduced by default."""


@dataclass(frozen=True, eq=False)
class ImageData:
    """The pixels of an image as they are stored in a file."""

    pixels: np.ndarray
    """Levels from 0 (black, transparent) to `max_value` (white, opaque), uint8 or uint16, shape
    (height, width, channels), row by row from the top left. Colour is not premultiplied by alpha.
    """
    mode: str  # "bilevel", "grey", "rgb" or "rgba"; ``bilevel`` has the two levels 0 and 1
    bit_depth: int
    """Bits per channel: 1 for ``bilevel``, 8 (uint8) or 16 (uint16) for other modes."""

    def __post_init__(self) -> None:
        if self.mode not in CHANNELS or (self.mode == "bilevel") != (self.bit_depth == 1):
            raise ValueError(f"no image has mode {self.mode!r} with {self.bit_depth!r} bits")
        dtype, shape = _dtype_of(self.bit_depth), self.pixels.shape
        if len(shape) != 3 or 0 in shape or shape[2] != CHANNELS[self.mode]:
            raise ValueError(f"pixels of shape {shape} are not a {self.mode} image")
        if self.pixels.dtype != dtype:
            raise ValueError(f"pixels are {self.pixels.dtype}; {self.bit_depth} bits need {dtype}")
        if self.bit_depth == 1 and self.pixels.max() > 1:
            raise ValueError("a bilevel image can only have the levels 0 and 1")

    @property
    def height(self) -> int:
        return self.pixels.shape[0]

    @property
    def width(self) -> int:
        return self.pixels.shape[1]

    @property
    def channels(self) -> int:
        return self.pixels.shape[2]

    @property
    def max_value(self) -> int:
        """The level of white: 1, 255 or 65535."""
        return 2**self.bit_depth - 1

    def values(self) -> np.ndarray:
        """Return level / `max_value`, float32 in [0, 1], shape (height, width, channels)."""
        values = self.pixels.astype(np.float32)
        values /= np.float32(self.max_value)
        return values

    @classmethod
    def from_values(
        cls, values: np.ndarray, mode: str, bit_depth: int, threshold: float = 0.5
    ) -> "ImageData":
        """Create an image by rounding values to levels: 0 is black, 1 is white.

        Values outside [0, 1] are clipped. For ``bilevel``, values of at least `threshold` become
        white. Raises ValueError if a value is not finite or the channels are not those of `mode`.
        """
        pixels = np.empty(values.shape, _dtype_of(bit_depth))
        for band in row_bands(values):
            light = values[band]
            if not np.isfinite(light).all():
                raise ValueError("an image cannot be made of NaN or infinite values")
            if mode == "bilevel":
                pixels[band] = light >= threshold
            else:
                levels = np.clip(light, 0, 1) * light.dtype.type(2**bit_depth - 1)
                pixels[band] = np.rint(levels)
        return cls(pixels, mode, bit_depth)

    def converted(self, mode: str, threshold: float = 0.5) -> "ImageData":
        """Convert the image to another mode; raises `ConfigError` if the mode is unknown.

        Colour is converted to luma for grey; for ``bilevel``, luma of at least `threshold` becomes
        white. To remove alpha, the image is composited over white; added alpha is opaque. A bilevel
        image is converted to 8 bits; other images keep their bit depth.
        """
        if mode == self.mode:
            return self
        require_mode(mode)
        bit_depth = 1 if mode == "bilevel" else max(self.bit_depth, 8)
        pixels = np.empty((self.height, self.width, CHANNELS[mode]), _dtype_of(bit_depth))
        for band in row_bands(self.pixels):
            part = ImageData(self.pixels[band], self.mode, self.bit_depth)
            values = convert_values(part.values(), CHANNELS[mode])
            pixels[band] = ImageData.from_values(values, mode, bit_depth, threshold).pixels
        return ImageData(pixels, mode, bit_depth)


def convert_values(values: np.ndarray, channels: int) -> np.ndarray:
    """Convert values to 1, 3 or 4 channels: grey, RGB, or RGB with alpha (not premultiplied).

    Values are float32, shape (height, width, channels). To remove alpha, the colour is composited
    over white; to remove colour, luma is computed. For more channels, grey is repeated, and alpha
    is 1.
    """
    if values.shape[2] == 4 and channels < 4:
        colour, alpha = values[..., :3], values[..., 3:]
        values = colour * alpha + (1 - alpha)
    if values.shape[2] == 3 and channels == 1:
        values = (values @ LUMA_WEIGHTS)[..., None]
    if values.shape[2] == 1 and channels > 1:
        values = np.repeat(values, 3, axis=2)
    if values.shape[2] == 3 and channels == 4:
        values = np.concatenate([values, np.ones_like(values[..., :1])], axis=2)
    return values


def image_of_pixels(pixels: np.ndarray, mode: str = "auto", threshold: float = 0.5) -> ImageData:
    """Create an image from uint8 or uint16 levels, shape (height, width, 1, 3 or 4).

    `mode` and `threshold` are those of `neuralfield.images.image_file.read_image`, except that
    ``auto`` keeps all channels.
    """
    own_mode = MODES[pixels.shape[2]]
    if mode == "auto":
        mode = _simplest_mode_of(pixels) if own_mode == "grey" else own_mode
    return ImageData(pixels, own_mode, 8 * pixels.itemsize).converted(mode, threshold)


def simplest_pixels(pixels: np.ndarray) -> np.ndarray:
    """Remove the alpha channel if all pixels are opaque; reduce RGB to grey if all are grey."""
    return np.ascontiguousarray(pixels[..., : CHANNELS[_simplest_mode_of(pixels)]])


def simplest_mode(bands: Iterable[np.ndarray]) -> str:
    """Return the simplest mode without loss of an image in bands, uint8 or uint16, shape
    (rows, width, 1, 3 or 4).
    """
    grey = bilevel = True
    for band in bands:
        white = np.iinfo(band.dtype).max
        if band.shape[2] == 4 and not (band[..., 3] == white).all():
            return "rgba"
        colours = band[..., :3]
        grey = grey and bool((colours[..., :1] == colours[..., 1:]).all())
        if not grey and band.shape[2] == 3:
            return "rgb"
        bilevel = bilevel and bool(((colours == 0) | (colours == white)).all())
    return "rgb" if not grey else "bilevel" if bilevel else "grey"


def _simplest_mode_of(pixels: np.ndarray) -> str:
    return simplest_mode(pixels[band] for band in row_bands(pixels))


def require_mode(mode: str, *others: str) -> None:
    """Raise `ConfigError` unless the mode is that of an image or one of `others`."""
    allowed = [*others, *CHANNELS]
    if mode not in allowed:
        raise ConfigError("mode", repr(mode), f"one of {', '.join(allowed)}")


def _dtype_of(bit_depth: int) -> np.dtype:
    return np.dtype(np.uint16 if bit_depth == 16 else np.uint8)


def row_bands(array: np.ndarray) -> Iterator[slice]:
    """Return slices that divide an array into bands of rows, to limit the memory of conversions."""
    rows = max(1, BAND_VALUES // max(1, array[:1].size))
    return (slice(start, start + rows) for start in range(0, len(array), rows))


def target_size(own: tuple[int, int], size: int | Sequence[int] | None) -> tuple[int, int]:
    """Return (width, height) in px for the argument `size` of an image with sides `own`.

    See `neuralfield.images.resizing.resize_image`.
    """
    if size is None:
        return own
    asked, count = (size, 2) if isinstance(size, Sequence) else ([size], 1)
    try:
        sides = [operator.index(side) for side in asked]
    except TypeError:
        sides = []
    if len(sides) != count or min(sides) < 1:
        raise ConfigError(
            "size",
            repr(size),
            "a whole number of pixels >= 1 for the longer side, or [width, height]",
            "remove it to keep the image's own size",
        )
    if count == 2:
        return sides[0], sides[1]
    longer = max(own)
    # integer arithmetic, so that half a pixel is rounded up at any size
    width, height = (max(1, (2 * side * sides[0] + longer) // (2 * longer)) for side in own)
    return width, height


def usual_size_px(width: int, height: int) -> int | None:
    """Return the longer side to which an image is reduced by default; None if it keeps its size.

    The longer side becomes 256 pixels. If the shorter side would then have less than 64 pixels, the
    shorter side becomes 64 pixels instead, but the longer side at most 4096.
    """
    longer, shorter = max(width, height), min(width, height)
    panorama = min(round(LEAST_SHORTER_SIDE_PX * longer / shorter), LONGEST_SIDE_PX)
    size = max(LONGER_SIDE_PX, panorama)
    return size if size < longer else None


@dataclass(frozen=True)
class ImageShape:
    """Sides of the training image in pixels, and the number of values in each pixel (1 to 4)."""

    width: int
    height: int
    channels: int
