"""What a batch asks of a network: values at which points, and how far they are off."""

from neuralfield.coordinates import pixel_centres
from neuralfield.device import Array, Device
from neuralfield.engines.problem import Problem
from neuralfield.losses import make_loss, squared_error_of_means
from neuralfield.ops import group_means, mean_axis
from neuralfield.tensor import Tensor


class Supervision:
    """Points of pixels, and the loss of a network's values there.

    Parameters
    ----------
    problem : Problem
    device : Device
    """

    def __init__(self, problem: Problem, device: Device) -> None:
        self._problem, self._xp = problem, device.xp
        self._loss = make_loss(problem.loss, problem.huber_delta)
        shape, dtype = problem.shape, problem.dtype
        self._centres = pixel_centres(device.xp, shape.width, shape.height).astype(dtype)
        self._targets = device.asarray(problem.values.reshape(-1, shape.channels), dtype=dtype)

    @property
    def memory_bytes(self) -> int:
        """What is kept of the picture."""
        return self._centres.nbytes + self._targets.nbytes

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

    def loss(self, values: Tensor, pixels: Array, batch_size: int) -> tuple[Tensor, Array]:
        """The part of a batch's mean loss, and of its squared error, that some pixels have.

        Parameters
        ----------
        values : Tensor, shape (n * points, channels)
            At the points of these pixels.
        pixels : array of int64, shape (n,)
        batch_size : int
            Pixels of the whole batch.

        Returns
        -------
        loss : Tensor of one number
        squared_error : array of one number
            An estimate of the mean squared error over the whole picture.
        """
        problem, target = self._problem, self._targets[pixels]
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
        weights = problem.batches.weights(pixels)
        if weights is not None:
            squared = squared * weights[:, None]
        return loss, squared.sum() / count
