"""Zero-shot upscaling: a network that learns, from an image alone, how that image is enlarged
(Shocher, Cohen & Irani, "Zero-shot super-resolution using deep internal learning", CVPR 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np

from neuralfield.fields.settings import NetworkSettings, layer_count
from neuralfield.images.image import ImageShape
from neuralfield.nn import ops
from neuralfield.nn.layers import Conv2d, he_weights, make_conv2d
from neuralfield.nn.network import Network
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.system.settings import setting

KERNEL_PX = 3


@dataclass(frozen=True)
class Upscaler(NetworkSettings["UpscalingNetwork"]):
    """Convolutions of 3 x 3, with relu after all but the last, added to an enlarged image."""

    usual_learning_rate = 1e-3

    factor: int = setting(
        2,
        "factor by which the image is reduced for training, and enlarged in each pass of a render",
        minimum=2,
        maximum=4,
    )
    hidden_layers: int = layer_count(4, "convolutions of 3 x 3 with relu before the last one")
    channels: int = setting(
        32, "values for each pixel after each hidden layer", unit="values", minimum=1
    )
    crop: int = setting(
        32,
        "side of the square crops of the image that each step is computed on",
        unit="pixels",
        minimum=1,
        maximum=1024,
    )
    ensemble: bool = setting(
        False,
        "whether a render is the mean of the eight renders of the flipped and rotated image, which"
        " takes eight times as long",
    )

    @property
    def reach_px(self) -> int:
        """The radius of the network's receptive field in pixels."""
        return (self.hidden_layers + 1) * (KERNEL_PX // 2)

    def weight_shapes(self, shape: ImageShape) -> list[tuple[int, int]]:
        """Return the shape of each convolution's matrix, and (pixels, channels) of the image."""
        channels = [shape.channels, *[self.channels] * self.hidden_layers, shape.channels]
        layers = [(KERNEL_PX**2 * into, out) for into, out in pairwise(channels)]
        return [*layers, (shape.width * shape.height, shape.channels)]

    def build(self, shape: ImageShape, generator: np.random.Generator) -> "UpscalingNetwork":
        """Create a network with initial weights, whose last layer and image are zeros."""
        kernel = (KERNEL_PX, KERNEL_PX)
        sizes = [shape.channels, *[self.channels] * self.hidden_layers, shape.channels]
        layers = [
            make_conv2d(kernel, into, out, he_weights, generator) for into, out in pairwise(sizes)
        ]
        for tensor in layers[-1].parameters.values():
            tensor.data[...] = 0
        image = np.zeros((shape.height, shape.width, shape.channels))
        return UpscalingNetwork(layers, image)


class UpscalingNetwork(Network[Conv2d]):
    """A network that adds the missing detail to enlarged images.

    It also holds the image that it was fitted to, with values in [0, 1]. The convolutions have no
    padding.
    """

    def __init__(self, layers: Sequence[Conv2d], image: Array) -> None:
        super().__init__(layers)
        self.image = image

    def __call__(self, enlarged: Array) -> Tensor:
        """Add the missing detail to enlarged images; return shape (n, height, width, channels).

        The input has a margin of one pixel per layer on each side, because the convolutions have no
        padding.
        """
        x = Tensor(enlarged - enlarged.dtype.type(0.5))
        for layer in self.layers[:-1]:
            x = ops.relu(layer(x))
        reach = len(self.layers) * (KERNEL_PX // 2)
        return ops.add(self.layers[-1](x), enlarged[:, reach:-reach, reach:-reach])

    @property
    def buffers(self) -> dict[str, Array]:
        """The image that is enlarged, which is saved with the weights."""
        return {"picture": self.image}

    def to(self, device: Device, dtype: str) -> Self:
        super().to(device, dtype)
        self.image = device.asarray(self.image, dtype=dtype)
        return self
