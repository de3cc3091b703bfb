"""The gradient of a hash grid, summed over an image as in the kernels, compared with the tape's."""

import numpy as np
import pytest
from finite_differences import sum_all

from neuralfield.engines.cuda.portable.grids import AxisCorners, axis_corners, corners_of_rows
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.images.coordinates import axis_centres, extent, grid
from neuralfield.nn import ops
from neuralfield.nn.tensor import gradients

GRIDS = {"type": "hashgrid", "levels": 5, "base_resolution": 3, "log2_table_size": 6}
"""The coarser grids have a row for each corner; in the finer ones, several corners share a row."""


def made(field, width, height):
    """Return a float64 network, its encoding, and coordinates of an image's columns and rows."""
    network = build_field(field_settings(field), ImageShape(width, height, 1), 1)
    sides = zip((width, height), extent(width, height), strict=True)
    centres = [axis_centres(np, pixels, half).astype(np.float32) for pixels, half in sides]
    assert isinstance(network.encoding, HashEncoding)
    return network, network.encoding, centres


def gradient_of_the_tape(encoding, points, by_features):
    features = encoding(points)
    (found,) = gradients(sum_all(ops.multiply(features, by_features)), [encoding.table])
    return found


def weights_of(axis: AxisCorners) -> np.ndarray:
    """Return the weights of all pixels at all corners of an axis, shape (k, n)."""
    first, middle, last = axis.spans.T[:, :, None]
    pixel = np.arange(len(axis.parts))
    behind = (first <= pixel) & (pixel < middle)
    before = (middle <= pixel) & (pixel < last)
    return behind * axis.parts + before * (1 - axis.parts)


def gradient_of_sums(encoding, centres, by_features):
    """Sum as the kernels do: along lines, then down, then over the corners of each table row."""
    width, height = map(len, centres)
    gradient = np.zeros_like(encoding.table.data)
    parts = np.split(by_features, len(encoding.levels), axis=1)
    for level, part in zip(encoding.levels, parts, strict=True):
        across, down = (axis_corners(axis, level.resolution) for axis in centres)
        of_lines = np.einsum("cx,yxf->ycf", weights_of(across), part.reshape(height, width, -1))
        sums = np.einsum("ly,ycf->lcf", weights_of(down), of_lines)
        counts, corners = corners_of_rows(level, across.corners, down.corners)
        rows = level.start + np.repeat(np.arange(level.rows), counts)
        np.add.at(gradient, rows, sums.reshape(-1, gradient.shape[1])[corners])
    return gradient


@pytest.mark.parametrize("cropped", [False, True])
@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("finest", [0, 300])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 1), (2, 65), (40, 31)])
def test_sums_along_lines_and_down_are_the_gradient_of_the_tape(
    width, height, finest, features, cropped
):
    field = {**GRIDS, "finest_resolution": finest, "features": features, "cropped": cropped}
    _, encoding, centres = made(field, width, height)
    by_features = np.random.default_rng(0).normal(size=(width * height, encoding.size))
    found = gradient_of_sums(encoding, centres, by_features)
    expected = gradient_of_the_tape(encoding, grid(*centres), by_features)
    # the tape computes positions within cells in float32
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(expected).max() > 0.1
