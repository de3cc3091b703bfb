import json
import os
import sys

import numpy as np
import pytest
from processes import IMPORTS, output_of

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images.coordinates import pixel_centres
from neuralfield.images.image import MODES
from neuralfield.images.image_file import read_image
from neuralfield.rendering import array_renderer
from neuralfield.rendering import render as rendering
from neuralfield.rendering.render import (
    choose_samples,
    render,
    render_to_png,
    sample_offsets,
    size_for_longer_side,
)
from neuralfield.system.device import select_device, to_host
from neuralfield.system.errors import InputError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.model_json import import_model_json

CPU = select_device("cpu")


@pytest.fixture
def make_model(tmp_path):
    def make(width=12, height=8, channels=1, mode=None, field=None, **record):
        field = field or {"first_omega_0": 5}
        settings = field_settings({"type": "siren", "width": 8, **field})
        shape = ImageShape(width, height, channels)
        mode = mode or MODES[channels]
        network = build_field(settings, shape, random_seed=2)
        if settings.output == "sigmoid":  # similar numbers of values below and above grey
            bias = network.layers[-1].bias
            assert bias is not None
            bias.data[...] = 0
        Model(settings, shape, mode, network.arrays, record).write(tmp_path / "m.safetensors")
        return Model.load(tmp_path / "m.safetensors")

    return make


def test_a_rendered_pixel_is_the_field_at_its_centre(make_model):
    model = make_model()
    values = to_host(model.network(CPU)(pixel_centres(np, 12, 8).astype(np.float32)).data)
    rendered = render(model, 12, 8, device=CPU)
    np.testing.assert_allclose(rendered, values.reshape(8, 12, 1).clip(0, 1), atol=1e-6)


def test_a_field_trained_in_mixed_precision_is_rendered_in_float32(make_model):
    rendered = [
        render(make_model(precision=precision), 30, 20, device=CPU)
        for precision in ("mixed", "float32", "float64")
    ]
    np.testing.assert_array_equal(rendered[0], rendered[1])
    assert not np.array_equal(rendered[0], rendered[2])


def test_a_crop_is_the_same_part_of_the_whole(make_model):
    model = make_model(channels=3)
    whole = render(model, 48, 32, device=CPU)
    part = render(model, 12, 16, device=CPU, box=(0.25, 0.5, 0.5, 1.0))
    np.testing.assert_allclose(part, whole[16:, 12:24], atol=1e-5)


def test_samples_average_the_field_over_the_pixel(make_model):
    model = make_model()
    mean = render(model, 12 * 16, 8 * 16, device=CPU).reshape(8, 16, 12, 16, 1).mean(axis=(1, 3))
    one, many = (render(model, 12, 8, device=CPU, samples=n) for n in (1, 64))
    assert np.abs(many - mean).max() < 0.2 * np.abs(one - mean).max()


