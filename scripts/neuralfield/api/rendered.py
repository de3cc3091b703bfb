"""Rendered images: arrays that know how to save and show themselves."""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from neuralfield.api.arguments import require_bit_depth, require_output
from neuralfield.api.errors import InvalidInputError, InvalidSettingError, built_in_kinds
from neuralfield.images import PngBandWriter
from neuralfield.rendering.levels import to_levels
from neuralfield.system.files import write_atomically


class RenderedImage(np.ndarray):
    """An image as an array of float32 in [0, 1], with all that arrays can do.

    The shape is (height, width) for grey, and (height, width, 3 or 4) for colour. Means, sums and
    the like are plain numbers and arrays.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.full((2, 3), 0.5, np.float32).view(RenderedImage)
    >>> image.levels().tolist()
    [[128, 128, 128], [128, 128, 128]]
    """

    def __array_wrap__(
        self, array: np.ndarray, context: Any = None, return_scalar: bool = False
    ) -> Any:
        """Return what an operation has computed: another shape, as of a mean, is no image."""
        if array.shape == self.shape:
            return super().__array_wrap__(array, context, return_scalar)
        return array[()] if return_scalar else np.asarray(array)

    def levels(self, bit_depth: int = 8) -> np.ndarray:
        """Return whole numbers from 0 to 255, or to 65535, as files have them.

        Parameters
        ----------
        bit_depth : {8, 16}
        """
        require_bit_depth(bit_depth)
        return to_levels(np.asarray(self), bit_depth)

    def save(self, path: str | os.PathLike, *, bit_depth: int = 8) -> None:
        """Write the image to a file; a PNG has the bytes that the workflow writes.

        Parameters
        ----------
        path : path
            The ending names the format: ``.png``, or another one that Pillow writes.
        bit_depth : {8, 16}
            Bits of each channel; 16 for PNG alone.

        Raises
        ------
        ValueError
            The format is unknown, or has no such depth or channels.
        OSError
            The file cannot be written.
        """
        with built_in_kinds():
            file, levels = require_output("path", path), self.levels(bit_depth)
            if not self._is_image():
                expected = "(height, width) or (height, width, 3 or 4)"
                raise InvalidInputError("image", f"an array of shape {self.shape}", expected)
            if file.suffix.lower() != ".png":
                if bit_depth != 8:
                    raise InvalidSettingError("bit_depth", f"{bit_depth} for {file}", "8, or a PNG")
                write_atomically(file, _encode(levels, file))
                return
            levels = levels.reshape(*levels.shape[:2], -1)
            height, width, channels = levels.shape
            with PngBandWriter(file, width, height, channels, bit_depth) as png:
                png.write_rows(levels)

    def _is_image(self) -> bool:
        return self.size > 0 and (self.ndim == 2 or (self.ndim == 3 and self.shape[2] in (3, 4)))

    def _repr_png_(self) -> bytes | None:
        """Return a PNG, which notebooks show; None for a part that is no image."""
        if not self._is_image():
            return None
        file = io.BytesIO()
        Image.fromarray(self.levels()).save(file, "PNG")
        return file.getvalue()


def _encode(levels: np.ndarray, file: Path) -> bytes:
    """Return an image as a file of the format that a name ends in."""
    kind = Image.registered_extensions().get(file.suffix.lower())
    if kind not in Image.SAVE:
        expected = "a name that ends in .png, .jpg, .webp, .tif or another that Pillow writes"
        raise InvalidSettingError("path", repr(os.fspath(file)), expected)
    encoded = io.BytesIO()
    try:
        Image.fromarray(levels).save(encoded, kind)
    except OSError as error:
        raise InvalidSettingError("path", f"{error}", "another format, such as .png") from error
    return encoded.getvalue()
