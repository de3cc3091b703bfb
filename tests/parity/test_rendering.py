"""Rendering on the GPU compared with array code on the CPU: pixels, boxes, samples, files."""

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images.image import MODES
from neuralfield.images.image_file import read_image
from neuralfield.rendering import make_renderer
from neuralfield.rendering import render as rendering
from neuralfield.rendering.render import render, render_bands, render_to_png
from neuralfield.rendering.residual import find_residual
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.presets import read_preset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

CPU = select_device("cpu")
FIELDS = {
    "siren": {"type": "siren", "width": 256, "hidden_layers": 3},
    "narrow siren": {"type": "siren", "width": 33, "hidden_layers": 0, "output": "sigmoid"},
    "original": read_preset("original"),
    "three sizes": {"type": "mlp", "widths": (100, 17, 200), "activation": "tanh", "bias": False},
    "fourier": {"type": "fourier", "frequencies": 20, "hidden_layers": 4, "width": 64},
    "grids": {"type": "hashgrid", "levels": 5, "log2_table_size": 8, "width": 40},
    "finer": {"type": "finer", "width": 100, "hidden_layers": 2, "first_omega_0": 10.0},
    "wire": {"type": "wire", "width": 50, "hidden_layers": 2},
    "gauss": {"type": "gauss", "width": 100, "hidden_layers": 2},
    "cafe": {"type": "cafe", "width": 100, "scale": 2.0},
    "many frequencies": {"type": "fourier", "frequencies": 128, "hidden_layers": 2, "width": 128},
}
WIDE = {"type": "mlp", "widths": (300, 64), "activation": "relu"}
SIZES = [(1, 1), (63, 3), (1000, 7)]
LARGEST_ERROR = {"mixed": 4e-3, "float32": 2e-5}
MEAN_ERROR = {"mixed": 3e-4, "float32": 1e-6}


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def make_model(field, channels=3, precision="mixed", footprint=False, random_seed=3) -> Model:
    settings, shape = field_settings(field), ImageShape(60, 40, channels)
    network = build_field(settings, shape, random_seed)
    for features in network.encoding.parameters.values():
        features.data *= 1e3  # as after some training
    record = {"precision": precision, "footprint": footprint}
    arrays = {name: array.astype(np.float32) for name, array in network.arrays.items()}
    return Model(settings, shape, MODES[channels], arrays, record)


def require_alike(model: Model, gpu, width: int, height: int, further: float = 0.0, **how) -> None:
    found, expected = (render(model, width, height, device=d, **how) for d in (gpu, CPU))
    precision = model.metadata["precision"]
    error = np.abs(found - expected)
    assert found.dtype == np.float32
    assert error.max() < LARGEST_ERROR[precision] + further
    assert error.mean() < MEAN_ERROR[precision]


@pytest.mark.parametrize("precision", ["mixed", "mixed, portable", "float32"])
@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("field", FIELDS)
def test_pixels(gpu, monkeypatch, field, channels, precision):
    precision, _, kind = precision.partition(", ")
    monkeypatch.setenv("NEURALFIELD_PASS", kind)
    model = make_model(FIELDS[field], channels, precision)
    for width, height in SIZES:
        require_alike(model, gpu, width, height)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
@pytest.mark.parametrize("samples", [1, 4, 16, 100])
@pytest.mark.parametrize("field", ["siren", "original", "fourier"])
def test_samples_in_a_box(gpu, field, samples, precision):
    model = make_model(FIELDS[field], 3, precision)
    # rounding can decide whether a pixel whose first samples differ by about the limit gets more
    further = 1 / 256 if samples > 16 else 0.0
    require_alike(model, gpu, 90, 41, further, samples=samples, box=(0.1, 0.3, 0.8, 0.95))


@pytest.mark.parametrize("precision", ["mixed", "float32", "float64"])
@pytest.mark.parametrize("field", ["siren", "fourier"])
def test_uneven_pixels_of_a_footprint_field(gpu, monkeypatch, field, precision):
    monkeypatch.setattr(rendering, "BAND_POINTS", {"cpu": 1 << 20, "gpu": 500})
    monkeypatch.setattr(rendering, "_FLAT_SPREAD", 0.01)
    monkeypatch.setitem(LARGEST_ERROR, "float64", 1e-7)
    monkeypatch.setitem(MEAN_ERROR, "float64", 1e-7)
    model = make_model(FIELDS[field], 3, precision, footprint=True)
    require_alike(model, gpu, 30, 20, 1 / 256)


