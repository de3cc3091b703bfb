"""Exports of fields to ONNX and PyTorch, and imports of networks from other programs."""

import sys

import numpy as np
import pytest
from test_image_field import VARIANTS, make_field, positions

import neuralfield as nf
from neuralfield.system.device import HOST

NEAR = 1e-5
"""Maximum difference between the values of a field and of its export, which are in [0, 1]."""


@pytest.fixture(params=VARIANTS, ids=lambda settings: " ".join(map(str, settings.values())))
def field(request):
    return make_field(request.param)


def edges():
    """Return the corners of the image and points of hash grids' lattices."""
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


@pytest.mark.parametrize(("method", "package"), [("to_onnx", "onnx"), ("to_torch", "torch")])
def test_an_export_without_the_residual_warns(tmp_path, method, package):
    pytest.importorskip(package, reason=f"{package} is not installed")
    field = make_field(VARIANTS[0], residual=np.zeros((16, 20, 3), np.float32))
    arguments = [tmp_path / "field.onnx"] if method == "to_onnx" else []
    with pytest.warns(UserWarning, match="residual=False"):
        getattr(field, method)(*arguments)


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


@pytest.mark.parametrize(
    ("export", "module", "to_install"),
    [
        (lambda field: field.to_torch(), "torch", "pip install torch"),
        (lambda field: field.to_onnx("a.onnx"), "onnx", "pip install 'neuralfield[onnx]'"),
    ],
)
def test_without_a_package_the_error_says_what_to_install(monkeypatch, export, module, to_install):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"neuralfield.api.to_{module}", raising=False)
    with pytest.raises(ImportError, match="is not installed") as caught:
        export(make_field(VARIANTS[0]))
    assert isinstance(caught.value, nf.NeuralfieldError)
    assert str(caught.value).endswith(f"; {to_install}")


def test_torch_differentiates_to_the_same_gradient(field):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    module = field.to_torch().double()
    xy = torch.from_numpy(positions()).requires_grad_()
    (found,) = torch.autograd.grad(module(xy)[:, 1].sum(), xy)
    expected = field.gradient(positions())[:, 1]
    np.testing.assert_allclose(found.numpy(), expected, atol=1e-9 * np.abs(expected).max())


def siren_state(channels=3, seed=0, width=8):
    """Return weights of a SIREN in PyTorch's layout, (outputs, inputs)."""
    random = np.random.default_rng(seed)
    state = {}
    for index, (inputs, outputs) in enumerate([(2, width), (width, width), (width, channels)]):
        bound = 0.5 if index == 0 else np.sqrt(6 / inputs) / 20
        state[f"net.{index}.linear.weight"] = random.uniform(-bound, bound, (outputs, inputs))
        state[f"net.{index}.linear.bias"] = random.uniform(-0.1, 0.1, outputs)
    return state


def siren_values(state, inputs):
    """Evaluate the formula of the paper, with omega_0 20 and 25 in the first layer."""
    *hidden, (weight, bias) = zip(
        *([v for k, v in state.items() if k.endswith(end)] for end in ("weight", "bias")),
        strict=True,
    )
    for index, (w, b) in enumerate(hidden):
        inputs = np.sin((20 if index else 25) * (inputs @ w.T + b))
    return inputs @ weight.T + bias


WIDTH, HEIGHT = 12, 9


def centres(count):
    return (2 * np.arange(count) + 1) / count - 1


@pytest.mark.parametrize("first", ["xy", "yx"])
@pytest.mark.parametrize(
    ("pixels", "along_x", "along_y"),
    [
        ("corners", np.linspace(-1, 1, WIDTH), np.linspace(-1, 1, HEIGHT)),
        ("centres", centres(WIDTH), centres(HEIGHT)),
        ("longer", centres(WIDTH), centres(HEIGHT) * HEIGHT / WIDTH),
    ],
)
def test_a_siren_of_pytorch_draws_the_same_image(first, pixels, along_x, along_y):
    x, y = np.meshgrid(along_x, along_y)
    inputs = np.stack([x, y] if first == "xy" else [y, x], axis=-1)
    expected = (siren_values(siren_state(), inputs) + 1) / 2
    given = {"omega_0": 20, "first_omega_0": 25, "coordinates": first, "pixels": pixels}
    field = nf.from_torch_siren(siren_state(), (WIDTH, HEIGHT), values=(-1, 1), **given)
    np.testing.assert_allclose(field(field.coordinates()), expected, atol=2e-5)
    assert field.render().shape == (HEIGHT, WIDTH, 3)


def test_tensors_of_pytorch_are_taken():
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    state = {name: torch.nn.Parameter(torch.tensor(a)) for name, a in siren_state(1).items()}
    field = nf.from_torch_siren(state, (12, 9))
    assert field.channels == 1 and np.isfinite(field(POINTS)).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"net.2.linear.weight": np.zeros((2, 8))}, "net.2.linear.weight (2, 8)"),
        ({"net.0.linear.weight": np.zeros((8, 3))}, "net.0.linear.weight (8, 3)"),
        ({"net.1.linear.weight": np.zeros((8, 9))}, "net.1.linear.weight (8, 9)"),
        ({"net.1.linear.bias": np.full(8, np.nan)}, "not finite"),
        ({"net.1.linear.bias": np.zeros(8, complex)}, "an array of complex128"),
        ({"net.1.norm": np.zeros(8)}, "net.1.norm (8,)"),
        ({"net.0.linear.weight": "text"}, "['net.0.linear.weight']: an array of <U4"),
        ({"net": {"0.weight": np.zeros((8, 2))}}, "pass its content: ['net']"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_other_networks_of_pytorch_are_refused(change, message):
    with pytest.raises(ValueError, match=r"^state_dict") as caught:
        nf.from_torch_siren(siren_state() | change, (12, 9))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "given",
    [
        {"pixels": "edges"},
        {"coordinates": "uv"},
        {"values": (1, 1)},
        {"omega_0": 0, "first_omega_0": 30},
        {"first_omega_0": np.nan},
    ],
)
def test_arguments_of_the_import(given):
    with pytest.raises(ValueError, match=f"^{next(iter(given))}: "):
        nf.from_torch_siren(siren_state(), **{"size": (12, 9)} | given)
