"""The GPU computes what the CPU computes, and resumes to the same bytes."""

import json
import os
import sys

import numpy as np
import pytest
import small_classifiers
import test_convolution
import test_divergence
import test_fit
import test_pooling
import test_tensor
from finite_differences import weighted
from processes import IMPORTS, output_of
from small_classifiers import make_task
from small_classifiers import train as train_classifier

from entry.progress import Preview
from neuralfield.images.metrics import psnr_db
from neuralfield.nn import losses
from neuralfield.nn.blocks import Blocks
from neuralfield.nn.convolution import conv2d
from neuralfield.nn.dropout import TrainingCall, dropout
from neuralfield.nn.pooling import max_pool2d
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.rendering.render import render
from neuralfield.system.device import gpu_is_present, namespace_of, select_device, to_host
from neuralfield.system.random_streams import philox, uniform
from neuralfield.tasks.image.image_model import Model

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def value_and_gradients(function, arrays):
    leaves = [Tensor(array, differentiable=True) for array in arrays]
    output = function(*leaves)
    return [to_host(a) for a in (output.data, *gradients(output, leaves))]


def assert_alike(function, arrays, gpu):
    on_cpu = value_and_gradients(function, arrays)
    on_gpu = value_and_gradients(function, [gpu.asarray(array) for array in arrays])
    for a, b in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", test_tensor.CASES)
def test_operation(name, gpu):
    function, *arrays = test_tensor.CASES[name]
    assert_alike(function, arrays, gpu)


