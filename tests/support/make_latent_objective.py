"""The objective of a small coded image, for tests of engines."""

import numpy as np

from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import HOST
from neuralfield.tasks.bits.bits_task import BitsTask, BitsTraining

STEPS = 100


def make_latent_objective(dtype, height=37, width=53, mode="rgb", hidden=10, device=HOST):
    channels = {"grey": 1, "rgb": 3, "rgba": 4}[mode]
    random = np.random.default_rng(0)
    values = random.random((height, width, channels)).astype(np.float32)
    training = BitsTraining(steps=STEPS, bit_weight=1e-2)
    task = BitsTask(values, mode, hidden, training)
    network = task.fresh_network()
    for tensor in network.parameters.values():
        tensor.data += 0.06 * random.standard_normal(tensor.shape)
    network.to(device, dtype)
    return task.objective(
        network,
        optimizer=make_optimizer("adam", network.parameters),
        schedule=Schedule("cosine", 1e-2, 1e-5, STEPS),
        loss="mse",
        huber_delta=1.0,
        device=device,
        dtype=dtype,
    )