def test_a_footprint_field_is_averaged_where_pixels_are_larger(make_model):
    assert choose_samples(make_model(), 3, 2) == 1
    black_and_white = make_model(mode="bilevel")
    assert choose_samples(black_and_white, 12, 8) == 1 < choose_samples(black_and_white, 24, 16)
    model = make_model(footprint=True)
    samples = [choose_samples(model, 12 * n // 4, 8 * n // 4) for n in (1, 2, 4, 7, 8, 40)]
    assert samples == sorted(samples, reverse=True) and samples[2] > samples[3] > samples[-1] == 1


def test_samples_see_edges_of_every_angle_as_their_areas():
    samples = sample_offsets(256)
    fine = np.stack(np.meshgrid(*[np.arange(200) / 200 - 199 / 400] * 2), axis=-1).reshape(-1, 2)
    errors = []
    for angle in np.linspace(0, np.pi, 31):
        across = np.array([np.cos(angle), np.sin(angle)])
        for distance in np.linspace(-0.4, 0.4, 21):
            share, area = (np.mean(points @ across > distance) for points in (samples, fine))
            errors.append(share - area)
    assert np.std(errors) < 0.006
    assert np.abs(np.mean(errors)) < 1e-3


def test_pixels_whose_first_samples_agree_need_no_more(make_model, monkeypatch):
    model = make_model()
    some = render(model, 12, 8, device=CPU, samples=256)
    monkeypatch.setattr(rendering, "_FIRST_SAMPLES", 256)
    everything = render(model, 12, 8, device=CPU, samples=256)
    np.testing.assert_allclose(some, everything, atol=1 / 256)


def test_edges_alone_have_further_samples(make_model):
    model = make_model()
    everywhere = render(model, 30, 20, samples=4, device=CPU)
    edges = render(model, 30, 20, samples=4, only_edges=True, device=CPU)
    assert 0 < np.abs(edges - everywhere).max() < 0.02


def test_black_and_white_has_four_samples_where_they_are_seen(make_model):
    sharp = {"first_omega_0": 60, "output": "sigmoid", "steepness": 80.0}
    model = make_model(mode="bilevel", field=sharp)
    enlarged, everywhere, centres = (
        render(model, 96, 64, samples=samples, device=CPU) for samples in ("auto", 4, 1)
    )
    assert np.abs(centres - everywhere).max() > 20 / 255
    assert np.abs(enlarged - everywhere).max() <= 5 / 255


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("bit_depth", [8, 16])
def test_png_in_bands_is_the_image_in_memory(
    make_model, tmp_path, monkeypatch, channels, bit_depth
):
    model = make_model(channels=channels)
    whole = render(model, 30, 20, device=CPU)
    monkeypatch.setattr(rendering, "BAND_POINTS", {"cpu": 100})
    render_to_png(model, tmp_path / "d.png", 30, 20, device=CPU, bit_depth=bit_depth)
    rendered = read_image(tmp_path / "d.png", mode=MODES[channels])
    assert rendered.bit_depth == bit_depth
    np.testing.assert_allclose(rendered.values(), whole, atol=0.51 / (2**bit_depth - 1))


def test_threads_do_not_change_a_byte(make_model, monkeypatch):
    monkeypatch.setattr(array_renderer, "_BLOCK_POINTS", {"cpu": 64})
    model = make_model()
    one, two = (render(model, 30, 20, device=CPU, threads=n) for n in (1, 2))
    assert np.array_equal(one, two)


def test_sizes_keep_the_proportions(make_model):
    model = make_model(width=300, height=200)
    assert size_for_longer_side(model, 600) == (600, 400)
    assert size_for_longer_side(model, 100, (0, 0, 0.5, 1)) == (75, 100)
    assert size_for_longer_side(make_model(width=1000, height=1), 50) == (50, 1)


def write_model_json(path, shapes, **changes):
    generator = np.random.default_rng(0)
    weights = [generator.normal(size=shape) for shape in shapes]
    layers = []
    for matrix, activation in zip(weights, ("Tanh", "Sigmoid"), strict=True):
        linear = {"shape": list(matrix.shape), "weights": matrix.ravel().tolist()} | changes
        layers += [{"layer_type": "Linear", "name": "L", **linear}]
        layers += [{"layer_type": activation, "name": "A", "weights": [], "shape": []}]
    path.write_text(json.dumps({"layers": layers}))
    return weights


def test_a_model_json_is_rendered_as_its_own_program_would(tmp_path):
    first, second = write_model_json(tmp_path / "model.json", [(3, 5), (5, 1)])
    network, settings, shape, record = import_model_json(tmp_path / "model.json", 6, 4)
    rendered = render(Model(settings, shape, "grey", network.arrays, record), 6, 4, device=CPU)
    x, y = np.meshgrid(np.arange(6) / 5, np.arange(4) / 3)
    inputs = np.stack([np.ones_like(x), x, y], axis=-1)
    ink = 1 / (1 + np.exp(-(np.tanh(inputs @ first) @ second)))
    np.testing.assert_allclose(rendered, 1 - ink, atol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        ("", "not a model.json"),
        ('{"layers": []}', "not a model.json"),
        ('{"layers": [{"layer_type": "Conv"}]}', r"layers \['Conv'\]"),
        ([(3, 5), (4, 1)], r"shapes \[\(3, 5\), \(4, 1\)\]"),
        ([(3, 5), (5, 2)], "15 weights for shape"),
    ],
)
def test_other_files_are_refused(tmp_path, content, message):
    path = tmp_path / "model.json"
    if isinstance(content, str):
        path.write_text(content)
    elif content:
        write_model_json(path, content, **({"shape": [9, 9]} if content[1] == (5, 2) else {}))
    with pytest.raises(InputError, match=message):
        import_model_json(path, 4, 4)


@pytest.mark.slow
def test_a_redraw_as_wide_as_16384_pixels_takes_bounded_memory(make_model, tmp_path):
    """It is rendered in a separate process; a taller image has more bands, but not larger ones."""
    make_model(channels=3, footprint=True)
    code = (
        "import re, sys; from pathlib import Path\n"
        "from neuralfield.system.device import select_device\n"
        "from neuralfield.tasks.image.image_model import Model\n"
        "from neuralfield.rendering.render import render_to_png\n"
        "model, path, height = Model.load(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])\n"
        "render_to_png(model, path, 16384, height, device=select_device('cpu'))\n"
        # getrusage would include the memory of the process from which this one was forked
        "status = Path('/proc/self/status').read_text()\n"
        "print(re.search(r'VmHWM:\\s+(\\d+)', status)[1])\n"
    )
    peaks_kib = []
    for height in (128, 640):
        arguments = [tmp_path / "m.safetensors", tmp_path / "wide.png", height]
        command = [sys.executable, "-c", code, *map(str, arguments)]
        peaks_kib.append(int(output_of(command, env=os.environ | IMPORTS)))
    assert max(peaks_kib) < 2 << 20
    assert peaks_kib[1] < 1.25 * peaks_kib[0]
