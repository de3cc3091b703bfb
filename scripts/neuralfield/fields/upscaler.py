"""Zero-shot upscaling: a network that learns, from a picture alone, how that picture is enlarged
(Shocher, Cohen & Irani, "Zero-shot super-resolution using deep internal learning", CVPR 2018)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, Self

import numpy as np

from neuralfield.images.image import PictureShape
from neuralfield.nn import ops
from neuralfield.nn.layers import Conv2d, he_weights, make_conv2d
from neuralfield.nn.network import Network
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.system.errors import ConfigError
from neuralfield.system.setting_checks import require_whole

KERNEL_PX = 3


@dataclass(frozen=True)
class Upscaler:
    """Convolutions of 3 x 3 with relu, the last one without, added to an enlarged picture.

    Attributes
    ----------
    factor : int
        By which the picture is reduced to learn from, and enlarged at a time.
    hidden_layers : int
        Convolutions before the last one.
    channels : int
        Of each of them.
    crop : int
        Side of the squares that are looked at in a step, in px.
    ensemble : bool
        Whether what is drawn is the mean over the eight ways to flip and turn the picture.
    """

    suggested_learning_rate: ClassVar[float] = 1e-3

    factor: int = 2
    hidden_layers: int = 4
    channels: int = 32
    crop: int = 32
    ensemble: bool = False

    def __post_init__(self) -> None:
        require_whole(self, "factor", at_least=2, at_most=4)
        require_whole(self, "hidden_layers", at_least=0)
        require_whole(self, "channels", "crop", at_least=1)
        if not isinstance(self.ensemble, bool):
            raise ConfigError("fields: ensemble", repr(self.ensemble), "true or false")

    @property
    def reach_px(self) -> int:
        """How far from a pixel the network sees."""
        return (self.hidden_layers + 1) * (KERNEL_PX // 2)

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Values in and out of each convolution's windows, and the picture that is enlarged."""
        channels = [shape.channels, *[self.channels] * self.hidden_layers, shape.channels]
        layers = [(KERNEL_PX**2 * into, out) for into, out in pairwise(channels)]
        return [*layers, (shape.width * shape.height, shape.channels)]

    def build(self, shape: PictureShape, generator: np.random.Generator) -> "UpscalingNetwork":
        """A network with fresh weights that adds nothing yet, and without its picture."""
        kernel = (KERNEL_PX, KERNEL_PX)
        sizes = [shape.channels, *[self.channels] * self.hidden_layers, shape.channels]
        layers = [
            make_conv2d(kernel, into, out, he_weights, generator) for into, out in pairwise(sizes)
        ]
        for tensor in layers[-1].parameters.values():
            tensor.data[...] = 0
        picture = np.zeros((shape.height, shape.width, shape.channels))
        return UpscalingNetwork(layers, picture)


class UpscalingNetwork(Network[Conv2d]):
    """What enlarged pictures lack, and the picture that it was taught.

    Parameters
    ----------
    layers : sequence of Conv2d
        Without padding.
    picture : array, shape (height, width, channels)
        Values in [0, 1].
    """

    def __init__(self, layers: Sequence[Conv2d], picture: Array) -> None:
        super().__init__(layers)
        self.picture = picture

    def __call__(self, enlarged: Array) -> Tensor:
        """Pictures with what the enlarging left out.

        Parameters
        ----------
        enlarged : array, shape (n, height + 2 r, width + 2 r, channels)
            With r pixels around, as far as the network reaches.

        Returns
        -------
        Tensor, shape (n, height, width, channels)
        """
        x = Tensor(enlarged - enlarged.dtype.type(0.5))
        for layer in self.layers[:-1]:
            x = ops.relu(layer(x))
        reach = len(self.layers) * (KERNEL_PX // 2)
        return ops.add(self.layers[-1](x), enlarged[:, reach:-reach, reach:-reach])

    @property
    def buffers(self) -> dict[str, Array]:
        """The picture: there is nothing to enlarge without it."""
        return {"picture": self.picture}

    def to(self, device: Device, dtype: str) -> Self:
        """This network on a device, in a precision; in place."""
        super().to(device, dtype)
        self.picture = device.asarray(self.picture, dtype=dtype)
        return self


def with_light(values: np.ndarray) -> np.ndarray:
    """Colour multiplied by alpha, so that what is hidden does not bleed into what is seen.

    Parameters
    ----------
    values : ndarray, shape (height, width, channels)
        Without alpha they are returned as they are.
    """
    if values.shape[2] < 4:
        return values
    return np.concatenate([values[..., :3] * values[..., 3:], values[..., 3:]], axis=2)


def without_light(values: np.ndarray) -> np.ndarray:
    """The inverse of `with_light`; black where nothing is seen. In [0, 1]."""
    values = np.clip(values, 0, 1)
    if values.shape[2] < 4:
        return values
    alpha = values[..., 3:]
    colour = np.divide(values[..., :3], alpha, out=np.zeros_like(values[..., :3]), where=alpha > 0)
    return np.concatenate([np.minimum(colour, 1), alpha], axis=2)
