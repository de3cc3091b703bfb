"""Rendered images: arrays that know how to save and show themselves."""

import io
import os
from pathlib import Path

import numpy as np
from PIL import Image

from neuralfield.images import PngBandWriter
from neuralfield.rendering.levels import to_levels


class RenderedImage(np.ndarray):
    """An image as an array of float32 in [0, 1], with all that arrays can do.

    The shape is (height, width) for grey, and (height, width, 3 or 4) for colour.

    Examples
    --------
    >>> import numpy as np
    >>> image = np.full((2, 3), 0.5, np.float32).view(RenderedImage)
    >>> image.levels().tolist()
    [[128, 128, 128], [128, 128, 128]]
    """

    def levels(self, bit_depth: int = 8) -> np.ndarray:
        """Return whole numbers from 0 to 255, or to 65535, as files have them.

        Parameters
        ----------
        bit_depth : {8, 16}
        """
        if bit_depth not in (8, 16):
            raise ValueError(f"bit_depth: {bit_depth!r}; expected 8 or 16")
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
            The format is unknown, or has no such depth.
        """
        levels = self.levels(bit_depth)
        if Path(path).suffix.lower() != ".png":
            if bit_depth != 8:
                raise ValueError(f"bit_depth: {bit_depth} for {path}; expected 8, or a PNG")
            Image.fromarray(levels).save(path)
            return
        levels = levels.reshape(*levels.shape[:2], -1)
        height, width, channels = levels.shape
        with PngBandWriter(path, width, height, channels, bit_depth) as png:
            png.write_rows(levels)

    def _repr_png_(self) -> bytes | None:
        """Return a PNG, which notebooks show; None for a part that is no image."""
        if self.ndim not in (2, 3) or (self.ndim == 3 and self.shape[2] not in (3, 4)):
            return None
        file = io.BytesIO()
        Image.fromarray(self.levels()).save(file, "PNG")
        return file.getvalue()
