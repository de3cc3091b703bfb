"""Fields as functions: values, derivatives, renders and files."""

import hashlib
import io
import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from small_fields import SMALL_FIELDS

import neuralfield as nf
from neuralfield.fields import FIELDS, ImageShape, build_field, field_settings
from neuralfield.images.image import MODES
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering.render import render, render_to_png
from neuralfield.system.device import HOST
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.presets import read_preset

load: Any = nf.load
SHAPE = ImageShape(20, 16, 3)
VARIANTS = [
    *({"type": kind, **settings} for kind, settings in SMALL_FIELDS.items() if kind != "wire"),
    {"type": "wire", "width": 4, "hidden_layers": 2, "scale": 2.0, "omega_0": 5.0},
    {"type": "siren", "width": 7, "output": "sigmoid"},
    {"type": "fourier", "width": 5, "activation": "sigmoid"},
    {"type": "mlp", "widths": [5, 4], "activation": "sine"},
    read_preset("original") | {"widths": [5, 4]},
    {"type": "cafe", "width": 5, "frequencies": 3, "chebyshev_degree": 0},
    {"type": "hashgrid", "levels": 3, "width": 5, "activation": "tanh", "cropped": True},
]


def make_field(description, *, channels=3, seed=3, dtype="float32", residual=None):
    """Return a field with initial weights; the features of a hash grid are made larger."""
    settings = field_settings(description)
    shape = ImageShape(SHAPE.width, SHAPE.height, channels)
    network = build_field(settings, shape, seed)
    for name, tensor in network.parameters.items():
        if name == "encoding.table":
            tensor.data *= 1000
    arrays = {name: np.array(a, dtype) for name, a in network.to(HOST, dtype).arrays.items()}
    model = Model(settings, shape, MODES[channels], arrays, residual=residual)
    return nf.ImageField(model, device="cpu")


def positions(count=200, seed=5):
    return np.random.default_rng(seed).uniform(-0.98, 0.98, (count, 2))


@pytest.fixture(params=VARIANTS, ids=lambda settings: " ".join(map(str, settings.values())))
def field(request):
    return make_field(request.param)


def test_derivatives_are_those_of_finite_differences(field):
    exact = field.model.network(HOST, "float64")
    xy, step = positions(), 1e-5

    def values(dx, dy):
        return exact(xy + step * np.array([dx, dy])).data

    here = values(0, 0)
    ahead = np.stack([values(1, 0) - here, values(0, 1) - here], axis=-1) / step
    behind = np.stack([here - values(-1, 0), here - values(0, -1)], axis=-1) / step
    scale = np.abs(ahead).max()
    assert scale > 1e-4
    # there is no derivative at a kink of relu and at the edge of a cell
    smooth = (np.abs(ahead - behind) < 0.02 * scale).all(axis=(1, 2))
    assert smooth.mean() > 0.97
    central, second = (ahead + behind) / 2, ((ahead - behind) / step).sum(axis=-1)
    found = field.gradient(xy), field.laplacian(xy)
    np.testing.assert_allclose(found[0][smooth], central[smooth], atol=1e-5 * scale)
    largest = max(np.abs(second[smooth]).max(), scale)
    np.testing.assert_allclose(found[1][smooth], second[smooth], atol=1e-3 * largest)


def test_values_are_those_of_the_network(field):
    xy = positions().reshape(20, 10, 2)
    values = field(xy)
    assert values.shape == (20, 10, 3) and values.dtype == np.float32
    expected = field.model.network()(xy.reshape(-1, 2).astype(np.float32)).data
    np.testing.assert_array_equal(values.reshape(-1, 3), expected)
    np.testing.assert_allclose(field(xy[0, 0].tolist()), values[0, 0], atol=1e-6)
    assert field.gradient(xy).shape == (20, 10, 3, 2)
    assert field.laplacian(xy[0, 0]).shape == (3,)
    assert field(np.empty((0, 2))).shape == (0, 3)


def test_many_positions_are_taken_in_blocks():
    field = make_field(VARIANTS[0])
    xy = positions(10_000)
    np.testing.assert_allclose(field(xy)[9_000:], field(xy[9_000:]), atol=1e-6)
    np.testing.assert_allclose(field.gradient(xy)[9_000:], field.gradient(xy[9_000:]))


@pytest.mark.parametrize(
    ("xy", "kind"),
    [
        (0.5, ValueError),
        (np.zeros((2, 3)), ValueError),
        (["a", "b"], TypeError),
        ([[0.0, 1.0], [2.0]], ValueError),
        ([[np.nan, 0.0]], ValueError),
    ],
)
def test_what_are_no_positions(xy, kind):
    field = make_field(VARIANTS[0])
    for method in (field, field.gradient, field.laplacian):
        with pytest.raises(kind, match=r"^xy: "):
            method(xy)


