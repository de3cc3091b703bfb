"""Refining an enlarged image by filtering its similar patches together."""

from contextlib import closing
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
"""Assumed error of the image in each round, and distance between groups in pixels."""

_COARSE = 4
"""Maximum scale for `_STRENGTH`; images that are enlarged more, as drawings are, are refined with
`_FINE_STRENGTH`."""

_THRESHOLD = 2.7
"""Threshold as a multiple of the noise: smaller numbers of a transformed group become 0."""

_MOMENTUM = 0.5
"""Share of the previous round's step by which each round extrapolates."""

_CORRECTIONS = 2
"""Number of back-projections in a round."""

_LEAST_PX = 2 * PATCH_PX + 1
"""Minimum side of an image in pixels; a narrower one has no patches to compare."""

_LITTLE_DB, _LEAST_DB = -16.0, -17.5
"""Differences between a result and the filter's, relative to the image's detail: the weight of the
filter's result is 0 at the first and largest at the second."""

_MOST_FILTERED = 0.4
"""Maximum weight of the filter's result."""


def refined(
    enlarged: Array, values: np.ndarray, *, device: Device = HOST, threads: int = 1
) -> np.ndarray:
    """Refine an enlarged image by its similar patches, and keep it consistent with the small one.

    Each round corrects the image so that it equals the small one when it is reduced by the box
    filter, and then filters groups of similar patches together, less strongly from round to round
    (Tirer & Giryes, "Image restoration by iterative denoising and backward projections", IEEE
    Transactions on Image Processing, 2019). Patches are transformed by the principal components of
    their group (Dabov, Foi, Katkovnik & Egiazarian, "BM3D image denoising with shape-adaptive
    principal component analysis", SPARS, 2009; here of squares). Groups are found in the given
    image, because the patches of a filtered one are more similar to each other than they should be.

    If the result hardly differs from that of a filter, Lanczos with back-projection, the two are
    mixed, because a small difference comes from noise more than from details.

    Parameters
    ----------
    enlarged : ndarray of float32, shape (height, width, channels)
        In [0, 1]; a whole number of times as large as `values`.
    values : ndarray of float32, shape (small height, small width, channels)
        The small image.
    device : Device
        Results of different kinds of devices differ by rounding, and by more where rounding moves a
        number across a threshold.
    threads : int
        Processor cores to use; the result is the same for any number of them.

    Returns
    -------
    ndarray of float32, shape (height, width, channels)
        Not clipped.
    """
    height, width, channels = enlarged.shape
    small, planes = np.moveaxis(values, 2, 0), device.asarray(np.moveaxis(enlarged, 2, 0))
    # principal colours in decreasing order of variance: patches are compared by the first one
    colours = values.reshape(-1, channels) - values.mean(axis=(0, 1), dtype=np.float64)
    components = np.linalg.eigh(np.einsum("pc,pd->cd", colours, colours))[1].T[::-1]
    noise, stride_px = _STRENGTH if height <= _COARSE * len(values) else _FINE_STRENGTH
    with closing(_similar_patches(small, height, width, stride_px, device, threads)) as patches:
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
    found += _share_of_filter(found, filtered, small) * (filtered - found)
    return np.ascontiguousarray(np.moveaxis(found, 0, 2))


def _share_of_filter(found: np.ndarray, filtered: np.ndarray, small: np.ndarray) -> np.float32:
    """Return the weight of the filter's result.

    The difference of the results, which grows with about the power 1.4 of the scale, is compared
    with the fine detail of the small image.
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
    # imported here, because a process needs only one of the two, and each takes a moment
    if device.kind == "gpu":
        from neuralfield.rendering.gpu_patches import GpuPatches

        return GpuPatches(small, height, width, stride_px, device)
    from neuralfield.rendering.cpu_patches import CpuPatches

    return CpuPatches(small, height, width, stride_px, threads)
