"""Refining an enlarged image by what its similar patches agree on."""

from typing import TYPE_CHECKING

import numpy as np

from neuralfield.engines.patch_groups import PATCH_PX
from neuralfield.images.resizing import BACK_PROJECTIONS, resize_channel
from neuralfield.system.device import HOST, Array, Device, to_host

if TYPE_CHECKING:
    from neuralfield.rendering.cpu_patches import CpuPatches
    from neuralfield.rendering.gpu_patches import GpuPatches

_STRENGTH = np.geomspace(34 / 255, 4 / 255, 8), 2
_FINE_STRENGTH = np.geomspace(20 / 255, 3 / 255, 16), 3
"""The error that the image is supposed to have in each round, and pixels between groups."""

_COARSE = 4
"""Images that are enlarged more, as drawings are, are refined by `_FINE_STRENGTH`."""

_THRESHOLD = 2.7
"""Numbers of a transformed group below so many times the noise become 0."""

_MOMENTUM = 0.5
"""Each round goes on by this share of the step of the one before."""

_CORRECTIONS = 2
"""Back-projections in a round."""

_LEAST_PX = 2 * PATCH_PX + 1
"""A narrower image has no patches to compare."""

_LITTLE_DB, _LEAST_DB = -16.0, -17.5
"""Distances of a result from the filter's: the filter begins to count at the first, and counts most
at the second."""

_MOST_FILTERED = 0.4
"""The largest weight of the filter's result."""


def refined(
    enlarged: Array, values: np.ndarray, *, device: Device = HOST, threads: int = 1
) -> np.ndarray:
    """Keep of an enlarged image what its similar patches agree on, and what the small one says.

    Each round corrects the image so that, reduced by the box filter, it is the small one, and then
    filters groups of similar patches together, with less force from round to round (Tirer & Giryes,
    "Image restoration by iterative denoising and backward projections", IEEE Transactions on Image
    Processing, 2019). Patches are transformed by the principal components of their group (Dabov,
    Foi, Katkovnik & Egiazarian, "BM3D image denoising with shape-adaptive principal component
    analysis", SPARS, 2009; here of squares). Groups are those of the given image: a filtered one
    looks more like itself than it should.

    Where the result is hardly another one than that of a filter, Lanczos and back-projection, it is
    mixed with that: what little there is was found in noise more than in details.

    Parameters
    ----------
    enlarged : ndarray of float32, shape (height, width, channels)
        In [0, 1]; a whole number of times as large as `values`.
    values : ndarray of float32, shape (small height, small width, channels)
        The small image.
    device : Device
        Results of different kinds of devices differ by rounding, and where a rounded number lies at
        a threshold.
    threads : int
        Processor cores to use; the result is the same for any number of them.

    Returns
    -------
    ndarray of float32, shape (height, width, channels)
        Not clipped.
    """
    height, width, channels = enlarged.shape
    small, planes = np.moveaxis(values, 2, 0), device.asarray(np.moveaxis(enlarged, 2, 0))
    # in the order of their variance: patches are compared by the first one
    colours = values.reshape(-1, channels) - values.mean(axis=(0, 1), dtype=np.float64)
    components = np.linalg.eigh(np.einsum("pc,pd->cd", colours, colours))[1].T[::-1]
    noise, stride_px = _STRENGTH if height <= _COARSE * len(values) else _FINE_STRENGTH
    patches = _similar_patches(small, height, width, stride_px, device, threads)
    try:
        before = planes
        for number, wrong in enumerate(noise if min(height, width) >= _LEAST_PX else ()):
            further = planes + np.float32(_MOMENTUM) * (planes - before)
            mixed = patches.mixed(patches.consistent(further, _CORRECTIONS), components)
            if number == 0:
                patches.find(mixed[0])
            filtered = patches.filtered(mixed, _THRESHOLD * wrong)
            before, planes = planes, patches.mixed(filtered, components.T)
        found = to_host(patches.consistent(planes, BACK_PROJECTIONS))
        enlarged_by_filter = [resize_channel(plane, (width, height), "lanczos") for plane in small]
        by_filter = device.asarray(np.stack(enlarged_by_filter))
        filtered = to_host(patches.consistent(by_filter, BACK_PROJECTIONS))
    finally:
        patches.close()
    found += _share_of_filter(found, filtered, small) * (filtered - found)
    return np.ascontiguousarray(np.moveaxis(found, 0, 2))


def _share_of_filter(found: np.ndarray, filtered: np.ndarray, small: np.ndarray) -> np.float32:
    """Return how much the result of the filter should count.

    The difference of the results is compared with the fine detail of the small image; it grows with
    the scale, by about its power 1.4.
    """
    padded = np.pad(small, ((0, 0), (1, 1), (1, 1)), "edge")
    rows, columns = padded[:, :, 1:-1], padded[:, 1:-1]
    around = (rows[:, :-2] + rows[:, 2:] + columns[..., :-2] + columns[..., 2:]) / 4
    detail = np.mean((small - around) ** 2, dtype=np.float64) + 1e-9
    scale = found.shape[1] / small.shape[1]
    difference = np.mean((found - filtered) ** 2, dtype=np.float64) / scale**1.4 + 1e-9
    part = (_LITTLE_DB - 10 * np.log10(difference / detail)) / (_LITTLE_DB - _LEAST_DB)
    return np.float32(_MOST_FILTERED * np.clip(part, 0, 1))


def _similar_patches(
    small: np.ndarray, height: int, width: int, stride_px: int, device: Device, threads: int
) -> "CpuPatches | GpuPatches":
    # imported here: a process needs one of the two, and each takes a moment
    if device.kind == "gpu":
        from neuralfield.rendering.gpu_patches import GpuPatches

        return GpuPatches(small, height, width, stride_px, device)
    from neuralfield.rendering.cpu_patches import CpuPatches

    return CpuPatches(small, height, width, stride_px, threads)
