"""Coded images: training in the loop, and the file's integers from a trained network."""

import numpy as np
import pytest
import test_fit
from test_fit import require_same_bytes_after_a_kill

from neuralfield.coding.decoding import pixels_of
from neuralfield.coding.nfz import from_bytes, to_bytes
from neuralfield.images.metrics import psnr_db
from neuralfield.system.errors import CheckpointError
from neuralfield.tasks.bits.bits_model import BitsModel
from neuralfield.tasks.bits.bits_task import BitsTask, BitsTraining
from neuralfield.training.coding import coded_image, coded_snapshot
from neuralfield.training.history import read_history

SMALL = {"steps": 40, "snapshots": 3, "bit_weight": 2e-3}


def make_task(width=40, height=24, mode="rgb", **training):
    channels = {"grey": 1, "rgb": 3, "rgba": 4}[mode]
    values = test_fit.image(width, height, channels)
    return BitsTask(values, mode, 8, BitsTraining(**SMALL | training))


def test_killed_and_resumed_it_ends_with_the_same_bytes(tmp_path):
    require_same_bytes_after_a_kill(make_task(), tmp_path, 20)


@pytest.mark.parametrize("mode", ["grey", "rgb", "rgba"])
def test_the_decoded_image_is_that_of_the_trained_network(tmp_path, mode):
    task = make_task(mode=mode, steps=300)
    test_fit.train(task, tmp_path)
    model = BitsModel.load(tmp_path / "model.safetensors")
    coded = coded_image(task, model)
    content = to_bytes(coded)
    assert to_bytes(coded_snapshot(model, coded)) == content
    decoded = pixels_of(from_bytes(content))
    trained_db = read_history(tmp_path / "history.csv")["psnr_db"][-1]
    assert trained_db > 28
    assert psnr_db(decoded / np.float32(255), task.values) > trained_db - 2
    assert len(content) < 800


def test_a_larger_weight_of_bits_makes_a_smaller_file(tmp_path):
    sizes = []
    for weight in (1e-4, 1e-2):
        task = make_task(steps=200, bit_weight=weight)
        test_fit.train(task, folder := tmp_path / f"{weight}")
        coded = coded_image(task, BitsModel.load(folder / "model.safetensors"))
        sizes.append(sum(abs(grid).sum() for grid in coded.latents))
    assert sizes[1] < 0.7 * sizes[0]


@pytest.mark.parametrize("shape", [(1, 1), (1, 9), (5, 2)])
def test_tiny_images_are_coded(tmp_path, shape):
    task = make_task(*shape)
    test_fit.train(task, tmp_path)
    coded = coded_image(task, BitsModel.load(tmp_path / "model.safetensors"))
    assert pixels_of(coded).shape == (*shape[::-1], 3)


def test_a_file_of_too_few_latents_is_refused(tmp_path):
    task = make_task()
    model = task.model
    arrays = {"latents.0": np.zeros((2, 2), np.float32)}
    type(model)(model.hidden, 40, 24, "rgb", arrays).write(tmp_path / "model.safetensors")
    with pytest.raises(CheckpointError, match="fewer latents than pixels"):
        BitsModel.load(tmp_path / "model.safetensors")
