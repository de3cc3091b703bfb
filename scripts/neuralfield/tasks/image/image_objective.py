"""The objective of fitting a field to an image: sampled points, loss and error."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.fields import CoordinateNetwork, ImageShape
from neuralfield.images.coordinates import pixel_centres
from neuralfield.nn.losses import squared_error_of_means
from neuralfield.nn.ops import group_means, mean_axis
from neuralfield.nn.sampling import Footprint
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array
from neuralfield.tasks.task import Objective

BLOCK_POINTS = {"cpu": 1024, "gpu": 1 << 18}
"""Number of points in a block, by the kind of device."""


@dataclass(frozen=True, kw_only=True)
class ImageObjective(Objective):
    """The objective of fitting a field to an image."""

    network: CoordinateNetwork
    shape: ImageShape
    values: np.ndarray  # float32, shape (height, width, channels)
    footprint: Footprint | None
    """The sampling of points in pixels; None for point supervision, where the value at the pixel's
    centre is fitted."""

    @property
    def points(self) -> int:
        """The number of points per pixel at which the network is evaluated."""
        return self.footprint.points if self.footprint else 1

    @cached_property
    def data(self) -> tuple[Array, Array]:
        """The centres and values of all pixels."""
        shape, xp = self.shape, self.device.xp
        centres = pixel_centres(xp, shape.width, shape.height).astype(self.dtype)
        values = self.values.reshape(-1, shape.channels)
        return centres, self.device.asarray(values, dtype=self.dtype)

    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        centres, targets = (array[samples] for array in self.data)
        count = batch_size * self.shape.channels
        if self.footprint is None:
            values = self.network(centres)
            loss = self.loss_of(values, targets, count)
            squared = (values.data - targets) ** 2
        else:
            points = self.footprint.spread(self.device.xp, centres, samples, step)
            estimates = group_means(self.network(points), self.footprint.group_sizes)
            if self.loss == "mse":
                loss = squared_error_of_means(estimates, targets, count)
            else:
                loss = self.loss_of(mean_axis(estimates, axis=1), targets, count)
            errors = estimates.data - targets[:, None, :]
            squared = errors[:, 0] * errors[:, 1]
        weights = self.batches.weights(samples)
        if weights is not None:
            squared = squared * weights[:, None]
        return loss, squared.sum() / count

    @property
    def block_samples(self) -> int:
        return max(1, BLOCK_POINTS[self.device.kind] // self.points)

    @property
    def sample_bytes(self) -> int:
        """The bytes kept for each pixel: its values, and its centre, computed in float64."""
        return (self.shape.channels + 2) * self.itemsize + 16

    @property
    def working_values(self) -> int:
        layers, encoding = self.network.layers, self.network.encoding
        encoded = max(encoding.working_values, layers[0].fan_in)
        return self.points * (encoded + sum(layer.fan_out for layer in layers))
