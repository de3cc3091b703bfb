"""Conversion of a file's colours to sRGB by Little CMS, through libvips.

The conversion is relative colorimetric, with black point compensation: colours in the gamut of sRGB
are preserved, others are clipped, and the darkest ink becomes black.
"""

import io
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from PIL import ImageCms

from neuralfield.images.vips import load_vips, reason_of

if TYPE_CHECKING:
    import pyvips

log = logging.getLogger(__name__)

Report = Callable[[str], None]
"""A function that is called with a line of text about each conversion on reading an image."""

SPACES = {"b-w": "GRAY", "grey16": "GRAY", "srgb": "RGB", "rgb16": "RGB", "cmyk": "CMYK"}
"""Colour space, as ICC profiles name it, of each of libvips' interpretations."""

COLOURS = {"GRAY": 1, "RGB": 3, "CMYK": 4}
"""Number of channels of each colour space, without alpha."""

_PROFILE = "icc-profile-data"
_INTENT: dict[str, Any] = {"intent": "relative", "black_point_compensation": True}
_INVISIBLE = 1 << 8
"""Difference of two channels, of 65,535, that rounding may cause in a grey."""


def to_srgb(image: "pyvips.Image", report: Report) -> "pyvips.Image":
    """Convert an image of 8 or 16 bits per channel to sRGB, or grey; its bit depth is kept.

    An embedded profile that is damaged or for another colour space is ignored, as in browsers.
    `report` is called if colours are converted, or a profile is ignored.
    """
    space = SPACES[str(image.interpretation)]
    name = _profile_to_use(image, space, report)
    if name is not None:
        report(f"converted from {name} to sRGB")
        return _by_profile(image)
    if space == "CMYK":
        report("CMYK without a usable colour profile: red is (1 - cyan) (1 - black), and so on")
        white = 255 if image.format == "uchar" else 65535
        light = (white - image[:3]) * (white - image[3]) / white
        return light.rint().cast(image.format).copy(interpretation="srgb")
    return image


def with_profile(image: "pyvips.Image", content: bytes) -> "pyvips.Image":
    """Return a copy of an image with an embedded ICC profile."""
    import pyvips

    copy = image.copy()
    copy.set_type(pyvips.GValue.blob_type, _PROFILE, cast(Any, content))
    return copy


def from_linear_light(values: np.ndarray) -> np.ndarray:
    """Encode linear light in [0, 1], shape (height, width, 1, 3 or 4), as sRGB of 16 bits.

    Other values are clipped; a fourth channel is alpha, and is not encoded.
    """
    light = np.clip(values.astype(np.float64), 0, 1)
    colour = light[..., :3]
    steep = 1.055 * colour ** (1 / 2.4) - 0.055
    light[..., :3] = np.where(colour <= 0.0031308, 12.92 * colour, steep)
    return np.rint(light * 65535).astype(np.uint16)


def _profile_to_use(image: "pyvips.Image", space: str, report: Report) -> str | None:
    """Return the name of the embedded profile; None if it is not usable, or that of sRGB."""
    if _PROFILE not in image.get_fields():
        return None
    content = cast(bytes, image.get(_PROFILE))
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(content))
        name = ImageCms.getProfileDescription(profile).strip()[:80]
        found = content[16:20].decode("latin-1").strip()  # ICC.1:2022, 7.2.8
        if found != space:
            raise ValueError(f"it is for {found}, the image is {space}")
        largest_change = _largest_change(content, space)
    except Exception as error:  # libraries raise several kinds for damaged profiles
        report(f"the embedded colour profile was not used ({reason_of(error)})")
        return None
    return (name or "an unnamed profile") if space == "CMYK" or largest_change > 1 else None


def _largest_change(content: bytes, space: str) -> int:
    """Return how far a profile moves colours of 8 bits, or 0 for colours of ink."""
    axis = np.linspace(0, 255, 5).astype(np.uint8)
    cube = np.stack(np.meshgrid(*[axis] * COLOURS[space]), axis=-1).reshape(1, -1, COLOURS[space])
    names = {"GRAY": "b-w", "RGB": "srgb", "CMYK": "cmyk"}
    sample = load_vips().Image.new_from_array(cube, interpretation=names[space])
    converted = _by_profile(with_profile(sample, content)).numpy()
    if space == "CMYK":
        return 0
    return int(np.abs(converted.reshape(cube.shape).astype(int) - cube).max())


def _by_profile(image: "pyvips.Image") -> "pyvips.Image":
    """Convert an image to sRGB by its embedded profile, grey to grey."""
    if image.format == "uchar":
        found = image.icc_transform("srgb", embedded=True, **_INTENT)
    else:
        # in one step, Little CMS interpolates 16 bits in a coarse table: up to 26 of 255 levels off
        found = image.icc_import(embedded=True, pcs="xyz", **_INTENT)
        found = found.icc_export(output_profile="srgb", pcs="xyz", depth=16, **_INTENT)
    colours = COLOURS[SPACES[str(image.interpretation)]]
    alpha: list[Any] = [found[3]] if image.bands > colours else []
    grey = found[1]
    if colours == 1:
        return grey.bandjoin(alpha) if alpha else grey
    if colours == 4 or image.format == "uchar":
        return found
    was_grey = (image[0] == image[1]) & (image[1] == image[2])
    is_grey = ((found[0] - grey).abs() < _INVISIBLE) & ((found[2] - grey).abs() < _INVISIBLE)
    return (was_grey & is_grey).ifthenelse(grey.bandjoin([grey, grey, *alpha]), found)
