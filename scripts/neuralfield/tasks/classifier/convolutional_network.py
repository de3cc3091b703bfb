"""A small convolutional classifier of images, after LeNet (LeCun et al., "Gradient-based learning
applied to document recognition", Proceedings of the IEEE, 1998)."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from neuralfield.images.shape import PictureShape
from neuralfield.nn import ops
from neuralfield.nn.dropout import Dropout
from neuralfield.nn.layers import he_weights, make_conv2d, make_linear, plain_weights
from neuralfield.nn.network import Sequential, Stage
from neuralfield.nn.pooling import max_pool2d
from neuralfield.nn.windows import window_places
from neuralfield.system.setting_checks import require_whole

_SECTION = "classifier"


@dataclass(frozen=True)
class ConvolutionalClassifier:
    """Convolutions, each with max pooling and relu, then linear layers down to the classes.

    The defaults are for images of 28 x 28: 28 -> 24 -> 12 -> 8 -> 4, 4 x 4 x 20 = 320 values to
    the linear layers. Images of 8 x 8 do with ``kernel=3, padding=1``: 8 -> 8 -> 4 -> 4 -> 2.

    Attributes
    ----------
    channels : tuple of int
        After each convolution.
    kernel : int
        Side of each convolution's kernel.
    padding : int
        Zeros on each side of what it is given.
    pool : int
        Side of the windows of max pooling; 1: none.
    hidden : tuple of int
        Values after each linear layer but the last, each followed by relu and dropout.
    dropout : float
        Share of these values that is dropped in training.
    """

    suggested_learning_rate: ClassVar[float] = 1e-3

    channels: tuple[int, ...] = (10, 20)
    kernel: int = 5
    padding: int = 0
    pool: int = 2
    hidden: tuple[int, ...] = (64,)
    dropout: float = 0.0

    def __post_init__(self) -> None:
        positive = ("channels", "kernel", "pool", "hidden")
        require_whole(self, *positive, at_least=1, section=_SECTION)
        # beyond that a window would hold nothing but zeros
        require_whole(self, "padding", at_least=0, at_most=self.kernel - 1, section=_SECTION)
        Dropout(self.dropout)

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
        """Read settings as files have them, with lists in place of tuples.

        Raises
        ------
        ConfigError
            A value is wrong.
        TypeError
            A key is unknown.
        """
        lists = {name: tuple(given[name]) for name in ("channels", "hidden") if name in given}
        return cls(**{**given, **lists})

    def flat_values(self, shape: PictureShape) -> int:
        """Values that the linear layers are given for each image.

        Raises
        ------
        ConfigError
            A kernel or a window is larger than what is left of the image.
        """
        _, (height, width) = self._sides(shape)[-1]
        return height * width * (shape.channels, *self.channels)[-1]

    def working_values(self, shape: PictureShape) -> int:
        """Numbers that the stages give for each image, all together."""
        values = shape.width * shape.height * shape.channels + sum(self.hidden)
        pairs = zip(self._sides(shape)[1:], self.channels, strict=True)
        return values + sum(
            channels * (places[0] * places[1] + 2 * pooled[0] * pooled[1])
            for (places, pooled), channels in pairs
        )

    def weight_shapes(self, shape: PictureShape, classes: int) -> list[tuple[int, int]]:
        """Values in and out of each layer's windows or rows: what is needed of memory."""
        window = self.kernel**2
        convolutions = pairwise((shape.channels, *self.channels))
        linear = pairwise((self.flat_values(shape), *self.hidden, classes))
        return [*((window * into, out) for into, out in convolutions), *linear]

    def build(
        self, shape: PictureShape, classes: int, generator: np.random.Generator
    ) -> Sequential:
        """A network with fresh weights, in float64 on the CPU: images in, logits out.

        It is called with arrays of shape (n, height, width, channels), and gives a Tensor of
        shape (n, classes); see `neuralfield.nn.losses.softmax_cross_entropy`.

        Raises
        ------
        ConfigError
            A kernel or a window is larger than what is left of the image.
        """
        kernel = (self.kernel, self.kernel)
        sizes = [self.flat_values(shape), *self.hidden]
        stages: list[Stage] = []
        for channels_in, channels_out in pairwise((shape.channels, *self.channels)):
            stages += [
                make_conv2d(
                    kernel, channels_in, channels_out, he_weights, generator, padding=self.padding
                ),
                partial(max_pool2d, window=self.pool),
                ops.relu,
            ]
        stages.append(ops.flatten)
        for fan_in, fan_out in pairwise(sizes):
            stages += [
                make_linear(fan_in, fan_out, he_weights, generator),
                ops.relu,
                Dropout(self.dropout),
            ]
        return Sequential([*stages, make_linear(sizes[-1], classes, plain_weights, generator)])

    def _sides(self, shape: PictureShape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Height and width after each convolution and its pooling; first those of the image."""
        sides = (shape.height, shape.width)
        found = [(sides, sides)]
        kernel, pool, padding = ((n, n) for n in (self.kernel, self.pool, self.padding))
        for number in range(1, len(self.channels) + 1):
            where = f"{_SECTION}: convolution {number}"
            places = window_places(sides, kernel, (1, 1), padding, where=where)
            sides = window_places(places, pool, pool, where=f"{_SECTION}: pooling {number}")
            found.append((places, sides))
        return found
