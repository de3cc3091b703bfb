"""Fields elsewhere: ONNX, PyTorch, and networks that come from there."""

import numpy as np
import pytest
from test_image_field import VARIANTS, make_field, positions

from neuralfield.system.device import HOST

NEAR = 1e-5
"""Largest difference between the values of a field and of its export, which are in [0, 1]."""


def field_of(description, seed=3):
    return make_field(description, seed=seed)


@pytest.fixture(params=VARIANTS, ids=lambda settings: " ".join(map(str, settings.values())))
def field(request):
    return field_of(request.param)


def edges():
    """The corners of the image and points of hash grids' lattices."""
    return np.array([[-1, -0.8], [1, 0.8], [1, -0.8], [0, 0], [0.5, 0.25], [-0.5, 0.1]])


POINTS = np.concatenate([positions(), edges()]).astype(np.float32)


def run_onnx(path, xy):
    onnxruntime = pytest.importorskip("onnxruntime", reason="onnxruntime is not installed")
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(["values"], {"xy": xy})[0]


def test_onnx_has_the_values_of_the_field(tmp_path, field):
    pytest.importorskip("onnx", reason="onnx is not installed: pip install neuralfield[onnx]")
    field.to_onnx(tmp_path / "field.onnx")
    for xy in (POINTS, POINTS[:1], POINTS[:0]):
        values = run_onnx(tmp_path / "field.onnx", xy)
        assert values.shape == (len(xy), 3)
        np.testing.assert_allclose(values, field(xy), rtol=0, atol=NEAR)
    before = (tmp_path / "field.onnx").read_bytes()
    field.to_onnx(tmp_path / "field.onnx")
    assert (tmp_path / "field.onnx").read_bytes() == before


def test_torch_has_the_values_of_the_field(field):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = field.to_torch()
    with torch.no_grad():
        values = module(torch.from_numpy(POINTS)).numpy()
    np.testing.assert_allclose(values, field(POINTS), rtol=0, atol=NEAR)
    state = {name: tensor.numpy() for name, tensor in module.state_dict().items()}
    assert {*state} == {*field.model.arrays}
    for name, array in field.model.arrays.items():
        np.testing.assert_array_equal(state[name], array)
    trained = {name for name, _ in module.named_parameters()}
    assert trained == {*field.model.network(HOST, "float32").parameters}


def test_torch_differentiates_to_the_same_gradient(field):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = field.to_torch().double()
    xy = torch.from_numpy(positions()).requires_grad_()
    (found,) = torch.autograd.grad(module(xy)[:, 1].sum(), xy)
    expected = field.gradient(positions())[:, 1]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9 * np.abs(expected).max())
