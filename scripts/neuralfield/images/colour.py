"""Conversion of a file's colours to sRGB.

The conversion is relative colorimetric: colours in the gamut of sRGB are preserved, and others are
clipped. Profiles with tables (CMYK, and some profiles of scanners and printers) are converted by
Little CMS with black point compensation, so that the darkest ink becomes black and shadows remain
distinct; the perceptual tables would shift all colours, differently for each manufacturer.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from PIL import Image

from neuralfield.images.icc import Profile, encode_srgb, read_profile
from neuralfield.images.image import row_bands
from neuralfield.images.vips import PROFILE, reason_of

log = logging.getLogger(__name__)

Report = Callable[[str], None]
"""A function that is called with a line of text about each conversion on reading an image."""

MAX_PROFILE_BYTES = 1 << 24

_UNCHANGED = 1 / 255
"""Maximum change of a value by a profile that is regarded as sRGB."""

_CMYK_RULE = "CMYK without a usable colour profile: red is (1 - cyan) (1 - black), and so on"


@dataclass(frozen=True)
class Conversion:
    """The conversion of one file's levels to sRGB."""

    profile: Profile | None
    """None: CMYK is converted by a formula, and other colour spaces are not converted."""
    content: bytes  # the embedded profile
    space: str  # "RGB", "GRAY" or "CMYK"; colour space of the levels

    def __call__(self, levels: np.ndarray) -> np.ndarray:
        """Convert uint8 or uint16 levels, shape (height, width, 1, 3 or 4); the type is kept.

        For RGB and grey, a fourth channel is alpha and is not changed; grey may have three equal
        channels. CMYK has four channels of ink, where 255 is full ink, and is converted to three.
        """
        if self.profile is None:
            return _cmyk_by_rule(levels) if self.space == "CMYK" else levels
        if not self.profile.curves:
            return _through_tables(levels, self.content, self.space)
        converted = levels.copy()
        white = np.iinfo(levels.dtype).max
        steps = np.arange(white + 1) / white
        if self.space == "GRAY":
            light = _finite(self.profile.curves[0](steps))
            table = np.rint(encode_srgb(light) * np.float32(white)).astype(levels.dtype)
            channels = slice(0, 1 if levels.shape[2] == 1 else 3)
            converted[..., channels] = table[levels[..., channels]]
            return converted
        tables = [_finite(curve(steps)) for curve in self.profile.curves]
        assert self.profile.matrix is not None
        matrix = self.profile.matrix.T.astype(np.float32)
        for band in row_bands(levels):
            linear = np.stack([tables[c][levels[band, :, c]] for c in range(3)], axis=2) @ matrix
            converted[band, :, :3] = np.rint(encode_srgb(linear) * np.float32(white))
        return converted


def conversion_of(content: bytes | None, space: str, report: Report) -> Conversion:
    """Return the conversion of a file's colours to sRGB, and report it if it changes any colour.

    An embedded profile (`content`) that is damaged or for another colour space is ignored, as in
    browsers.
    """
    profile = _usable(content, space, report)
    if profile is None:
        if space == "CMYK":
            report(_CMYK_RULE)
        return Conversion(None, b"", space)
    report(f"converted from {profile.name} to sRGB")
    return Conversion(profile, content or b"", space)


def linear_profile(content: bytes | None, space: str, report: Report) -> Profile | None:
    """Return the profile for floating-point values; None if they are linear light already."""
    profile = _usable(content, space, report)
    if profile is not None and profile.curves:
        report(f"converted from {profile.name} to sRGB")
        return profile
    report("floating-point values were taken as linear light, and encoded as sRGB of 16 bits")
    return None


def _usable(content: bytes | None, space: str, report: Report) -> Profile | None:
    """Read the profile; return None if it cannot be used, or is equivalent to sRGB."""
    if not content:
        return None
    try:
        if len(content) > MAX_PROFILE_BYTES:
            raise ValueError(f"{len(content):,} bytes")
        profile = read_profile(content)
        if profile.space != space:
            raise ValueError(f"it is for {profile.space}, the image is {space}")
        trial = Conversion(profile, content, space)
        with np.errstate(all="raise", under="ignore"):
            samples = _samples(space)
            converted = trial(samples)
    except (ValueError, ArithmeticError, np.linalg.LinAlgError) as error:
        report(f"the embedded colour profile was not used ({error})")
        return None
    moved = np.abs(converted.astype(int) - samples) if space != "CMYK" else np.array(1 << 16)
    return None if moved.max() <= _UNCHANGED * 65535 else profile


def _finite(light: np.ndarray) -> np.ndarray:
    """Clip the result of a curve, which may be any number, to float32 in [0, 1]."""
    return np.clip(np.nan_to_num(light), 0, 1).astype(np.float32)


def _samples(space: str) -> np.ndarray:
    """Return a regular sample of a colour space as an image of one row; 16 bits (CMYK: 8)."""
    if space == "GRAY":
        return np.linspace(0, 65535, 256).astype(np.uint16).reshape(1, -1, 1)
    channels = 4 if space == "CMYK" else 3
    top, dtype = (255, np.uint8) if space == "CMYK" else (65535, np.uint16)
    axis = np.linspace(0, top, 5 if space == "CMYK" else 9).astype(dtype)
    return np.stack(np.meshgrid(*[axis] * channels), axis=-1).reshape(1, -1, channels)


def _cmyk_by_rule(levels: np.ndarray) -> np.ndarray:
    height, width, _ = levels.shape
    image = Image.frombytes("CMYK", (width, height), np.ascontiguousarray(levels).tobytes())
    return np.asarray(image.convert("RGB"))


def _through_tables(levels: np.ndarray, content: bytes, space: str) -> np.ndarray:
    """Convert with Little CMS, keeping bit depth and alpha; raises ValueError for a bad profile."""
    import pyvips

    depth = 8 * levels.itemsize
    names = {"RGB": ("srgb", "rgb16"), "GRAY": ("b-w", "grey16"), "CMYK": ("cmyk", "cmyk")}
    name, colours = names[space][depth == 16], {"CMYK": 4, "RGB": 3, "GRAY": 1}[space]
    options = {"embedded": True, "intent": "relative", "black_point_compensation": True}
    bands = []
    for band in row_bands(levels):
        image = pyvips.Image.new_from_array(levels[band, :, :colours], interpretation=name)
        image.set_type(pyvips.GValue.blob_type, PROFILE, cast(Any, content))
        try:
            bands.append(image.icc_transform("srgb", depth=depth, **options).numpy()[..., :3])
        except pyvips.Error as error:
            raise ValueError(reason_of(error)) from error
    rgb = np.concatenate(bands)
    if levels.shape[2] == 1:
        return rgb[..., :1]
    is_alpha = space != "CMYK" and levels.shape[2] == 4
    return np.concatenate([rgb, levels[..., 3:]], axis=2) if is_alpha else rgb
