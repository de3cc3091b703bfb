"""Objectives for the tests of engines and their kernels."""

import numpy as np

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.sampling import Batches, Footprint, detail_density
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import Device, select_device
from neuralfield.tasks.image.image_objective import ImageObjective

SIREN = {"type": "siren", "width": 24, "hidden_layers": 2}


def make_objective(
    field=None,
    *,
    device: Device | None = None,
    width=23,
    height=17,
    channels=1,
    batch_pixels=0,
    points=1,
    detail_share=0.0,
    seed=3,
    loss="mse",
    optimizer="adam",
    schedule=None,
    dtype="float32",
    **optimizer_settings,
) -> ImageObjective:
    """Make an objective for a random image and a network with initial weights.

    `points` 1 is point supervision. Features of hash grids are enlarged, as if after some training,
    because their initial values would hardly affect the output.
    """
    device = device or select_device("cpu")
    shape = ImageShape(width, height, channels)
    values = np.random.default_rng(seed).random((height, width, channels), dtype=np.float32)
    network = build_field(field_settings(field or SIREN), shape, seed).to(device, dtype)
    for features in network.encoding.parameters.values():
        features.data *= 1e4
    density = None
    if detail_share:
        density = device.asarray(np.cumsum(detail_density(values, detail_share)))
    return ImageObjective(
        network=network,
        shape=shape,
        values=values,
        loss=loss,
        huber_delta=0.1,
        optimizer=make_optimizer(
            optimizer,
            network.parameters,
            hidden_matrices=network.hidden_matrices,
            **optimizer_settings,
        ),
        schedule=schedule or Schedule("cosine", 1e-3, 1e-5, 100),
        batches=Batches(
            device.xp, width * height, batch_pixels, seed, density, image=(width, height)
        ),
        footprint=Footprint(points, 2 / max(width, height), seed) if points > 1 else None,
        device=device,
        dtype=dtype,
    )