@pytest.mark.parametrize("channels", MODES)
def test_renders_are_those_of_the_workflow(tmp_path, channels):
    field = make_field(VARIANTS[0], channels=channels)
    rendered = field.render(32)
    assert rendered.shape == ((26, 32) if channels == 1 else (26, 32, channels))
    expected = render(field.model, 32, 26, device=HOST)
    np.testing.assert_array_equal(rendered.reshape(expected.shape), expected)
    for bits in (8, 16):
        render_to_png(field.model, tmp_path / "one.png", 32, 26, device=HOST, bit_depth=bits)
        rendered.save(tmp_path / "two.png", bit_depth=bits)
        field.render_to(tmp_path / "three.png", (32, 26), bit_depth=bits)
        assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()
        assert (tmp_path / "one.png").read_bytes() == (tmp_path / "three.png").read_bytes()
    shown = Image.open(io.BytesIO(rendered._repr_png_() or b""))
    np.testing.assert_array_equal(np.asarray(shown), rendered.levels())
    assert Image.open(io.BytesIO(field._repr_png_() or b"")).size == (20, 16)
    html = field._repr_html_() or ""
    assert html.startswith('<iframe srcdoc="&lt;!doctype html') and "&quot;layers&quot;" in html


def test_the_network_can_be_rendered_without_its_residual(tmp_path):
    residual = np.full((32, 40, 3), 0.25, np.float32)
    field, alone = make_field(VARIANTS[0], residual=residual), make_field(VARIANTS[0])
    assert field.residual is residual and alone.residual is None
    assert "40 x 32" in repr(field) and "residual" not in repr(alone)
    np.testing.assert_array_equal(field.render(30, residual=False), alone.render(30))
    assert (field.render(30) > alone.render(30)).any()
    field.render_to(tmp_path / "field.png", 30, residual=False)
    alone.render(30).save(tmp_path / "alone.png")
    assert (tmp_path / "field.png").read_bytes() == (tmp_path / "alone.png").read_bytes()


def test_what_is_computed_of_a_render_is_plain_unless_it_is_an_image():
    image = make_field(VARIANTS[0]).render(8)
    for number in (image.mean(), np.median(image), image.max(), (image - image / 2).std()):
        assert type(number) is np.float32 and f"{number:.2f}"
    assert type(image.mean(axis=(0, 1))) is type(image.sum(axis=2)) is np.ndarray
    assert type(image / 2) is type(image[2:4]) is type(image.clip(0, 0.5)) is type(image)


def test_sizes_and_boxes():
    field = make_field(VARIANTS[0], channels=1)
    assert field.render().shape == (16, 20)
    assert field.render((7, 5)).shape == (5, 7)
    box = (0.25, 0.5, 0.75, 1.0)
    assert field.render(box=box).shape == (8, 10)
    np.testing.assert_allclose(field.render((40, 32))[16:, 10:30], field.render(20, box=box))
    assert field.coordinates((4, 2)).tolist()[0][0] == [-0.75, -0.4]
    np.testing.assert_allclose(
        field.render((40, 32)), field(field.coordinates((40, 32)))[..., 0], atol=1e-6
    )


BAD_RENDERS: dict[str, Any] = {
    "no number": ({"size": "large"}, ValueError, "size"),
    "too many samples": ({"size": 8, "samples": 10**9}, ValueError, "samples"),
    "no height": ({"size": (3, 0)}, ValueError, "size"),
    "half a pixel": ({"size": 1.5}, ValueError, "size"),
    "huge": ({"size": 10**6}, ValueError, "^size: 1,000,000 x 800,000 pixels"),
    "more than is allowed": ({"size": 100, "max_megapixels": 0.001}, ValueError, "0.001 megapix"),
    "an empty box": ({"size": 8, "box": (0.5, 0, 0.5, 1)}, ValueError, "left < right"),
    "a box outside": ({"size": 8, "box": (0.5, 0, 1.5, 1)}, ValueError, "box"),
    "NaN in a box": ({"size": 8, "box": (0, 0, np.nan, 1)}, ValueError, "box"),
    "no box": ({"size": 8, "box": None}, ValueError, "box"),
    "no samples": ({"size": 8, "samples": 0}, ValueError, "samples"),
}


