"""Kernels of hash grids compared with the tape in float64."""

import numpy as np
import pytest
import test_grids

from neuralfield.engines.cuda.buffers import NetworkArrays
from neuralfield.engines.cuda.portable.block_gradient import BlockGradient
from neuralfield.engines.cuda.portable.grid_features import FeatureLayout, GridFeatures
from neuralfield.engines.cuda.portable.grid_gradient import make_table_gradient
from neuralfield.engines.kernel_plan import BatchPlan, network_plan
from neuralfield.images.coordinates import grid
from neuralfield.nn.blocks import Blocks
from neuralfield.system.device import gpu_is_present, select_device, to_host

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

TOLERANCE = {True: 1e-3, False: 1e-5}
"""Tolerances with fp16 (True) and float32 (False), for numbers of about 1."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def plan_of(features: int, finest: int = 0, width: int = 40, height: int = 31):
    field = {**test_grids.GRIDS, "features": features, "finest_resolution": finest}
    network, encoding, centres = test_grids.made(field, width, height)
    return network_plan(network), encoding, centres


def layout_of(kind: str, rows: int, numbers: int) -> FeatureLayout:
    if kind == "pairs, fp16":
        return FeatureLayout.of_pairs(rows)
    return FeatureLayout.of_rows(-(-numbers // 64) * 64, is_mixed=kind == "rows, fp16")


def places(layout: FeatureLayout, rows: int, numbers: int) -> np.ndarray:
    """Return the index of each number in a flat array."""
    row, column = np.arange(rows)[:, None], np.arange(numbers)
    return row * layout.row_stride + column // 2 * layout.pair_stride + column % 2


def laid_out(gpu, layout: FeatureLayout, numbers: np.ndarray):
    """Return an array on the GPU with these numbers, and NaN in the gaps between them."""
    where = places(layout, *numbers.shape)
    flat = np.full(where.max() + 2, np.nan, np.float16 if layout.is_mixed else np.float32)
    flat[where] = numbers
    return gpu.asarray(flat)


LAYOUTS = pytest.mark.parametrize("kind", ["pairs, fp16", "rows, fp16", "rows, float32"])
FEATURES = pytest.mark.parametrize("features", [1, 2, 3, 4, 8])


@LAYOUTS
@FEATURES
@pytest.mark.parametrize("count", [1, 63, 1000])
def test_features(gpu, count, features, kind):
    plan, encoding, _ = plan_of(features)
    generator = np.random.default_rng(1)
    table = generator.normal(size=plan.table_shape).astype(np.float32)
    points = generator.uniform(-1, 1, size=(count, 2)).astype(np.float32)
    points[:2] = [[1, -1], [-1, 1]][:count]
    rows, numbers = -(-count // 64) * 64, features * len(plan.levels)
    layout = layout_of(kind, rows, numbers)
    arrays = NetworkArrays(gpu.asarray(table.ravel()), {"encoding.table": 0}, None)
    tested = GridFeatures(plan, arrays, layout)
    found = laid_out(gpu, layout, np.full((rows, numbers), np.nan))
    tested.launch(gpu.asarray(points), count, rows, found)()
    found = to_host(found)[places(layout, rows, numbers)]
    points = np.concatenate([points, np.zeros((rows - count, 2), np.float32)])
    encoding.table.data = table.astype(np.float64)
    expected = encoding(points).data
    np.testing.assert_allclose(found, expected, atol=4 * TOLERANCE[layout.is_mixed])


def gradients_of(gpu, plan, batch, layout, points, gradients, times=1):
    """Yield the gradient of each of `times` runs, with all points in one chunk."""
    tested = make_table_gradient(gpu, plan, batch, layout)
    given = laid_out(gpu, layout, gradients)
    launches = tested.launches(given, gpu.asarray(points), len(gradients), is_last=True)
    size = plan.table_shape[0] * plan.table_shape[1]
    for _ in range(times):
        for launch in launches:
            launch()
        yield to_host(tested.array)[:size].reshape(plan.table_shape)


@LAYOUTS
@FEATURES
@pytest.mark.parametrize("finest", [0, 300])
@pytest.mark.parametrize(("width", "height"), [(1, 1), (7, 1), (2, 65), (300, 31)])
def test_the_gradient_of_all_pixels(gpu, width, height, finest, features, kind):
    plan, encoding, centres = plan_of(features, finest, width, height)
    points = grid(*centres)
    batch = BatchPlan(len(points), 1, False, "mse", 0.1, 1, False, (width, height))
    layout = layout_of(kind, len(points), features * len(plan.levels))
    generator = np.random.default_rng(2)
    gradients = generator.normal(size=(len(points), features * len(plan.levels))).astype(np.float16)
    expected = test_grids.gradient_of_the_tape(encoding, points, gradients.astype(np.float64))
    first, second = gradients_of(gpu, plan, batch, layout, points, gradients, times=2)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(first, second)


@LAYOUTS
@FEATURES
@pytest.mark.parametrize("footprint", [False, True])
@pytest.mark.parametrize(
    ("width", "height", "count"), [(5, 1, 3), (3, 70, 100), (90, 31, 600), (60, 80, 4700)]
)
def test_the_gradient_of_a_pixel_of_each_block(
    gpu, width, height, count, footprint, features, kind
):
    plan, encoding, (columns, lines) = plan_of(features, 0, width, height)
    blocks = Blocks(np, width, height, count)
    pixels, points = blocks.pixels(step=5, seed=2), 3 if footprint else 1
    centres = np.stack([columns[pixels % width], lines[pixels // width]], axis=1)
    inside = np.random.default_rng(1).uniform(-0.5, 0.5, (count, points, 2)) * footprint
    spread = centres[:, None] + 2 / max(width, height) * inside
    batch = BatchPlan(count, points, footprint, "mse", 0.1, 1, False, blocks=blocks)
    inputs = np.zeros((batch.tiles, 64, 2), np.float32)
    slots = np.arange(count)[:, None]
    rows = slots % batch.tile_pixels * points + np.arange(points)
    inputs[slots // batch.tile_pixels, rows] = spread
    gradients = np.zeros((batch.tiles, 64, features * len(plan.levels)), np.float16)
    gradients[slots // batch.tile_pixels, rows] = np.random.default_rng(2).normal(
        size=(count, points, gradients.shape[2])
    )
    inputs, gradients = inputs.reshape(-1, 2), gradients.reshape(batch.rows, -1)
    layout = layout_of(kind, batch.rows, features * len(plan.levels))
    tested = BlockGradient(gpu, plan, batch, layout)
    given = laid_out(gpu, layout, gradients)
    for launch in tested.launches(given, gpu.asarray(inputs), len(inputs), is_last=True):
        launch()
    found = to_host(tested.array)[: np.prod(plan.table_shape)].reshape(plan.table_shape)
    expected = test_grids.gradient_of_the_tape(encoding, inputs, gradients.astype(np.float64))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-4)


@LAYOUTS
@FEATURES
@pytest.mark.parametrize(("count", "spread"), [(1, 1.0), (63, 0.01), (1000, 1.0), (1000, 0.01)])
def test_the_gradient_of_any_points_in_any_order(gpu, count, spread, features, kind):
    plan, encoding, _ = plan_of(features)
    generator = np.random.default_rng(3)
    points = generator.uniform(-spread, spread, size=(count, 2)).astype(np.float32)
    gradients = generator.normal(size=(count, features * len(plan.levels))).astype(np.float16)
    batch = BatchPlan(count, 1, False, "mse", 0.1, 1, False)
    layout = layout_of(kind, count, features * len(plan.levels))
    expected = test_grids.gradient_of_the_tape(encoding, points, gradients.astype(np.float64))
    first, second = gradients_of(gpu, plan, batch, layout, points, gradients, times=2)
    np.testing.assert_allclose(first, expected, rtol=1e-5, atol=1e-4)
    np.testing.assert_array_equal(first, second)
    order = generator.permutation(count)
    (shuffled,) = gradients_of(gpu, plan, batch, layout, points[order], gradients[order])
    np.testing.assert_array_equal(first, shuffled)


def test_the_largest_gradients_of_all_points_do_not_overflow(gpu):
    plan, _, _ = plan_of(2)
    count, numbers = 5000, 2 * len(plan.levels)
    points = np.full((count, 2), -1, np.float32)
    gradients = np.full((count, numbers), 65504, np.float16)
    batch = BatchPlan(count, 1, False, "mse", 0.1, 1, False)
    layout = FeatureLayout.of_pairs(count)
    (found,) = gradients_of(gpu, plan, batch, layout, points, gradients)
    assert found.max() == pytest.approx(count * 65504)
