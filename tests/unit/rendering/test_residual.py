from dataclasses import replace

import numpy as np
import pytest

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import back_projected
from neuralfield.rendering import render as rendering
from neuralfield.rendering.finishing import finished_model
from neuralfield.rendering.refining import refined
from neuralfield.rendering.render import render
from neuralfield.rendering.residual import find_residual
from neuralfield.system.checkpoint import snapshot_path
from neuralfield.system.device import select_device, to_host
from neuralfield.system.errors import CheckpointError
from neuralfield.system.interruption import Interrupted
from neuralfield.system.provenance import sha256_of as sha256
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training

CPU = select_device("cpu")
WIDTH, HEIGHT = 20, 14
SMALL = {
    "steps": 30,
    "batch_pixels": 64,
    "detail_share": 0.0,
    "footprint_points": 3,
    "snapshots": 4,
    "learning_rate": 2e-3,
}


def picture(width, height, channels=3):
    """Return waves and an edge, with values that reach black and white."""
    x, y = np.meshgrid(np.arange(width) / width, np.arange(height) / height)
    waves = [0.5 + 0.6 * np.sin(9 * x + c) * np.cos(7 * y) for c in range(channels)]
    return np.stack([np.where(x + y > 1, w, 1 - w) for w in waves], axis=2).clip(0, 1)