@pytest.mark.parametrize("name", ["mse", "binary_cross_entropy", "huber"])
def test_loss(name, gpu):
    generator = np.random.default_rng(0)
    values, target = generator.uniform(0.01, 0.99, size=(2, 40, 3))
    loss = losses.make_loss(name)
    on_cpu = value_and_gradients(lambda x: loss(x, target, target.size), [values])
    there = gpu.asarray(target)
    on_gpu = value_and_gradients(lambda x: loss(x, there, there.size), [gpu.asarray(values)])
    for a, b in zip(on_cpu, on_gpu, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", test_convolution.CASES)
def test_convolving(name, gpu):
    arrays, settings = test_convolution.arrays_of(name)
    assert_alike(lambda *leaves: weighted(conv2d(*leaves, **settings)), arrays, gpu)


@pytest.mark.parametrize("window", test_pooling.WINDOWS)
def test_windows_pooled(window, gpu):
    x = test_pooling.distinct(2, 19, 22, 2)
    assert_alike(lambda x: weighted(max_pool2d(x, window)), [x], gpu)


def test_dropout_drops_the_same_values(gpu):
    def dropped(x):
        samples = namespace_of(x.data).arange(40)
        return weighted(dropout(x, 0.3, TrainingCall(5, 7, samples), 1))

    assert_alike(dropped, [np.random.default_rng(0).normal(size=(40, 9))], gpu)


def test_softmax_cross_entropy(gpu):
    generator = np.random.default_rng(0)
    logits, labels = generator.normal(size=(40, 5)), generator.integers(0, 5, 40)

    def loss(x):
        there = namespace_of(x.data).asarray(labels)
        return losses.softmax_cross_entropy(x, there, len(labels))

    assert_alike(loss, [logits], gpu)


def test_random_numbers_are_the_same_bits(gpu):
    xp = gpu.xp
    words = philox(xp, (xp.arange(1000), 3, 2, 1), 12345)
    expected = philox(np, (np.arange(1000), 3, 2, 1), 12345)
    for a, b in zip(expected, words, strict=True):
        np.testing.assert_array_equal(to_host(b), a)
        np.testing.assert_array_equal(to_host(uniform(b)), uniform(a))
    pixels = Blocks(xp, 97, 31, 500).pixels(1234, 5)
    np.testing.assert_array_equal(to_host(pixels), Blocks(np, 97, 31, 500).pixels(1234, 5))


@pytest.mark.parametrize("supervision", ["point", "footprint"])
def test_training_in_float64_takes_the_same_path(tmp_path, monkeypatch, gpu, supervision):
    task = test_fit.make_task(supervision=supervision, precision="float64")
    test_fit.train(task, tmp_path / "cpu")
    monkeypatch.setattr(test_fit, "CPU", gpu)
    test_fit.train(task, tmp_path / "gpu")
    cpu_model, gpu_model = (Model.load(tmp_path / n / "model.safetensors") for n in ("cpu", "gpu"))
    for name, array in cpu_model.arrays.items():
        np.testing.assert_allclose(gpu_model.arrays[name], array, rtol=1e-6, atol=1e-9)


def test_training_learns_and_renders_alike(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    task = test_fit.make_task(steps=400, batch_pixels=0)
    test_fit.train(task, tmp_path)
    model = Model.load(tmp_path / "model.safetensors")
    rendered = render(model, 20, 16, device=gpu)
    assert psnr_db(rendered, task.values) > 30
    np.testing.assert_allclose(
        rendered, render(model, 20, 16, device=select_device("cpu")), atol=1e-2
    )


def test_two_runs_and_a_resumed_one_give_the_same_bytes(tmp_path, monkeypatch, gpu):
    monkeypatch.setattr(test_fit, "CPU", gpu)
    task = test_fit.make_task(steps=200, supervision="footprint")
    for name in ("a", "b", "resumed"):
        test_fit.train(task, tmp_path / name, checkpoint_interval_s=0)
    newest = sorted((tmp_path / "resumed/.state").glob("state_*"))[-1]
    newest.unlink()
    messages = test_fit.train(task, tmp_path / "resumed", checkpoint_interval_s=0)
    assert any("resuming from" in line for line in messages)
    digests = {test_fit.sha256(tmp_path / n / "model.safetensors") for n in ("a", "b", "resumed")}
    assert len(digests) == 1


@pytest.mark.parametrize("precision", ["float64", "auto"])
def test_a_classifier_resumes_to_the_same_bytes_on_the_path_of_a_cpu(
    tmp_path, monkeypatch, gpu, precision
):
    task = make_task(steps=100, precision=precision)
    on_cpu, _ = train_classifier(task, tmp_path / "cpu")
    monkeypatch.setattr(small_classifiers, "CPU", gpu)
    for name in ("gpu", "resumed"):
        found, messages = train_classifier(task, tmp_path / name, checkpoint_interval_s=0)
        assert messages == [], "the tape is the engine of classifiers, not a fallback"
        for key, array in on_cpu.arrays.items() if precision == "float64" else ():
            np.testing.assert_allclose(found.arrays[key], array, rtol=1e-6, atol=1e-9)
    sorted((tmp_path / "resumed/.state").glob("state_*"))[-1].unlink()
    _, messages = train_classifier(task, tmp_path / "resumed", checkpoint_interval_s=0)
    assert any("resuming from" in line for line in messages)
    digests = {test_fit.sha256(tmp_path / n / "model.safetensors") for n in ("gpu", "resumed")}
    assert len(digests) == 1


@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
@pytest.mark.parametrize("engine", ["cuda", "tape"])
def test_a_divergence_goes_back_to_the_same_bytes(tmp_path, monkeypatch, gpu, engine):
    """The result is the same however many steps a call takes before the divergence is noticed."""
    monkeypatch.setattr(test_fit, "CPU", gpu)
    # mixed precision limits gradients, so that this training would stay finite, if useless
    task = test_divergence.diverging_task(precision="float32")
    for name, interval_s in (("alone", 1000), ("often", 0), ("resumed", 0)):
        test_fit.train(task, tmp_path / name, engine=engine, checkpoint_interval_s=interval_s)
        record = json.loads((tmp_path / name / "training.json").read_text())
        assert record["engine"] == engine
        assert 0 < record["rollback"]["to_step"] < record["rollback"]["noticed_at_step"]
    newest = sorted((tmp_path / "resumed/.state").glob("state_*"))[-1]
    newest.unlink()
    messages = test_fit.train(task, tmp_path / "resumed", engine=engine)
    assert any("resuming from" in line for line in messages)
    contents = [test_divergence.content(tmp_path / n) for n in ("alone", "often", "resumed")]
    assert contents[0] == contents[1] == contents[2]


TRAIN = """
import sys, tempfile
from pathlib import Path
import test_fit
from neuralfield.system.device import select_device
folder = Path(tempfile.mkdtemp(dir=sys.argv[1]))
task = test_fit.make_task({"width": 16}, precision="float32", steps=3)
test_fit.train(task, folder, device=select_device("gpu"))
print(test_fit.sha256(folder / "model.safetensors"))
"""


def test_a_damaged_cache_of_kernels_or_none_does_not_stop_a_training(tmp_path):
    def trained(cache):
        environment = os.environ | IMPORTS | {"CUPY_CACHE_DIR": str(cache)}
        return output_of([sys.executable, "-c", TRAIN, str(tmp_path)], env=environment)

    first = trained(tmp_path / "cache")
    entries = sorted((tmp_path / "cache/neuralfield").iterdir())
    assert entries
    whole = [path.read_bytes() for path in entries]
    for number, (path, entry) in enumerate(zip(entries, whole, strict=True)):
        middle = len(entry) // 2
        flipped = entry[:middle] + bytes([entry[middle] ^ 1]) + entry[middle + 1 :]
        path.write_bytes((b"", flipped, entry[:-9])[number % 3])
    assert trained(tmp_path / "cache") == first
    assert all(path.stat().st_size > 40 for path in entries), "they are written again"
    assert trained("/proc/none") == first


@pytest.mark.parametrize("engine", ["cuda", "tape"])
def test_previews_change_no_byte_of_a_training(tmp_path, gpu, engine, monkeypatch):
    monkeypatch.setattr("entry.progress._FIRST_PREVIEW_S", {"gpu": 0.0})
    task, preview = test_fit.make_task(), Preview(tmp_path / "train.preview.png", 1, "gpu")
    shown = {"device": gpu, "engine": engine, "stepped": [preview.update]}
    test_fit.train(task, tmp_path / "shown", **shown)
    assert preview.path.exists()
    test_fit.train(task, tmp_path / "unseen", device=gpu, engine=engine)
    models = [tmp_path / name / "model.safetensors" for name in ("shown", "unseen")]
    assert test_fit.sha256(models[0]) == test_fit.sha256(models[1])
