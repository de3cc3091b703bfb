"""Rendered images: arrays with methods to save and show them."""

import io
import os
from typing import Any

import numpy as np
from PIL import Image

from neuralfield.api.arguments import require, require_output
from neuralfield.images import ImageData, write_image
from neuralfield.images.image import MODES
from neuralfield.rendering.levels import to_levels
from neuralfield.system.errors import ConfigError, InputError
from neuralfield.system.files import write_atomically


class RenderedImage(np.ndarray):
    """A float32 array in [0, 1] that can be saved as an image and is shown as one in notebooks.

    The shape is (height, width) for grey, and (height, width, 3 or 4) for colour. Computed results
    of another shape, such as means and sums, are plain numbers and arrays.

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
        """Return a computed result; one of another shape is a plain number or array."""
        if array.shape == self.shape:
            return super().__array_wrap__(array, context, return_scalar)
        return array[()] if return_scalar else np.asarray(array)

    def levels(self, bit_depth: int = 8) -> np.ndarray:
        """Return the values as integers from 0 to 255 or to 65535, as stored in image files.

        Parameters
        ----------
        bit_depth : {8, 16}
        """
        require(bit_depth in (8, 16), "bit_depth", bit_depth, "8 or 16")
        return to_levels(np.asarray(self), bit_depth)

    def save(self, path: str | os.PathLike, *, bit_depth: int = 8) -> None:
        """Write the image to a file; a PNG is identical, byte for byte, to that of the workflow.

        Parameters
        ----------
        path : path
            The extension selects the format: ``.png``, or another one that Pillow can write.
        bit_depth : {8, 16}
            Bits per channel; 16 is supported for PNG only.

        Raises
        ------
        ValueError
            The format is unknown, or does not support the bit depth or the number of channels.
        OSError
            The file cannot be written.
        """
        file, levels = require_output("path", path), self.levels(bit_depth)
        if not self._is_image():
            expected = "(height, width) or (height, width, 3 or 4)"
            raise InputError("image", f"an array of shape {self.shape}", expected)
        kind = Image.registered_extensions().get(file.suffix.lower())
        expected = "a name that ends in .png, .jpg, .webp, .tif or another that Pillow writes"
        require(kind in Image.SAVE, "path", os.fspath(file), expected)
        require(kind == "PNG" or bit_depth == 8, "bit_depth", bit_depth, "8, or a PNG")
        if kind == "PNG":
            pixels = levels.reshape(*levels.shape[:2], -1)
            write_image(file, ImageData(pixels, MODES[pixels.shape[2]], bit_depth))
            return
        encoded = io.BytesIO()
        try:
            Image.fromarray(levels).save(encoded, kind)
        except OSError as error:
            raise ConfigError("path", f"{error}", "another format, such as .png") from error
        write_atomically(file, encoded.getvalue())

    def _is_image(self) -> bool:
        return self.size > 0 and (self.ndim == 2 or (self.ndim == 3 and self.shape[2] in (3, 4)))

    def _repr_png_(self) -> bytes | None:
        """Return a PNG, which notebooks show; None if the array does not have an image's shape."""
        if not self._is_image():
            return None
        file = io.BytesIO()
        Image.fromarray(self.levels()).save(file, "PNG")
        return file.getvalue()