@pytest.mark.parametrize(("given", "kind", "message"), BAD_RENDERS.values(), ids=BAD_RENDERS)
def test_renders_that_cannot_be(tmp_path, given, kind, message):
    field = make_field(VARIANTS[0])
    for use in (field.render, partial(field.render_to, tmp_path / "image.png")):
        with pytest.raises(kind, match=message) as caught:
            use(**given)
        assert isinstance(caught.value, nf.NeuralfieldError) and "\n" not in str(caught.value)
    assert not Path("typo").exists()
    assert not any(tmp_path.iterdir())


BAD_FILES: dict[str, Any] = {
    "a depth of renders": (lambda f: f.render(8).save("a.png", bit_depth=4), ValueError),
    "a depth of JPEG": (lambda f: f.render(8).save("a.jpg", bit_depth=16), ValueError),
    "a folder for a file": (lambda f: (Path("taken").mkdir(), f.save("taken")), OSError),
    "the working directory for a file": (lambda f: f.save("."), ValueError),
    "a folder that is not there": (lambda f: f.save("typo/a.safetensors"), FileNotFoundError),
    "an empty path": (lambda f: load(""), ValueError),
    "no path for a graph": (lambda f: f.to_onnx(None), TypeError),
    "a device": (
        lambda f: (f.save("a.safetensors"), load("a.safetensors", device="tpu")),
        ValueError,
    ),
    "another image": (lambda f: f.psnr_to(np.zeros((4, 4))), ValueError),
    "NaN in an image": (lambda f: f.psnr_to(np.full((4, 4, 3), np.nan)), ValueError),
}


@pytest.mark.parametrize(("use", "kind"), BAD_FILES.values(), ids=BAD_FILES)
def test_files_and_images_that_cannot_be(tmp_path, monkeypatch, use, kind):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kind) as caught:
        use(make_field(VARIANTS[0]))
    assert isinstance(caught.value, nf.NeuralfieldError) and "\n" not in str(caught.value)


def test_saving_loading_and_psnr(tmp_path, field):
    field.save(tmp_path / "model.safetensors")
    image = field.render()
    found = nf.load(tmp_path / "model.safetensors", image, device="cpu")
    np.testing.assert_array_equal(found(positions()), field(positions()))
    assert nf.load(tmp_path).settings == field.settings, "the folder stands for the network in it"
    assert found.settings == field.settings and found.history == {}
    assert (field.psnr, found.psnr) == (None, np.inf)
    noise = np.random.default_rng(0).uniform(0, 1, (16, 20, 3)).astype(np.float32)
    assert found.psnr_to(noise) == psnr_db(image, noise)
    assert field.settings["type"] in repr(found) and "20 x 16" in repr(found)
    with pytest.raises(ValueError, match="an image of 1 channel; expected 3"):
        found.psnr_to(noise[..., 0])


def test_files_that_are_none(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        nf.load(tmp_path / "model.safetensors")
    (tmp_path / "model.safetensors").write_bytes(b"not a network")
    with pytest.raises(ValueError, match="expected a network that neuralfield has saved") as caught:
        nf.load(tmp_path / "model.safetensors")
    assert "remove" not in str(caught.value), "it may be somebody's only file"


def test_every_field_is_among_the_variants():
    assert {variant["type"] for variant in VARIANTS} == {*FIELDS}


def test_what_the_workflow_has_measured_of_a_network_is_its_psnr(tmp_path):
    make_field(VARIANTS[0]).save(tmp_path / "model.safetensors")
    digest = hashlib.sha256((tmp_path / "model.safetensors").read_bytes()).hexdigest()
    for of, psnr in ((digest, 31.5), ("0" * 64, None)):
        record = {"psnr_db": 31.5, "sha256": {"model.safetensors": of}}
        (tmp_path / "metrics.json").write_text(json.dumps(record))
        assert nf.load(tmp_path).psnr == psnr, "another network's number is not taken"
    (tmp_path / "metrics.json").write_text("{")
    assert nf.load(tmp_path).psnr is None
    assert nf.load(tmp_path, make_field(VARIANTS[0]).render()).psnr == np.inf


def test_to_svg_checks_its_arguments(tmp_path):
    field = make_field(VARIANTS[0])
    for path, tolerance, found in (
        ("drawing.png", 0.05, "a name that ends in .svg"),
        ("drawing.svg", 0, "tolerance: 0"),
        ("drawing.svg", float("nan"), "tolerance: nan"),
        ("missing/drawing.svg", 0.05, "existing folder"),
    ):
        with pytest.raises(ValueError, match=found):
            field.to_svg(tmp_path / path, tolerance=tolerance)
    assert list(tmp_path.iterdir()) == []
