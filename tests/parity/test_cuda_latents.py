"""The kernels of coded images for GPUs, compared with the tape in float64."""

import zlib

import numpy as np
import pytest
from coded_images import is_same, random_coded_image
from make_latent_objective import STEPS, make_latent_objective

from neuralfield.coding import nfz
from neuralfield.coding.decoding import pixels_of
from neuralfield.engines.cpu.latent_engine import LatentEngine
from neuralfield.engines.cuda.latents.decoder import CudaDecoder
from neuralfield.engines.cuda.latents.latent_engine import CudaLatentEngine
from neuralfield.nn.tensor import gradients
from neuralfield.system.device import HOST, gpu_is_present, select_device, to_host
from neuralfield.system.errors import InputError

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

SHAPES = [(37, 53), (1, 1), (2, 3), (5, 130), (70, 5)]
KINDS = [("rgb", 10), ("grey", 48), ("rgba", 17), ("rgb", 48)]


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def require_close(gpu, objective, reference, step):
    """Compare losses and gradients of a step.

    Values are rounded to 11 bits, so that a few rectified values near 0 get the other sign, and
    gradients near them differ.
    """
    loss, error = reference.evaluate(np.arange(0), step, 1)
    engine = CudaLatentEngine(objective, gpu, "auto")
    engine.run(step, 1)
    found_totals = to_host(engine.totals)
    engine.close()
    np.testing.assert_allclose(found_totals, [loss.data, error], rtol=5e-3)
    names, tensors = zip(*reference.network.parameters.items(), strict=True)
    state = objective.optimizer.state
    for name, gradient in zip(names, gradients(loss, tensors), strict=True):
        found = to_host(state[f"moment1.{name}"]) * 10  # which is 1 - beta1 of the gradient
        errors, size = abs(found - gradient), np.linalg.norm(gradient)
        assert np.linalg.norm(errors) <= 0.1 * size + 1e-9, name
        if errors.size > 50:
            assert np.quantile(errors, 0.9) <= 0.02 * size / errors.size**0.5, name


@pytest.mark.parametrize("step", [3, STEPS - 1])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_and_gradients_are_those_of_the_tape(gpu, shape, step):
    reference = make_latent_objective("float64", *shape)
    require_close(gpu, make_latent_objective("float32", *shape, device=gpu), reference, step)


@pytest.mark.parametrize(("mode", "hidden"), KINDS)
def test_other_channels_and_widths_have_the_same_gradients(gpu, mode, hidden):
    given = (40, 36, mode, hidden)
    reference = make_latent_objective("float64", *given)
    require_close(gpu, make_latent_objective("float32", *given, device=gpu), reference, 7)


def test_evaluations_are_those_of_the_cpu_and_change_nothing(gpu):
    objective, reference = (make_latent_objective("float32", device=on) for on in (gpu, HOST))
    fast, slow = CudaLatentEngine(objective, gpu, "auto"), LatentEngine(reference, HOST, 1)
    fast.run(0, 5)
    slow.run(0, 5)
    before = {name: to_host(array) for name, array in objective.network.arrays.items()}
    np.testing.assert_allclose(fast.evaluate(), slow.evaluate(), rtol=2e-2)
    for name, array in objective.network.arrays.items():
        np.testing.assert_array_equal(to_host(array), before[name])


def test_a_run_has_the_same_bytes_in_any_parts(gpu):
    found = []
    for parts in ([(0, 40)], [(0, 1), (1, 18), (19, 21)]):
        objective = make_latent_objective("float32", 50, 90, device=gpu)
        engine = CudaLatentEngine(objective, gpu, "auto")
        for first, count in parts:
            engine.run(first, count)
        found.append({name: to_host(a) for name, a in objective.network.arrays.items()})
        engine.close()
    for name, array in found[0].items():
        np.testing.assert_array_equal(array, found[1][name])


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 40), (700, 5), (51, 38), (300, 1000)])
def test_files_are_decoded_to_the_pixels_of_the_cpu(gpu, size):
    for channels in (1, 3, 4):
        image = random_coded_image(size[0], size[1], channels, seed=sum(size), hidden=12 * channels)
        if channels == 4:  # the largest latents
            for grid in image.latents:
                grid[:] = np.clip(grid.astype(int) * 9, -64, 63)
        decoder, content = CudaDecoder(gpu), nfz.to_bytes(image)
        found = nfz.from_bytes(content, reader=decoder.read_latents)
        assert is_same(found, image)
        assert np.array_equal(decoder.pixels(found), pixels_of(image))


def test_cut_files_end_in_an_error(gpu):
    content = nfz.to_bytes(random_coded_image(60, 90))
    for removed in (1, 100, 2000):
        cut = content[: -4 - removed]
        with pytest.raises(InputError, match="stream"):
            reader = CudaDecoder(gpu).read_latents
            nfz.from_bytes(cut + zlib.crc32(cut).to_bytes(4, "little"), reader=reader)
