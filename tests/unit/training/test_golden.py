"""Recorded results of small runs: a change of them requires a new engine version.

To record them again: PYTHONPATH=scripts:tests/support python tests/unit/training/test_golden.py
"""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
import test_fit

from neuralfield.images import ImageData, resize_image
from neuralfield.images.resizing import resize_channel
from neuralfield.rendering.refining import refined
from neuralfield.rendering.render import render
from neuralfield.system.device import select_device
from neuralfield.tasks.image.image_model import Model
from neuralfield.version import ENGINE_VERSION

GOLDEN = Path(__file__).with_name("golden.json")

TRAININGS = {
    "siren, footprint": ({"weight_scale": 1.5}, {"supervision": "footprint"}),
    "siren, sigmoid, cross-entropy": (
        {"output": "sigmoid"},
        {"loss": "binary_cross_entropy", "warmup_steps": 5},
    ),
    "mlp, huber": ({"type": "mlp", "widths": [8, 6], "activation": "relu"}, {"loss": "huber"}),
    "fourier, sgd": (
        {"type": "fourier", "frequencies": 6, "width": 8},
        {"optimizer": "sgd", "momentum": 0.9, "schedule": "constant", "epoch_offset": 3},
    ),
}
"""Trainings in float64, so that differences in the last digits between machines do not matter."""


def trained_values(name: str, folder: Path) -> np.ndarray:
    field, training = TRAININGS[name]
    task = test_fit.make_task(field, precision="float64", **training)
    test_fit.train(task, folder)
    model = Model.load(folder / "model.safetensors")
    return render(model, 4, 3, device=select_device("cpu")).ravel()


def resized_values(filter: str) -> np.ndarray:
    pixels = (np.arange(7 * 5 * 3, dtype=np.uint32) * 2654435761 % 256).astype(np.uint8)
    image = ImageData(pixels.reshape(7, 5, 3), "rgb", 8)
    return resize_image(image, 4, filter).values().ravel()


def refining_changes() -> np.ndarray:
    """Return how much refining changes each channel of an image of waves, rims and shadows."""
    y, x = np.mgrid[0:24, 0:32] / 24
    rim, waves = x**2 + y**2 < 0.7, np.sin(40 * x * y)
    image = np.stack([0.5 + 0.3 * waves, 0.2 + 0.5 * rim, 0.4 + 0.2 * waves * rim], axis=2)
    small = image.astype(np.float32)
    enlarged = np.stack([resize_channel(c, (64, 48), "lanczos") for c in np.moveaxis(small, 2, 0)])
    enlarged = np.ascontiguousarray(np.moveaxis(enlarged, 0, 2))
    return np.sqrt(((refined(enlarged, small) - enlarged) ** 2).mean(axis=(0, 1)))


RESIZINGS = ("box", "lanczos")
REFINING = "refining"


def measure(name: str, folder: Path) -> np.ndarray:
    if name == REFINING:
        return refining_changes()
    return resized_values(name) if name in RESIZINGS else trained_values(name, folder)


@pytest.mark.usual_seed
@pytest.mark.parametrize("name", [*TRAININGS, *RESIZINGS, REFINING])
def test_results_change_only_with_the_engine_version(name, tmp_path):
    golden = json.loads(GOLDEN.read_text())
    assert golden["engine_version"] == ENGINE_VERSION, "write the golden results anew"
    np.testing.assert_allclose(
        measure(name, tmp_path),
        golden[name],
        atol=1e-5,
        err_msg="results have changed: raise ENGINE_VERSION, then write the golden results anew",
    )


if __name__ == "__main__":
    results: dict = {"engine_version": ENGINE_VERSION}
    for name in (*TRAININGS, *RESIZINGS, REFINING):
        with tempfile.TemporaryDirectory() as folder:
            results[name] = [round(float(value), 7) for value in measure(name, Path(folder))]
    GOLDEN.write_text(json.dumps(results, indent=1) + "\n")
