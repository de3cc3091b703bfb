"""Error messages for files that cannot be read as an image, with the kind of file and a remedy."""

import re

from neuralfield.system.errors import InputError
from neuralfield.system.input_files import FETCH_AGAIN

EXPECTED = "an image (PNG, JPEG, TIFF, WebP, AVIF, GIF, BMP or PPM)"
EXPORT = "export it as PNG"

KINDS = (
    (rb"\A(%!PS|\xc5\xd0\xd3\xc6|\xd7\xcd\xc6\x9a)", "is a drawing", EXPORT),
    (rb"\A%PDF", "is a PDF document", EXPORT),
    (rb"\A.{4}ftyp(hei|hev|mif|msf)", "is a HEIC photograph", EXPORT),
    (rb"\A(\xff\x0a|.{4}JXL )", "is a JPEG XL image", EXPORT),
    (rb"\A(\xff\x4f\xff\x51|.{4}jP  )", "is a JPEG 2000 image", EXPORT),
    (rb"\Av/1\x01", "is an OpenEXR image", "export it as a TIFF of floating-point values"),
    (rb"\A#\?R", "is a Radiance HDR image", "export it as a TIFF of floating-point values"),
    (rb"\A(.{4}ftyp|\x1a\x45\xdf\xa3)", "is a video", "export one frame of it as PNG"),
    (rb"(?i)\A\s*<(!doctype )?html", "is a web page", "download the image itself"),
    (rb"(?i)<svg", "is an SVG drawing", EXPORT),
)
"""Patterns of the first bytes of files that are not read, with messages and remedies."""


def undecodable(where: str, reason: str) -> InputError:
    """Return the error for a file that a decoder cannot read, given the decoder's reason."""
    if "not supported" in reason:
        return InputError(where, f"has an uncommon layout ({reason})", EXPECTED, EXPORT)
    return InputError(where, f"is cut off or damaged ({reason})", EXPECTED, FETCH_AGAIN)


def unrecognised(where: str, head: bytes) -> InputError:
    """Return the error for a file of another kind, given its first bytes."""
    for pattern, found, remedy in KINDS:
        if re.search(pattern, head, re.DOTALL):
            return InputError(where, found, EXPECTED, remedy)
    return InputError(where, "is not an image that can be read", EXPECTED, EXPORT)
