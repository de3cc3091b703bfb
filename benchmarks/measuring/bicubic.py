"""The degradation of papers on super-resolution: bicubic, as MATLAB's imresize computes it.

Pillow has the same kernel: that of Keys with a = -0.5, scaled by the reduction factor. The two only
differ at the image's borders: imresize mirrors the image, which is therefore mirrored here before
it is resized.
"""

import numpy as np

from neuralfield.images.resizing import BACK_PROJECTIONS, resize_channel

_MARGIN_PX = 4
"""Pixels of the small image that are mirrored at each border: more than the kernel's radius."""


def reduced(values: np.ndarray, factor: int) -> np.ndarray:
    """Reduce an image, shape (height, width, channels); its sides are multiples of the factor."""
    height, width = values.shape[0] // factor, values.shape[1] // factor
    return _resized(values, (width, height), _MARGIN_PX * factor, "bicubic")


def enlarged(values: np.ndarray, factor: int, filter: str = "bicubic") -> np.ndarray:
    """Enlarge an image, shape (height, width, channels)."""
    height, width = factor * values.shape[0], factor * values.shape[1]
    return _resized(values, (width, height), _MARGIN_PX, filter)


def back_projected(values: np.ndarray, small: np.ndarray, factor: int) -> np.ndarray:
    """Correct an enlarged image so that, reduced by the bicubic kernel, it is `small` again."""
    for _ in range(BACK_PROJECTIONS):
        values = values + enlarged(small - reduced(values, factor), factor, "lanczos")
    return values


def _resized(
    values: np.ndarray, size_px: tuple[int, int], margin_px: int, filter: str
) -> np.ndarray:
    """Resize an image with a mirrored margin, and remove the margin."""
    scale = size_px[1] / values.shape[0]
    margin = round(margin_px * scale)
    mirrored = np.pad(values, [(margin_px, margin_px)] * 2 + [(0, 0)], mode="symmetric")
    size = (size_px[0] + 2 * margin, size_px[1] + 2 * margin)
    channels = [
        resize_channel(np.ascontiguousarray(channel, np.float32), size, filter)
        for channel in np.moveaxis(mirrored, 2, 0)
    ]
    return np.stack(channels, axis=2)[margin:-margin, margin:-margin]
