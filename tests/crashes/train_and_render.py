"""The process that `kill_at_random.py` kills: it trains a small network, then renders it.

python tests/crashes/train_and_render.py FOLDER cpu|gpu STEPS
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

import numpy as np

from neuralfield.fields import field_settings
from neuralfield.rendering.render import render_to_png
from neuralfield.system.device import Device, select_device
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training

CHECKPOINT_INTERVAL_S = 0.005
"""Seconds between saved states: so few that many kills strike while a state is being written."""

RENDERING_SIZES_PX = (24, 200)
READY = "ready"


def make_task(steps: int) -> ImageTask:
    """Return a task: an image of rings and a small siren, with footprint supervision."""
    y, x = np.mgrid[-1:1:36j, -1:1:48j]
    rings = 0.5 + 0.5 * np.sin(20 * np.hypot(x, y))
    values = np.stack([rings, 1 - rings, 0.5 + 0.5 * x], axis=2).astype(np.float32)
    field = field_settings({"type": "siren", "width": 32, "hidden_layers": 2})
    settings = {"steps": steps, "batch_pixels": 256, "snapshots": 40}
    return ImageTask(values, "rgb", field, ImageTraining.from_mapping(settings))


def train_and_render(folder: Path, device: Device, steps: int) -> None:
    """Start or resume the training of an earlier process in the folder, then render."""
    training = Training(
        task=make_task(steps),
        folder=folder,
        device=device,
        engine="cuda" if device.kind == "gpu" else "tape",
        checkpoint_interval_s=CHECKPOINT_INTERVAL_S,
    )
    fit([training])
    model = Model.load(folder / "model.safetensors")
    for size in RENDERING_SIZES_PX:
        width, height = size, size * 36 // 48
        rendering = folder / f"render_{size}.png"
        render_to_png(model, rendering, width, height, device=device)


if __name__ == "__main__":
    place = select_device(sys.argv[2])
    print(READY, flush=True)
    train_and_render(Path(sys.argv[1]), place, int(sys.argv[3]))
