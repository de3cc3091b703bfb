"""What an engine is given: everything that says what one training step computes."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields import CoordinateNetwork, PictureShape
from neuralfield.optimizers import Optimizer
from neuralfield.sampling import Batches, Footprint
from neuralfield.schedules import Schedule


@dataclass(frozen=True)
class Problem:
    """A network, what it is taught, and how.

    Attributes
    ----------
    network : CoordinateNetwork
        On the engine's device, in `dtype`; trained in place.
    shape : PictureShape
    values : ndarray of float32, shape (height, width, channels)
    loss : str
        See `neuralfield.losses.make_loss`.
    huber_delta : float
    optimizer : Optimizer
        Over the network's parameters.
    schedule : Schedule
        The learning rate at every step.
    batches : Batches
    footprint : Footprint or None
        None: the value at the pixel's centre is fitted (point supervision).
    dtype : {"float32", "float64"}
    """

    network: CoordinateNetwork
    shape: PictureShape
    values: np.ndarray
    loss: str
    huber_delta: float
    optimizer: Optimizer
    schedule: Schedule
    batches: Batches
    footprint: Footprint | None
    dtype: str
