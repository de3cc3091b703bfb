"""A small convolutional classifier of images, after LeNet (LeCun et al., "Gradient-based learning
applied to document recognition", Proceedings of the IEEE, 1998)."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import ClassVar

import numpy as np

from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.convolution import window_places
from neuralfield.nn.dropout import Dropout
from neuralfield.nn.layers import he_weights, make_conv2d, make_linear, plain_weights
from neuralfield.nn.network import Operation, Sequential
from neuralfield.nn.pooling import max_pool2d
from neuralfield.system.errors import ConfigError
from neuralfield.system.settings import Settings, setting


@dataclass(frozen=True)
class ConvolutionalClassifier(Settings):
    """Convolutions, each followed by max pooling and relu, then linear layers to the classes.

    The defaults are for images of 28 x 28: 28 -> 24 -> 12 -> 8 -> 4, so that the linear layers have
    4 x 4 x 20 = 320 inputs. Images of 8 x 8 work with ``kernel=3, padding=1``: 8 -> 8 -> 4 -> 4 ->
    2.
    """

    place: ClassVar[str] = "classifier: {}"
    suggested_learning_rate: ClassVar[float] = 1e-3

    channels: tuple[int, ...] = setting(
        (10, 20), "number of channels after each convolution", minimum=1, longest=100
    )
    kernel: int = setting(
        5, "side of each convolution's kernel in pixels", unit="pixels", minimum=1
    )
    padding: int = setting(
        0,
        "number of zeros on each side of a convolution's input; less than `kernel`",
        minimum=0,
    )
    pool: int = setting(
        2,
        "side of the windows of max pooling in pixels; 1: no pooling",
        unit="pixels",
        minimum=1,
    )
    hidden: tuple[int, ...] = setting(
        (64,),
        "number of values after each linear layer but the last; relu and dropout follow each",
        unit="values",
        minimum=1,
        longest=100,
    )
    dropout: float = setting(
        0.0, "share of the hidden values that is dropped in each training step", minimum=0, below=1
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.padding >= self.kernel:  # some windows would contain only zeros
            expected = f"less than kernel, which is {self.kernel}"
            raise ConfigError(self.place.format("padding"), str(self.padding), expected)

    def flat_values(self, shape: ImageShape) -> int:
        """Return the number of inputs of the linear layers for each image.

        Raises `ConfigError` if a kernel or a pooling window is larger than its input.
        """
        _, (height, width) = self._sides(shape)[-1]
        return height * width * (shape.channels, *self.channels)[-1]

    def working_values(self, shape: ImageShape) -> int:
        """Return the total number of outputs of all operations for each image."""
        values = shape.width * shape.height * shape.channels + sum(self.hidden)
        pairs = zip(self._sides(shape)[1:], self.channels, strict=True)
        return values + sum(
            channels * (places[0] * places[1] + 2 * pooled[0] * pooled[1])
            for (places, pooled), channels in pairs
        )

    def weight_shapes(self, shape: ImageShape, classes: int) -> list[tuple[int, int]]:
        """Return (inputs, outputs) of each layer's matrix, to compute the memory use in advance."""
        window = self.kernel**2
        convolutions = pairwise((shape.channels, *self.channels))
        linear = pairwise((self.flat_values(shape), *self.hidden, classes))
        return [*((window * into, out) for into, out in convolutions), *linear]

    def build(self, shape: ImageShape, classes: int, generator: np.random.Generator) -> Sequential:
        """Create a network with initial weights, in float64 on the CPU.

        It maps images, shape (n, height, width, channels), to logits, shape (n, classes). For
        errors see `flat_values`.
        """
        kernel = (self.kernel, self.kernel)
        sizes = [self.flat_values(shape), *self.hidden]
        operations: list[Operation] = []
        for channels_in, channels_out in pairwise((shape.channels, *self.channels)):
            operations += [
                make_conv2d(
                    kernel, channels_in, channels_out, he_weights, generator, padding=self.padding
                ),
                partial(max_pool2d, window=self.pool),
                ops.relu,
            ]
        operations.append(ops.flatten)
        for fan_in, fan_out in pairwise(sizes):
            operations += [
                make_linear(fan_in, fan_out, he_weights, generator),
                ops.relu,
                Dropout(self.dropout),
            ]
        return Sequential([*operations, make_linear(sizes[-1], classes, plain_weights, generator)])

    def _sides(self, shape: ImageShape) -> list[tuple[tuple[int, int], tuple[int, int]]]:
        """Return the sides after each convolution and its pooling; first, those of the image."""
        sides = (shape.height, shape.width)
        found = [(sides, sides)]
        kernel, pool = (self.kernel, self.kernel), (self.pool, self.pool)
        for number in range(1, len(self.channels) + 1):
            where = self.place.format(f"convolution {number}")
            places = window_places(sides, kernel, padding=self.padding, where=where)
            where = self.place.format(f"pooling {number}")
            sides = window_places(places, pool, stride=self.pool, where=where)
            found.append((places, sides))
        return found
