"""TIFFs of floating-point values, which are linear light unless they have a profile."""

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from neuralfield.images.colour import Report, linear_profile
from neuralfield.images.icc import encode_srgb
from neuralfield.images.image import row_bands
from neuralfield.images.vips import embedded_profile, only_loaders, reason_of
from neuralfield.system.errors import InputError

if TYPE_CHECKING:
    import pyvips

_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_EXPECTED = "linear light as finite numbers, 0 being black and 1 white"


def open_floats(where: str, file: BinaryIO) -> "pyvips.Image | None":
    """Open a TIFF of floating-point values without decoding it; return None for other files."""
    file.seek(0)
    if file.read(4) not in _TIFF:
        return None
    import pyvips

    only_loaders("Tiff")
    try:
        image = pyvips.Image.new_from_file(where, access="random", fail_on="error")
    except pyvips.Error:
        return None  # Pillow will raise the error
    return image if image.format == "float" else None


def decode_floats(where: str, image: "pyvips.Image", report: Report) -> np.ndarray:
    """Decode a TIFF of floating-point values to upright sRGB.

    Returns uint16, shape (height, width, 1, 3 or 4). Values outside [0, 1] are clipped, and
    `report` is called with a line about it. Raises `InputError` if a value is not finite or the
    number of channels is not 1, 3 or 4, and `OSError` if the file is damaged.
    """
    import pyvips

    if image.bands not in (1, 3, 4):
        expected = "1 or 3 channels, or 3 and alpha"
        raise InputError(where, f"has {image.bands} channels", expected, "export it as PNG")
    try:
        values = image.autorot().numpy()
    except pyvips.Error as error:
        raise OSError(reason_of(error)) from error
    values = values.reshape(values.shape[0], values.shape[1], -1)
    if not np.isfinite(values).all():
        remedy = "replace them, and export it again"
        raise InputError(where, "holds values that are not finite", _EXPECTED, remedy)
    outside = np.count_nonzero(((values < 0) | (values > 1)).any(axis=2))
    if outside:
        found = f"from {values.min():g} to {values.max():g}"
        report(f"{outside:,} pixels outside [0, 1] were clipped; values are {found}")
    content = embedded_profile(image)
    profile = linear_profile(content, "GRAY" if values.shape[2] == 1 else "RGB", report)
    levels = np.empty(values.shape, np.uint16)
    colours = min(values.shape[2], 3)
    for band in row_bands(values):
        light = values[band].astype(np.float64)
        linear = light[..., :colours]
        if profile is not None:
            flat = np.clip(linear.reshape(-1, colours), 0, 1)
            linear = profile.to_linear(flat).reshape(linear.shape)
        levels[band, :, :colours] = np.rint(encode_srgb(linear) * 65535)
        levels[band, :, colours:] = np.rint(np.clip(light[..., colours:], 0, 1) * 65535)
    return levels
