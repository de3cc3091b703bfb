"""Upscalers are trained, saved, resumed and rendered as fields are."""

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
import test_fit
from test_fit import require_same_bytes_after_a_kill, sha256

from neuralfield.fields import Upscaler, describe_field, network_settings
from neuralfield.images import ImageData, resize_image
from neuralfield.images.metrics import psnr_db
from neuralfield.rendering import upscaled_bands
from neuralfield.rendering.render import render, render_bands
from neuralfield.system.checkpoint import load_arrays, save_arrays
from neuralfield.system.device import available_cores, select_device
from neuralfield.system.errors import CheckpointError, ConfigError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image_fit import image_task
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.tasks.upscaler.upscaler_objective import Crops, turned, turned_back
from neuralfield.tasks.upscaler.upscaler_task import UpscalingTask
from neuralfield.training.history import read_history

CPU = select_device("cpu")
SMALL = {"type": "upscaler", "hidden_layers": 1, "channels": 6, "crop": 12}
TRAINING = {"steps": 30, "batch_pixels": 400, "snapshots": 3, "learning_rate": 3e-3}


def rings(width, height, channels=1, period_px=7):
    """Return rings with sharp edges; each pixel is the mean over its area."""
    fine = 8
    y, x = np.mgrid[: height * fine, : width * fine] / fine
    radius = [np.hypot(x - 9 - c, y - 7) for c in range(channels)]
    light = np.stack([r % period_px < period_px / 2 for r in radius], axis=2)
    blocks = light.reshape(height, fine, width, fine, channels)
    return blocks.mean(axis=(1, 3)).astype(np.float32)


def make_task(values=None, **settings):
    training = TRAINING | {key: settings.pop(key) for key in TRAINING.keys() & settings.keys()}
    others = "loss", "precision", "optimizer", "random_seed", "schedule"
    training |= {key: settings.pop(key) for key in others if key in settings}
    values = rings(30, 22) if values is None else values
    mode = {1: "grey", 3: "rgb", 4: "rgba"}[values.shape[2]]
    return image_task(values, mode, network_settings(SMALL | settings), ImageTraining(**training))


