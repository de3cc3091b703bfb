"""A picture as a problem: values at which points, and how far they are off."""

from dataclasses import dataclass

import numpy as np

from neuralfield.fields import CoordinateNetwork, PictureShape
from neuralfield.images.coordinates import pixel_centres
from neuralfield.nn.losses import make_loss, squared_error_of_means
from neuralfield.nn.ops import group_means, mean_axis
from neuralfield.nn.sampling import Footprint
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.tasks.objective import Problem

BLOCK_POINTS = {"cpu": 1024, "gpu": 1 << 18}
"""Points that pass through the network together, by the kind of device."""


@dataclass(frozen=True, kw_only=True)
class PictureProblem(Problem):
    """A field, the picture that it is taught, and how.

    Attributes
    ----------
    network : CoordinateNetwork
    shape : PictureShape
    values : ndarray of float32, shape (height, width, channels)
    loss : str
        See `neuralfield.nn.losses.make_loss`.
    huber_delta : float
    footprint : Footprint or None
        None: the value at the pixel's centre is fitted (point supervision).
    """

    network: CoordinateNetwork
    shape: PictureShape
    values: np.ndarray
    loss: str
    huber_delta: float
    footprint: Footprint | None

    @property
    def points(self) -> int:
        """Points of each pixel that the network is asked at."""
        return self.footprint.points if self.footprint else 1

    def supervision(self, device: Device) -> "PictureSupervision":
        """Pixels' points and values, on a device."""
        return PictureSupervision(self, device)

    def block_samples(self, device: Device) -> int:
        """Pixels that pass through the network together, on the tape."""
        return max(1, BLOCK_POINTS[device.kind] // self.points)

    @property
    def sample_bytes(self) -> int:
        """What is kept of each pixel: values, and centres, which are float64 while made."""
        itemsize = 8 if self.dtype == "float64" else 4
        return (self.shape.channels + 2) * itemsize + 16

    @property
    def working_values(self) -> int:
        """Numbers that are alive for each pixel while it is worked on, about."""
        layers, encoding = self.network.layers, self.network.encoding
        encoded = max(encoding.working_values, layers[0].fan_in)
        return self.points * (encoded + sum(layer.fan_out for layer in layers))


class PictureSupervision:
    """Points of pixels, and the loss of a network's values there.

    Parameters
    ----------
    problem : PictureProblem
    device : Device
    """

    def __init__(self, problem: PictureProblem, device: Device) -> None:
        self._problem, self._xp = problem, device.xp
        self._loss = make_loss(problem.loss, problem.huber_delta)
        shape, dtype = problem.shape, problem.dtype
        self._centres = pixel_centres(device.xp, shape.width, shape.height).astype(dtype)
        self._targets = device.asarray(problem.values.reshape(-1, shape.channels), dtype=dtype)

    def points(self, pixels: Array, step: int) -> Array:
        """Where the network is asked in a step, pixel by pixel.

        Parameters
        ----------
        pixels : array of int64, shape (n,)
        step : int

        Returns
        -------
        array, shape (n * points, 2)
        """
        centres, footprint = self._centres[pixels], self._problem.footprint
        if footprint is None:
            return centres
        return footprint.spread(self._xp, centres, pixels, step)

    def loss(
        self, network: CoordinateNetwork, samples: Array, step: int, batch_size: int
    ) -> tuple[Tensor, Array]:
        """The part of a batch's mean loss, and of its squared error, that some pixels have."""
        problem, target = self._problem, self._targets[samples]
        values = network(self.points(samples, step))
        count = batch_size * problem.shape.channels
        if problem.footprint is None:
            loss = self._loss(values, target, count)
            squared = (values.data - target) ** 2
        else:
            estimates = group_means(values, problem.footprint.group_sizes)
            if problem.loss == "mse":
                loss = squared_error_of_means(estimates, target, count)
            else:
                loss = self._loss(mean_axis(estimates, axis=1), target, count)
            errors = estimates.data - target[:, None, :]
            squared = errors[:, 0] * errors[:, 1]
        weights = problem.batches.weights(samples)
        if weights is not None:
            squared = squared * weights[:, None]
        return loss, squared.sum() / count
