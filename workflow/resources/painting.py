"""Painting polygons with smooth edges, for the sample images."""

import numpy as np
from PIL import Image, ImageDraw

# Each pixel is the mean of a square of this many subpixels per side. Large shapes are painted in
# strips of at most `STRIP_SUBPIXELS` subpixels, to bound the memory.
SUPERSAMPLING = 12
STRIP_SUBPIXELS = 1 << 24


def blend(canvas, outlines, colour, opacity=1.0):
    """Paint the union of some polygons onto an image, in place, with smooth edges.

    `canvas` is float32, with or without channels. `outlines` have the shape (n, 2), in units of the
    width of the image. `colour` is anything that broadcasts to the shape of the image. An opacity
    of 1 replaces the previous colours.
    """
    height, width = canvas.shape[:2]
    paint = np.broadcast_to(np.asarray(colour, dtype=np.float32), canvas.shape)
    corners = np.vstack(outlines) * width
    left, top = np.floor(corners.min(axis=0)).astype(int).clip(0).tolist()
    right, bottom = np.ceil(corners.max(axis=0)).astype(int).clip(0, (width, height)).tolist()
    if left >= right:
        return
    strip = max(1, STRIP_SUBPIXELS // ((right - left) * SUPERSAMPLING**2))
    for row in range(top, bottom, strip):
        rows = slice(row, min(row + strip, bottom))
        size = ((right - left) * SUPERSAMPLING, (rows.stop - row) * SUPERSAMPLING)
        mask = Image.new("L", size)
        draw = ImageDraw.Draw(mask)
        for outline in outlines:
            local = (outline * width - (left, row)) * SUPERSAMPLING
            draw.polygon(local.ravel().tolist(), fill=255)
        cover = np.asarray(mask.reduce(SUPERSAMPLING), dtype=np.float32) * np.float32(opacity / 255)
        cover = cover.reshape(cover.shape + (1,) * (canvas.ndim - 2))
        area = canvas[rows, left:right]
        area += cover * (paint[rows, left:right] - area)