def train(task, folder, **run_settings):
    test_fit.train(task, folder, **run_settings)
    return Model.load(folder / "model.safetensors")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a model of rings in colour."""
    return train(make_task(rings(30, 22, 3)), tmp_path_factory.mktemp("trained"))


def test_it_enlarges_better_than_lanczos(tmp_path):
    truth = rings(80, 60, period_px=28)
    small = ImageData.from_values(truth.reshape(30, 2, 40, 2, 1).mean(axis=(1, 3)), "grey", 16)
    model = train(make_task(small.values(), steps=300), tmp_path)
    lanczos = resize_image(small, (80, 60), "lanczos").values()
    assert psnr_db(render(model, 80, 60, device=CPU), truth) > psnr_db(lanczos, truth) + 1.5
    learned = read_history(tmp_path / "history.csv")["psnr_db"]
    assert learned[-20:].mean() > learned[:5].mean() + 1
    assert model.parameter_count == 9 * 6 + 6 + 9 * 6 + 1


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_at_its_own_size_it_is_its_image(tmp_path, channels):
    values = rings(30, 22, channels)
    if channels == 4:
        values[..., :3] *= values[..., 3:] > 0
    model = train(make_task(values, steps=2), tmp_path)
    np.testing.assert_allclose(render(model, 30, 22, device=CPU), values, atol=1e-6)


def test_untrained_it_adds_nothing_but_what_makes_it_the_image_again(tmp_path):
    """The untrained render is Lanczos with one back-projection, at any size."""
    model = train(make_task(steps=2), tmp_path)
    start = Model.load(tmp_path / "checkpoints/step_00000000.safetensors")
    rendered = render(start, 60, 44, device=CPU)
    lanczos = resize_image(
        ImageData.from_values(model.arrays["picture"], "grey", 16), 60, "lanczos"
    )
    assert np.abs(rendered - lanczos.values()).max() < 0.15
    means = rendered.reshape(22, 2, 30, 2, 1).mean(axis=(1, 3))
    reduced = lanczos.values().reshape(22, 2, 30, 2, 1).mean(axis=(1, 3))
    nearer = psnr_db(means, model.arrays["picture"]) - psnr_db(reduced, model.arrays["picture"])
    assert nearer > 2


@pytest.mark.parametrize("size", [(17, 12), (30, 22), (61, 45), (150, 110), (100, 5)])
def test_any_size_and_part_is_rendered_alike(trained, size):
    """A part equals the same part of the whole, both inside the image and at its borders."""
    width, height = size
    whole = render(trained, width, height, device=CPU)
    assert whole.shape == (height, width, 3) and whole.min() >= 0 and whole.max() <= 1
    left, top, right, bottom = width // 5, height // 3, width, height - height // 4
    box = (left / width, top / height, right / width, bottom / height)
    part = render(trained, right - left, bottom - top, box=box, device=CPU)
    np.testing.assert_allclose(part, whole[top:bottom, left:right], atol=2e-5)


@pytest.mark.parametrize(("factor", "ensemble"), [(2, True), (3, False)])
def test_tiles_and_bands_leave_no_seams(tmp_path, monkeypatch, factor, ensemble):
    model = train(make_task(factor=factor, ensemble=ensemble), tmp_path)
    whole = render(model, 170, 120, device=CPU)
    monkeypatch.setattr(upscaled_bands, "TILE_PX", 11)
    monkeypatch.setattr(upscaled_bands, "STEP_ROWS", 23)
    monkeypatch.setattr(upscaled_bands, "BAND_VALUES", 170 * 19)
    np.testing.assert_allclose(render(model, 170, 120, device=CPU), whole, atol=1e-5)


def test_the_ensemble_does_not_care_how_the_image_lies(tmp_path):
    values = rings(30, 22)
    model = train(make_task(values, ensemble=True), tmp_path)
    turned_model = replace(
        model, arrays=model.arrays | {"picture": np.ascontiguousarray(values[::-1, ::-1])}
    )
    rendered, again = (render(m, 60, 44, device=CPU) for m in (model, turned_model))
    np.testing.assert_allclose(again[::-1, ::-1], rendered, atol=1e-5)


@pytest.mark.parametrize(
    ("size", "box"), [((1500, 1100), (0, 0, 1, 1)), ((300, 220), (0.5, 0.5, 0.51, 0.51))]
)
def test_a_large_redraw_needs_little_memory(trained, size, box):
    """The whole image at a factor of 50, and a hundredth of each side at a factor of 1,000."""
    tracemalloc.start()
    for _ in render_bands(trained, *size, box=box, device=CPU):
        pass
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak_bytes < 100e6


def test_the_same_bytes_with_any_number_of_threads_and_after_a_kill(tmp_path):
    threads = min(2, available_cores())
    require_same_bytes_after_a_kill(make_task(), tmp_path, 12, threads=threads)
    assert sha256(tmp_path / "alone/model.safetensors") != sha256(
        tmp_path / "alone/checkpoints/step_00000000.safetensors"
    )


def test_crops_are_a_function_of_seed_and_step():
    settings, values = make_task().field, rings(30, 22)
    assert isinstance(settings, Upscaler)
    crops, again = (Crops(settings, values, 5, CPU, "float32") for _ in range(2))
    both = crops.of_step(np.arange(4), 7)
    one = again.of_step(np.array([2]), 7)
    for many, single in zip(both, one, strict=True):
        np.testing.assert_array_equal(many[2], single[0])
    assert not np.array_equal(crops.of_step(np.arange(4), 8)[1], both[1])
    other = Crops(settings, values, 6, CPU, "float32").of_step(np.arange(4), 7)
    assert not np.array_equal(other[1], both[1])


def test_there_are_eight_ways_to_lay_down_a_square():
    square = np.arange(9).reshape(3, 3, 1)
    assert len({turned(square, symmetry).tobytes() for symmetry in range(8)}) == 8
    for symmetry in range(8):
        np.testing.assert_array_equal(turned_back(turned(square, symmetry), symmetry), square)


@pytest.mark.parametrize("size", [(1, 1), (2, 40), (9, 5)])
def test_images_smaller_than_a_crop(tmp_path, size):
    model = train(make_task(np.full((*size, 1), 0.25, np.float32), steps=2), tmp_path)
    rendered = render(model, 3 * size[1], 3 * size[0], device=CPU)
    np.testing.assert_allclose(rendered, 0.25, atol=1e-3)


def test_its_settings_are_written_down_and_read_again():
    settings = network_settings(SMALL | {"factor": 3, "ensemble": True})
    assert network_settings(describe_field(settings)) == settings
    assert isinstance(make_task(), UpscalingTask)
    for wrong in ({"factor": 1}, {"factor": 5}, {"channels": 0}, {"crop": 2.5}, {"ensemble": 1}):
        with pytest.raises(ConfigError):
            network_settings(SMALL | wrong)


def test_what_is_made_is_no_probability(tmp_path):
    with pytest.raises(ConfigError, match=r"training\.loss: 'binary_cross_entropy'; expected mse"):
        train(make_task(loss="binary_cross_entropy"), tmp_path)


@pytest.mark.parametrize("loss", ["huber", "mse"])
def test_losses_and_double_precision(tmp_path, loss):
    model = train(make_task(loss=loss, precision="float64"), tmp_path)
    assert {array.dtype.name for array in model.arrays.values()} == {"float64"}
    assert render(model, 60, 44, device=CPU).dtype == np.float32


@pytest.mark.parametrize(
    "claim", [{"channels": 10**9}, {"hidden_layers": 10**9}, {"factor": 1 << 40}, {"crop": -1}]
)
def test_a_file_that_claims_too_much_is_not_believed(tmp_path, claim):
    train(make_task(steps=1), tmp_path)
    path = tmp_path / "model.safetensors"
    arrays, description = load_arrays(path)
    save_arrays(path, arrays, description | {"field": description["field"] | claim})
    with pytest.raises(CheckpointError):
        Model.load(path)
    save_arrays(path, arrays, description | {"width": 1 << 20, "height": 1 << 20})
    with pytest.raises(CheckpointError, match="too few"):
        Model.load(path)
    save_arrays(path, arrays | {"picture": arrays["picture"] * np.nan}, description)
    with pytest.raises(CheckpointError, match="not finite"):
        Model.load(path)
