"""Fields on a GPU: CuPy arrays as input and output, and fits that are rendered on the GPU."""

import numpy as np
import pytest
from test_image_field import VARIANTS, make_field, positions

import neuralfield as nf
from neuralfield.system.device import gpu_is_present, select_device, to_host

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]


@pytest.mark.parametrize("variant", VARIANTS, ids=lambda settings: str(settings["type"]))
def test_cupy_gives_cupy_and_the_same_numbers(variant):
    field, xy = make_field(variant), positions()
    there = select_device("gpu").asarray(xy)
    for method, tolerance in ((field, 1e-5), (field.gradient, 1e-9), (field.laplacian, 1e-9)):
        found, expected = method(there), method(xy)
        assert type(found) is type(there)
        scale = max(1.0, float(np.abs(expected).max()))
        np.testing.assert_allclose(to_host(found), expected, rtol=0, atol=tolerance * scale)


def test_a_fit_on_a_gpu_is_rendered_there():
    image = select_device("gpu").asarray(np.eye(16))
    field = nf.fit(image, steps=50, width=64, device="gpu")
    assert field.render(32).shape == (32, 32) and field.psnr is not None
    assert field.model.metadata["device"] == "gpu"
