"""Finding the residual: the difference that corrects renders of a trained network."""

from dataclasses import replace

import numpy as np

from neuralfield.images.resizing import BACK_PROJECTIONS
from neuralfield.rendering.corrected_renderer import Weights, lanczos_weights, resampled
from neuralfield.rendering.render import render
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.image.image_model import Model

_POINTS = 4
"""Number of rendered pixels along each axis of a training pixel, whose mean is compared with it."""

_MOST_POINTS = 1 << 22


def find_residual(
    model: Model, values: np.ndarray, scale: int = 1, *, device: Device, threads: int = 1
) -> np.ndarray:
    """Find what to add to renders so that, reduced by the box filter, they are the training image.

    Back-projection (Irani & Peleg, "Improving resolution by image registration", 1991): in each of
    `BACK_PROJECTIONS` rounds, what the reduced render lacks is enlarged by Lanczos and added. All
    operations except the network are linear, so that the rounds add up to one image of the training
    size.

    With a `scale` above 1, that image is `scale` times finer, and renders of its size become what
    `neuralfield.rendering.refining.refined` makes of them.

    Parameters
    ----------
    model : Model
        Without a residual.
    values : ndarray of float32, shape (height, width, channels)
        The training image, in [0, 1].
    scale : int
        How many times finer than the training image the residual is.
    device : Device
    threads : int
        CPU cores to use.

    Returns
    -------
    ndarray of float32, shape (scale height, scale width, channels)
    """
    means = _pixel_means(replace(model, residual=None), scale, device, threads)
    if scale > 1:
        # imported here, because most residuals are found without refining
        from neuralfield.rendering.refining import refined

        values = refined(means.astype(np.float32), values, device=device, threads=threads)
    dtype = np.float64 if device.kind == "cpu" else np.float32
    residual = missing = device.asarray(values - means, dtype)
    down, across = (
        tuple(map(device.asarray, _enlarged_and_reduced(length, dtype)))
        for length in values.shape[:2]
    )
    for _ in range(BACK_PROJECTIONS - 1):
        missing = missing - resampled(missing, down, across)
        residual = residual + missing
    return to_host(residual).astype(np.float32)


def _pixel_means(model: Model, scale: int, device: Device, threads: int) -> np.ndarray:
    """Render at `scale` times the training size, as means of finer renders if `scale` is small."""
    height, width = scale * model.height, scale * model.width
    points = max(1, _POINTS // scale)
    means = np.empty((height, width, model.channels))
    count = max(1, _MOST_POINTS // (points**2 * width))
    for top in range(0, height, count):
        bottom = min(top + count, height)
        box = (0.0, top / height, 1.0, bottom / height)
        size = (points * width, points * (bottom - top))
        part = render(model, *size, device=device, box=box, threads=threads)
        blocks = part.reshape(bottom - top, points, width, points, -1)
        means[top:bottom] = blocks.mean(axis=(1, 3), dtype=np.float64)
    return means


def _enlarged_and_reduced(length: int, dtype: type) -> Weights:
    """Return the indices and weights with which an axis is enlarged by Lanczos and then reduced to
    its length."""
    points = (np.arange(_POINTS) + 0.5) / _POINTS - 0.5
    indices, weights = lanczos_weights(np.arange(length)[:, None] + points, length)
    return indices, weights.astype(dtype)
