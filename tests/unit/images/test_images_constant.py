"""Images of one pixel or of one colour: the network has that colour everywhere."""

import numpy as np
import pytest
from small_fields import SMALL_FIELDS
from test_fit import CPU, SMALL, sha256, train

from neuralfield.fields import FIELDS, field_settings
from neuralfield.images.image import MODES
from neuralfield.rendering.render import render
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.image.presets import read_preset
from neuralfield.tasks.training_settings import ImageTraining

COLOURS = [(0.0,), (1.0,), (0.2, 0.6, 1.0), (0.9, 0.1, 0.4, 0.5)]


def task_of_one_colour(field: dict, colour: tuple, size=(1, 1), **training):
    values = np.full((*size, len(colour)), colour, np.float32)
    settings = ImageTraining.from_mapping(SMALL | {"steps": 6, "snapshots": 2} | training)
    return ImageTask(values, MODES[len(colour)], field_settings(field), settings)


def expect_the_colour(folder, colour: tuple) -> None:
    for name in ("model.safetensors", "checkpoints/step_00000000.safetensors"):
        model = Model.load(folder / name)
        for size in ((1, 1), (7, 3), (64, 64)):
            values = render(model, *size, device=CPU)
            np.testing.assert_allclose(values, np.broadcast_to(colour, values.shape), atol=1e-4)


@pytest.mark.parametrize("kind", FIELDS)
def test_every_field_has_the_colour_of_one_pixel_everywhere(tmp_path, kind):
    for number, colour in enumerate(COLOURS):
        field = {"type": kind, "output": ("linear", "sigmoid")[number % 2]} | SMALL_FIELDS[kind]
        supervision = ("point", "footprint")[number // 2]
        train(task_of_one_colour(field, colour, supervision=supervision), tmp_path / str(number))
        expect_the_colour(tmp_path / str(number), colour)


@pytest.mark.parametrize(
    ("engine", "optimizer"), [("cpu", "adam"), ("cpu", "muon"), ("tape", "muon"), ("tape", "sgd")]
)
def test_no_optimizer_leaves_the_colour(tmp_path, optimizer, engine):
    field = {"type": "siren", "width": 8, "hidden_layers": 2}
    training = {"optimizer": optimizer, "steps": 50, "minimum_learning_rate": 1e-4}
    training |= {"schedule": "exponential", "keep_best": True}
    task = task_of_one_colour(field, COLOURS[2], (9, 12), **training)
    train(task, tmp_path, engine=engine)
    expect_the_colour(tmp_path, COLOURS[2])


@pytest.mark.parametrize("size", [(1, 1), (5, 30)])
def test_a_network_without_biases(tmp_path, size):
    original = read_preset("original") | {"widths": [8, 6]}
    train(task_of_one_colour(original, COLOURS[0], size), tmp_path / "corners")
    expect_the_colour(tmp_path / "corners", COLOURS[0])
    # an odd function of position cannot be constant, so that the network is trained as usual
    odd = {"type": "mlp", "bias": False, "widths": [8]}
    task = task_of_one_colour(odd, COLOURS[0], size)
    assert not task.is_solved
    train(task, tmp_path / "centres")


def test_it_goes_on_from_a_saved_state_to_the_same_bytes(tmp_path):
    field = {"type": "siren", "width": 8, "hidden_layers": 1}
    task = task_of_one_colour(field, COLOURS[2], steps=20)
    train(task, tmp_path / "whole")
    train(task, tmp_path / "again")
    train(task, tmp_path / "again")
    names = ("model.safetensors", "checkpoints/step_00000020.safetensors")
    for name in names:
        assert sha256(tmp_path / "whole" / name) == sha256(tmp_path / "again" / name)
    history = (tmp_path / "whole" / "history.csv").read_text().splitlines()
    assert all(float(row.split(",")[3]) >= 100 for row in history[1:])


@pytest.mark.parametrize("supervision", ["point", "footprint"])
@pytest.mark.parametrize("is_row", [True, False])
def test_a_render_does_not_vary_along_a_side_of_one_pixel(tmp_path, supervision, is_row):
    frequency = (0.5 + 0.4 * np.sin(np.arange(30, dtype=np.float32))).reshape(1, 30, 1)
    values = frequency if is_row else frequency.swapaxes(0, 1)
    field = field_settings({"type": "siren", "width": 12, "hidden_layers": 1})
    own = SMALL | {"steps": 60, "batch_pixels": 0, "supervision": supervision}
    train(ImageTask(values, "grey", field, ImageTraining.from_mapping(own)), tmp_path)
    model = Model.load(tmp_path / "model.safetensors")
    along = 0 if is_row else 1
    for width, height in ((30, 30), (90, 3), (3, 90), (7, 7)):
        assert np.ptp(render(model, width, height, device=CPU), axis=along).max() < 1e-6
    sides = (30, 1) if is_row else (1, 30)
    one = render(model, *sides, device=CPU)
    enlarged = render(model, *(5 * side for side in sides), device=CPU)
    np.testing.assert_allclose(enlarged.take([2], axis=along).mean(), one.mean(), atol=0.01)