@pytest.mark.parametrize("precision", ["mixed", "float32"])
def test_corrected_renders(gpu, precision):
    model = make_model(FIELDS["siren"], 3, precision, footprint=True)
    truth = np.random.default_rng(0).random((40, 60, 3), np.float32)
    found, expected = (find_residual(model, truth, device=device) for device in (gpu, CPU))
    np.testing.assert_array_equal(found, find_residual(model, truth, device=gpu))
    assert np.abs(found - expected).max() < 3 * LARGEST_ERROR[precision]
    corrected = replace(model, residual=expected)
    require_alike(corrected, gpu, 240, 160)
    require_alike(corrected, gpu, 30, 20, 1 / 256)


def test_listed_pixels_are_those_of_the_whole(gpu):
    columns, rows = gpu.xp.linspace(-1, 1, 130), gpu.xp.linspace(-0.6, 0.6, 70)
    offsets = gpu.asarray(rendering.sample_offsets(5) / 130)
    which = gpu.asarray(np.random.default_rng(0).permutation(130 * 70)[:777])
    for field in (*FIELDS.values(), WIDE):
        for precision in ("mixed", "float32"):
            with closing(make_renderer(make_model(field, 3, precision), gpu)) as renderer:
                means, spreads = renderer.pixels(columns, rows, offsets)
                some_means, some_spreads = renderer.pixels(columns, rows, offsets, which)
            np.testing.assert_array_equal(to_host(some_means), to_host(means[which]))
            np.testing.assert_array_equal(to_host(some_spreads), to_host(spreads[which]))


def test_two_models_in_turn(gpu, monkeypatch):
    models = [make_model(FIELDS["fourier"], random_seed=seed) for seed in (1, 2)]
    alone = [render(model, 70, 50, device=gpu) for model in models]
    monkeypatch.setattr(rendering, "BAND_POINTS", {"gpu": 700})
    renders = [render_bands(model, 70, 50, device=gpu) for model in models]
    in_turn = [[band.copy() for band in bands] for bands in zip(*renders, strict=True)]
    for expected, bands in zip(alone, zip(*in_turn, strict=True), strict=True):
        np.testing.assert_array_equal(np.concatenate(bands), expected)


@pytest.mark.parametrize("precision", ["mixed", "float32", "float64"])
@pytest.mark.parametrize("bit_depth", [8, 16])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_levels_in_bands_are_the_image_rounded(gpu, monkeypatch, channels, bit_depth, precision):
    model = make_model(FIELDS["fourier"], channels, precision)
    whole = render(model, 90, 60, device=gpu)
    assert whole.min() < whole.max()
    monkeypatch.setattr(rendering, "BAND_POINTS", {"gpu": 700})
    np.testing.assert_array_equal(render(model, 90, 60, device=gpu), whole)
    bands = render_bands(model, 90, 60, device=gpu, bit_depth=bit_depth)
    rendered = np.concatenate([band.copy() for band in bands])
    assert rendered.dtype == {8: np.uint8, 16: np.uint16}[bit_depth]
    np.testing.assert_array_equal(rendered, np.rint(whole * np.float32(2**bit_depth - 1)))


def test_png_is_the_image_rounded(gpu, tmp_path, monkeypatch):
    model = make_model(FIELDS["fourier"])
    whole = render(model, 90, 60, device=gpu)
    monkeypatch.setattr(rendering, "BAND_POINTS", {"gpu": 700})
    render_to_png(model, tmp_path / "d.png", 90, 60, device=gpu)
    rendered = read_image(tmp_path / "d.png", mode="rgb").values()
    np.testing.assert_allclose(rendered, np.rint(255 * whole) / 255, atol=1e-6)


def test_an_image_left_unfinished_harms_no_other(gpu, monkeypatch):
    model = make_model(FIELDS["siren"])
    whole = render(model, 90, 60, device=gpu)
    monkeypatch.setattr(rendering, "BAND_POINTS", {"gpu": 700})
    with closing(render_bands(model, 90, 60, device=gpu)) as bands:
        next(bands)
    np.testing.assert_array_equal(render(model, 90, 60, device=gpu), whole)


def test_memory_does_not_grow_with_the_image(gpu):
    model, pool = make_model(FIELDS["fourier"]), gpu.xp.get_default_memory_pool()
    pool.free_all_blocks()
    held_bytes = []
    for height in (4096, 16384):
        for _ in render_bands(model, 4096, height, device=gpu, bit_depth=8):
            pass
        held_bytes.append(pool.total_bytes())
    assert held_bytes[1] < 1.1 * held_bytes[0] < 2 << 30
