"""The stages of the cuda engine other than the pass, compared with reference implementations."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from make_objective import SIREN, make_objective

from neuralfield.engines.cuda.buffers import Buffers, PartialGradient, Pass
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.cuda.stages import sampling
from neuralfield.engines.cuda.stages.muon import HiddenMatrix, MuonStage
from neuralfield.engines.cuda.stages.sampling import SamplingStage, block_constants
from neuralfield.engines.cuda.stages.update import UpdateStage
from neuralfield.engines.flat_arrays import flatten_arrays
from neuralfield.engines.kernel_plan import batch_plan, network_plan
from neuralfield.fields.coordinate_network import CornerBias
from neuralfield.images.coordinates import pixel_centres
from neuralfield.nn.blocks import Blocks
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.tasks.image.presets import read_preset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

CPU = select_device("cpu")
ORIGINAL = read_preset("original")


PIXELS_OF_BLOCKS = """
#include "HERE/blocks.cuh"
extern "C" __global__ void pixels(long long step, unsigned long long seed, int* found) {
    const int slot = blockIdx.x * blockDim.x + threadIdx.x;
    if (slot < PIXELS) found[slot] = Block::of_slot(slot).pixel(slot, step, seed);
}
"""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


@pytest.mark.parametrize(
    ("field", "settings"),
    [
        (SIREN, {"points": 1, "channels": 3}),
        (SIREN, {"points": 1, "batch_pixels": 100}),
        (SIREN, {"points": 4, "batch_pixels": 63, "detail_share": 0.5}),
        (SIREN, {"points": 3, "batch_pixels": 1, "seed": 2**40 + 5}),
        (SIREN, {"points": 5, "batch_pixels": 65, "channels": 4}),
        (SIREN, {"points": 64, "batch_pixels": 20, "detail_share": 1.0}),
        (SIREN, {"points": 33, "width": 13, "height": 40}),
        (SIREN, {"points": 1, "batch_pixels": 390, "seed": 2**64 - 1}),
        (SIREN, {"points": 3, "batch_pixels": 195}),
        (SIREN, {"points": 1, "width": 97, "height": 1, "batch_pixels": 31}),
        (SIREN, {"points": 2, "width": 1, "height": 97, "batch_pixels": 96}),
        (SIREN, {"points": 1, "width": 300, "height": 301, "batch_pixels": 1}),
        (SIREN, {"points": 1, "width": 384, "height": 256, "batch_pixels": 4097}),
        (ORIGINAL, {"points": 4, "batch_pixels": 100, "detail_share": 0.5}),
        (ORIGINAL, {"points": 1, "width": 31, "height": 1}),
    ],
)
def test_sampling_is_the_same_bits(gpu, field, settings):
    objective, reference = (
        make_objective(field, device=device, **settings) for device in (gpu, CPU)
    )
    network, batch = network_plan(objective.network), batch_plan(objective)
    xp, shape = gpu.xp, objective.shape
    buffers = Buffers(
        parameters=xp.zeros(1),
        offsets={},
        inputs=xp.full((batch.rows, 2), 7, dtype="float32"),
        targets=xp.zeros((batch.pixels, batch.channels), dtype="float32"),
        weights=xp.zeros(batch.pixels, dtype="float32"),
        frequencies=None,
    )
    counter = xp.zeros((), dtype="int64")
    stage = SamplingStage(gpu, objective, network, batch, buffers, counter)
    for step in (0, 3, 17, 1_234_567, 2**31 - 1):
        counter.fill(step)
        stage.launch()
        pixels = reference.batches.indices(step)
        points = pixel_centres(np, shape.width, shape.height).astype(np.float32)[pixels]
        if reference.footprint:
            points = reference.footprint.spread(np, points, pixels, step)
        if isinstance(reference.network.encoding, CornerBias):
            points = reference.network.encoding(points)[:, 1:]
        tiles = to_host(buffers.inputs).reshape(batch.tiles, 64, 2)
        used = batch.tile_pixels * batch.points
        rows = tiles[:, :used].reshape(-1, 2)
        np.testing.assert_array_equal(rows[: len(points)], points)
        assert not rows[len(points) :].any()
        assert not tiles[:, used:].any()
        expected = reference.values.reshape(-1, shape.channels)[pixels]
        np.testing.assert_array_equal(to_host(buffers.targets), expected)
        weights = reference.batches.weights(pixels)
        if weights is not None:
            np.testing.assert_array_equal(to_host(buffers.weights), weights.astype(np.float32))


@pytest.mark.parametrize("count", [1, 7, 65_537])
def test_blocks_of_large_images_have_the_same_pixels(gpu, tmp_path, count):
    width, height, seed = 20_000, 30_000, 2**40 + 5
    blocks, xp = Blocks(np, width, height, count), gpu.xp
    path = tmp_path / "pixels.cu"
    path.write_text(PIXELS_OF_BLOCKS.replace("HERE", str(Path(sampling.__file__).parent)))
    constants = {"WIDTH": width, "HEIGHT": height, "PIXELS": count, **block_constants(blocks)}
    kernel = compile_kernel(path, "pixels", constants)
    pixels = xp.zeros(count, dtype="int32")
    for step in (0, 3, 1_234_567, 2**31 - 1):
        kernel((-(-count // 128),), (128,), (np.int64(step), np.uint64(seed), pixels))
        np.testing.assert_array_equal(to_host(pixels), blocks.pixels(step, seed))


class GivenPass(Pass):
    """A pass that only returns the gradients and losses given to its constructor."""

    def __init__(self, device, gradients, loss_partials):
        super().__init__(device)
        self._gradients, self.loss_partials = gradients, loss_partials

    def partial_gradients(self):
        return self._gradients


@pytest.mark.parametrize("parts", [1, 7, 22, 132])
@pytest.mark.parametrize(
    ("settings", "schedule"),
    [
        ({"optimizer": "adam"}, Schedule("cosine", 1e-3, 1e-5, 20, 3, 5)),
        ({"optimizer": "adam", "beta1": 0.8, "beta2": 0.99}, Schedule("constant", 1e-2, 0, 20)),
        ({"optimizer": "sgd", "momentum": 0.9}, Schedule("constant", 1e-2, 0, 20, 0, 4)),
        ({"optimizer": "sgd"}, Schedule("cosine", 1e-2, 1e-3, 4, 2)),
        ({"optimizer": "adam"}, Schedule("exponential", 1e-2, 1e-4, 4, 2, 2)),
        ({"optimizer": "sgd", "gradient_clip_norm": 0.3}, Schedule("constant", 1e-2, 0, 20)),
        ({"optimizer": "adam", "gradient_clip_norm": 1e3}, Schedule("constant", 1e-2, 0, 20)),
        ({"optimizer": "muon", "beta2": 0.9}, Schedule("cosine", 1e-2, 1e-5, 20, 3, 5)),
        ({"optimizer": "muon", "gradient_clip_norm": 0.3}, Schedule("constant", 1e-2, 0, 20)),
    ],
)
def test_update_moves_parameters_as_the_optimizer_does(gpu, settings, schedule, parts):
    xp, precision = gpu.xp, "float32"
    objective, reference = (
        make_objective(device=device, channels=3, schedule=schedule, **settings)
        for device in (gpu, CPU)
    )
    tensors = reference.network.parameters
    generator = np.random.default_rng(parts)
    gradients, strided = [], []
    for index, tensor in enumerate(tensors.values()):
        rows, columns = (1, *tensor.shape)[-2:]
        row_stride, offset = columns + index % 2, index % 3
        part_stride = rows * row_stride + 4 * (index % 3)
        array = xp.zeros(offset + parts * part_stride, dtype="float32")
        scale = 0.01 * (1 + index)
        gradients.append(PartialGradient(array, parts, part_stride, row_stride, offset, scale))
        strides = (4 * part_stride, 4 * row_stride, 4)
        view = xp.lib.stride_tricks.as_strided(array[offset:], (parts, rows, columns), strides)
        strided.append(view)
    places = {name: tensor.data for name, tensor in objective.network.parameters.items()}
    parameters = flatten_arrays(gpu, [(places, name) for name in places])
    counter = xp.zeros((), dtype="int64")
    own_pass = GivenPass(gpu, gradients, gpu.asarray(generator.random((300, 2))))
    stage = UpdateStage(gpu, objective, parameters, own_pass, counter, precision)
    stage.set_step(2)
    for step in range(2, 9):
        sums = []
        for view, gradient, tensor in zip(strided, gradients, tensors.values(), strict=True):
            values = generator.normal(size=view.shape).astype(np.float32)
            view[...] = gpu.asarray(values)
            sums.append((gradient.scale * values.sum(axis=0, dtype=np.float64)).astype(np.float32))
            sums[-1] = sums[-1].reshape(tensor.shape)
        stage.launch()
        reference.optimizer.update(sums, schedule(step), step + 1)
        assert int(counter) == step + 1
    for name, tensor in tensors.items():
        np.testing.assert_allclose(to_host(places[name]), tensor.data, rtol=1e-6, atol=1e-6)
    expected = 7 * to_host(own_pass.loss_partials).sum(axis=0)
    np.testing.assert_allclose(to_host(stage.totals), expected)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
@pytest.mark.parametrize("steps", [1, 10])
@pytest.mark.parametrize(
    "widths",
    [(512, 512, 100, 130, 17, 64, 64), (70, 70, 33, 17), (64, 64, 33, 17, 48)],
    ids=["wide", "narrow", "small"],
)
def test_muon_moves_matrices_as_in_float64(gpu, widths, steps, precision):
    """Matrices have various shapes; most of each gradient's norm is in few directions."""
    settings: dict[str, Any] = {
        "optimizer": "muon",
        "schedule": Schedule("constant", 1e-2, 0, 20),
        "field": {"type": "mlp", "widths": widths},
    }
    objective = make_objective(device=gpu, **settings)
    reference = make_objective(dtype="float64", **settings)
    tensors = reference.network.parameters
    before = {name: tensor.data.copy() for name, tensor in tensors.items()}
    places = {name: tensor.data for name, tensor in objective.network.parameters.items()}
    parameters = flatten_arrays(gpu, [(places, name) for name in places])
    arrays = [gpu.xp.zeros(tensor.shape, "float32") for tensor in tensors.values()]
    gradients = [PartialGradient(array, 1, array.size, array.shape[-1], 0, 1.0) for array in arrays]
    counter = gpu.xp.zeros((), dtype="int64")
    own_pass = GivenPass(gpu, gradients, gpu.xp.zeros((1, 2)))
    stage = UpdateStage(gpu, objective, parameters, own_pass, counter, precision)
    stage.set_step(0)
    generator = np.random.default_rng(steps)
    for step in range(steps):
        values = []
        for array in arrays:
            value = generator.normal(size=array.shape)
            if array.ndim == 2:
                left, sizes, right = np.linalg.svd(value, full_matrices=False)
                value = left * np.exp(-9 * np.arange(len(sizes)) / len(sizes)) @ right
            values.append(value.astype(np.float32))
            array[...] = gpu.asarray(values[-1])
        stage.launch()
        reference.optimizer.update([v.astype(np.float64) for v in values], 1e-2, step + 1)
    most = {"mixed": 0.03, "float32": 1e-4}[precision]
    for name, tensor in tensors.items():
        moved = to_host(places[name]) - before[name]
        expected = tensor.data - before[name]
        assert np.linalg.norm(moved - expected) < most * np.linalg.norm(expected), name


def moved_by_muon(gpu, shapes):
    """Return matrices after a step; a matrix begins with the same values in every call in which its
    shape and the shapes before it are the same."""
    generator, matrices = np.random.default_rng(3), []
    for shape in shapes:
        weight, direction = (gpu.asarray(generator.normal(size=shape), np.float32) for _ in "wd")
        squares = gpu.xp.square(direction).sum(axis=1)
        matrices.append(HiddenMatrix(weight, direction, squares, None))
    scalars, step = gpu.xp.full((2, 3), 0.125, np.float32), gpu.xp.ones((), np.int64)
    MuonStage(gpu, matrices, scalars, step, "mixed").launch()
    return [to_host(matrix.weight) for matrix in matrices]


def test_muon_moves_small_matrices_the_same_beside_larger_ones(gpu):
    shapes = [(64, 64), (48, 64), (64, 17), (7, 7)]
    alone, beside = moved_by_muon(gpu, shapes), moved_by_muon(gpu, [*shapes, (65, 64)])
    for found, expected in zip(alone, beside[: len(shapes)], strict=True):
        np.testing.assert_array_equal(found, expected)