def reduced(values, factor):
    height, width, channels = values.shape
    blocks = values.reshape(height // factor, factor, width // factor, factor, channels)
    return blocks.mean(axis=(1, 3))


def rough_model(channels=3, output="linear", precision="float32", size=(WIDTH, HEIGHT)):
    """Return an untrained network with a residual that corrects it to an image, and that image."""
    small = {"type": "siren", "width": 8, "hidden_layers": 1, "first_omega_0": 5}
    settings = field_settings(small | {"output": output})
    shape = ImageShape(size[0], size[1], channels)
    mode = {1: "grey", 3: "rgb", 4: "rgba"}[channels]
    arrays = {n: to_host(a) for n, a in build_field(settings, shape, 2).arrays.items()}
    model = Model(settings, shape, mode, arrays, {"precision": precision, "footprint": True})
    truth = reduced(picture(4 * size[0], 4 * size[1], channels), 4).astype(np.float32)
    return replace(model, residual=find_residual(model, truth, device=CPU)), truth


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("output", ["linear", "sigmoid"])
def test_a_corrected_render_is_the_training_image_again(channels, output):
    model, truth = rough_model(channels, output)
    alone = replace(model, residual=None)
    for factor, least_db in ((1, 25), (4, 28), (8, 28)):
        found, before = (
            reduced(render(m, factor * WIDTH, factor * HEIGHT, device=CPU), factor)
            for m in (model, alone)
        )
        assert psnr_db(found, truth) > max(least_db, psnr_db(before, truth) + 12)


def test_a_render_is_what_back_projection_makes_of_the_network():
    model, truth = rough_model()
    alone = render(replace(model, residual=None), 4 * WIDTH, 4 * HEIGHT, device=CPU)
    found = render(model, 4 * WIDTH, 4 * HEIGHT, device=CPU)
    expected = np.stack([back_projected(alone[..., c], truth[..., c]) for c in range(3)], axis=2)
    assert np.abs(found - expected.clip(0, 1)).max() < 2e-4
    assert np.abs(found - alone).max() > 0.1


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_a_finer_residual_keeps_what_patches_agree_on(channels):
    rough, truth = rough_model(channels)
    alone = replace(rough, residual=None)
    model = replace(rough, residual=find_residual(alone, truth, 4, device=CPU))
    assert model.residual is not None
    assert model.residual.shape == (4 * HEIGHT, 4 * WIDTH, channels)
    found, before = (render(m, 4 * WIDTH, 4 * HEIGHT, device=CPU) for m in (model, alone))
    assert psnr_db(found, refined(before, truth).clip(0, 1)) > 36
    assert psnr_db(found, render(rough, 4 * WIDTH, 4 * HEIGHT, device=CPU)) < 40
    for width in (WIDTH, 8 * WIDTH):
        again = reduced(render(model, width, width * HEIGHT // WIDTH, device=CPU), width // WIDTH)
        assert psnr_db(again, truth) > 28


def test_crops_bands_and_threads_make_no_difference(monkeypatch):
    model, _ = rough_model()
    whole = render(model, 60, 42, device=CPU)
    part = render(model, 15, 21, device=CPU, box=(0.25, 0.5, 0.5, 1.0))
    np.testing.assert_allclose(part, whole[21:, 15:30], atol=1e-5)
    monkeypatch.setitem(rendering.BAND_POINTS, "cpu", 60 * 5)
    np.testing.assert_array_equal(render(model, 60, 42, device=CPU, threads=2), whole)


@pytest.mark.parametrize("size", [(1, 1), (1, 9), (23, 1), (3, 2)])
def test_small_images_and_small_renders(size):
    model, truth = rough_model(size=size)
    assert np.abs(render(model, *size, device=CPU) - truth).max() < 0.1
    tiny = render(model, 1, 1, device=CPU)
    assert np.abs(tiny - truth.mean(axis=(0, 1))).max() < 0.1


def make_task(**training):
    values = reduced(picture(4 * WIDTH, 4 * HEIGHT), 4).astype(np.float32)
    field = field_settings({"type": "siren", "width": 16, "hidden_layers": 1, "output": "linear"})
    return ImageTask(values, "rgb", field, ImageTraining.from_mapping(SMALL | training))


def train(task, folder, **run_settings):
    how = {"device": CPU, "finish": finished_model} | run_settings
    fit([Training(task=task, folder=folder, **how)])
    return folder / "model.safetensors"


@pytest.mark.parametrize("changes", [{}, {"keep_best": True}, {"precision": "float64"}])
def test_a_training_ends_with_a_residual_that_only_its_model_has(tmp_path, changes):
    task = make_task(residual=True, **changes)
    path = train(task, tmp_path)
    model, alone = Model.load(path), Model.load(train(make_task(**changes), tmp_path / "alone"))
    assert model.residual is not None and alone.residual is None
    assert model.residual.shape == task.values.shape
    for name, array in alone.arrays.items():
        np.testing.assert_array_equal(model.arrays[name], array)
    assert Model.load(snapshot_path(tmp_path / "checkpoints", 30)).residual is None
    expected = find_residual(model, task.values, device=CPU)
    np.testing.assert_array_equal(model.residual, expected)
    found_db, alone_db = (
        psnr_db(render(m, WIDTH, HEIGHT, device=CPU), task.values) for m in (model, alone)
    )
    assert found_db > alone_db + 10


def test_a_training_that_was_interrupted_ends_with_the_same_bytes(tmp_path):
    task = make_task(residual=True, residual_scale=2)
    expected = sha256(train(task, tmp_path / "whole"))

    def leave(trainers):
        if trainers[0].steps_taken >= 12:
            raise Interrupted("here")

    with pytest.raises(Interrupted):
        train(task, tmp_path / "cut", stepped=[leave], checkpoint_interval_s=1e-9)
    assert sha256(train(task, tmp_path / "cut", threads=2)) == expected


@pytest.mark.parametrize(
    ("given", "expected"), [(4, [4, 4, 2, 1]), (6, [6, 4, 1, 1]), (2, [2, 2, 2, 1])]
)
def test_a_large_image_has_a_coarser_residual(given, expected):
    """A drawing whose residual would be too coarse for its edges is not refined at all."""
    task = make_task(residual=True, residual_scale=given)
    images = [np.zeros((side, side, 3), np.float32) for side in (10, 500, 1000, 3000)]
    assert [replace(task, values=image).residual_scale for image in images] == expected


@pytest.mark.parametrize("shape", [(HEIGHT, WIDTH, 1), (WIDTH, HEIGHT, 3), (HEIGHT + 1, WIDTH, 3)])
def test_a_residual_of_another_shape_is_refused(tmp_path, shape):
    model, _ = rough_model()
    path = tmp_path / "model.safetensors"
    replace(model, residual=np.zeros(shape, np.float32)).write(path)
    with pytest.raises(CheckpointError, match="residual"):
        Model.load(path)
