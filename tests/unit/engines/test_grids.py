"""Twins of the kernels of hash grids, against the tape."""

import numpy as np
import pytest

from neuralfield.engines.cuda.portable import grids
from neuralfield.engines.plan import network_plan
from neuralfield.fields import PictureShape, build_field, field_settings
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.images.coordinates import axis_centres, extent, grid
from neuralfield.nn import ops
from neuralfield.nn.tensor import gradients

GRIDS = {"type": "hashgrid", "levels": 5, "base_resolution": 3, "log2_table_size": 6}
"""The coarser grids have a row for each corner, in the finer ones corners share rows."""


def made(field, width, height):
    """The plan, the encoding, and the coordinates of a picture's columns and lines."""
    network = build_field(field_settings(field), PictureShape(width, height, 1), 1)
    assert isinstance(network.encoding, HashEncoding)
    sides = zip((width, height), extent(width, height), strict=True)
    centres = tuple(axis_centres(np, pixels, half).astype(np.float32) for pixels, half in sides)
    return network_plan(network), network.encoding, centres


def gradient_of_the_tape(encoding, points, slopes):
    features = encoding(points)
    (found,) = gradients(ops.sum_all(ops.multiply(features, slopes)), [encoding.table])
    return found


@pytest.mark.parametrize("features", [1, 2, 3])
@pytest.mark.parametrize("finest", [0, 300])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 1), (2, 65), (40, 31)])
def test_sums_along_lines_and_down_are_the_gradient_of_the_tape(width, height, finest, features):
    field = {**GRIDS, "finest_resolution": finest, "features": features}
    plan, encoding, centres = made(field, width, height)
    slopes = np.random.default_rng(0).normal(size=(width * height, encoding.size))
    found = grids.gradient_of_picture(plan.levels, plan.table_shape, centres, slopes)
    expected = gradient_of_the_tape(encoding, grid(*centres), slopes)
    # the tape has the parts of cells in float32
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(expected).max() > 0.1


def test_features_and_gradients_of_any_points_are_those_of_the_tape():
    plan, encoding, _ = made(GRIDS, 40, 31)
    generator = np.random.default_rng(0)
    points = np.concatenate([generator.uniform(-1, 1, (500, 2)), [[1, 1], [-1, -1], [1, -1]]])
    slopes = generator.normal(size=(len(points), encoding.size))
    found = grids.features(plan.levels, encoding.table.data, points)
    np.testing.assert_allclose(found, encoding(points).data, rtol=1e-12, atol=1e-18)
    gradient = grids.gradient_of_points(plan.levels, plan.table_shape, points, slopes)
    expected = gradient_of_the_tape(encoding, points, slopes)
    np.testing.assert_allclose(gradient, expected, rtol=1e-9, atol=1e-12)
