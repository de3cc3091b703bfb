"""The task of fitting a field to an image."""

import hashlib
from dataclasses import dataclass
from functools import cached_property
from math import isqrt, log2, prod
from typing import Any, Unpack

import numpy as np

from neuralfield.fields import (
    CoordinateNetwork,
    FieldSettings,
    ImageShape,
    build_field,
    describe_field,
)
from neuralfield.images import image_digest
from neuralfield.nn.sampling import Batches, Footprint, detail_density
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.image_objective import ImageObjective
from neuralfield.tasks.task import PSNR_DB, Measure, Shared, Task
from neuralfield.tasks.training_settings import ImageTraining

_MOST_REFINED_PIXELS = 4 << 20

_EDGES_SCALE = 4
"""Minimum scale of a residual for drawings; a coarser residual makes their edges worse."""

_FEWEST_POINTS = 1024
"""Minimum number of points in a step; with fewer points, a step is mostly overhead."""


@dataclass(frozen=True)
class ImageTask(Task):
    """The task of fitting a field to an image."""

    values: np.ndarray  # float32, shape (height, width, channels); the image, in [0, 1]
    mode: str  # "bilevel", "grey", "rgb" or "rgba"
    field: FieldSettings
    training: ImageTraining

    @property
    def measure(self) -> Measure:
        return PSNR_DB

    @property
    def shape(self) -> ImageShape:
        height, width, channels = self.values.shape
        return ImageShape(width, height, channels)

    @property
    def batch_pixels(self) -> int:
        """The number of pixels in a batch."""
        pixels = self.shape.width * self.shape.height
        return min(self.training.batch_pixels or pixels, pixels)

    @cached_property
    def image(self) -> str:
        """The digest of the training image; see `neuralfield.images.image_facts.image_digest`."""
        return image_digest(self.values)

    @cached_property
    def constant(self) -> np.ndarray | None:
        """The colour of an image that has only one colour, shape (channels,); otherwise None.

        Such an image does not determine the values between pixels: a network that varies there fits
        it as well as a constant one. The initial network is therefore made constant, and training
        does not change it.
        """
        first = self.values[0, 0]
        return first if (self.values == first).all() else None

    @cached_property
    def model(self) -> Model:
        return Model(self.field, self.shape, self.mode, {})

    @cached_property
    def _values_digest(self) -> str:
        return hashlib.sha256(np.ascontiguousarray(self.values).data).hexdigest()

    def identity(self) -> list[Any]:
        shape = list(self.values.shape)
        identity = [describe_field(self.field), self.mode, shape, self._values_digest]
        return [*identity, "constant"] if self.is_solved else identity

    def fresh_network(self) -> CoordinateNetwork:
        """Create the field with initial weights; for an image of one colour, it is constant."""
        network = build_field(self.field, self.shape, self.training.random_seed)
        if self.constant is not None:
            network.make_constant(self.constant)
        return network

    @cached_property
    def is_solved(self) -> bool:
        """Whether the initial network is equal to the image, so that there is nothing to train."""
        if self.constant is None:
            return False
        return build_field(self.field, self.shape).make_constant(self.constant)

    @property
    def smallest_batch_pixels(self) -> int:
        """The number of pixels in the smallest batch for which a step is not mostly overhead.

        It is the power of two for which a batch has about `_FEWEST_POINTS` points.
        """
        is_footprint = self.training.supervision == "footprint"
        points = self.training.footprint_points if is_footprint else 1
        return 1 << round(log2(_FEWEST_POINTS / points))

    def objective(self, network: CoordinateNetwork, **shared: Unpack[Shared]) -> ImageObjective:
        if self.is_solved:
            shared["schedule"] = shared["schedule"].at_rest()
        settings, shape = self.training, self.shape
        if settings.loss == "binary_cross_entropy" and self.field.output != "sigmoid":
            raise ConfigError(
                "fields: output",
                f"{self.field.output!r} with the loss binary_cross_entropy",
                "sigmoid, whose values are probabilities",
            )
        seed, sides = settings.random_seed, (shape.width, shape.height)
        density = footprint = None
        if settings.detail_share:
            density = np.cumsum(detail_density(self.values, settings.detail_share))
            density = shared["device"].asarray(density)
        if settings.supervision == "footprint":
            pixel_side = 2 / max(sides)
            footprint = Footprint(settings.footprint_points, pixel_side, seed)
        return ImageObjective(
            network=network,
            shape=shape,
            values=self.values,
            batches=Batches(
                shared["device"].xp, prod(sides), settings.batch_pixels, seed, density, image=sides
            ),
            footprint=footprint,
            **shared,
        )

    def record(self) -> dict[str, Any]:
        return {"picture": self.image, "footprint": self.training.supervision == "footprint"}

    @property
    def is_corrected(self) -> bool:
        return self.training.residual and self.training.supervision == "footprint"

    @property
    def residual_scale(self) -> int:
        """The ratio of the residual's sides to those of the training image.

        It is reduced below the setting if the residual would have too many pixels for time and
        memory. If the setting is above `_EDGES_SCALE` but the reduced scale is below it, it is 1,
        because such a scale makes the edges of drawings worse.
        """
        pixels, wanted = self.shape.width * self.shape.height, self.training.residual_scale
        scale = min(wanted, max(1, isqrt(_MOST_REFINED_PIXELS // pixels)))
        return 1 if scale < _EDGES_SCALE < wanted else scale
