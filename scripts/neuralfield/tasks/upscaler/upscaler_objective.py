"""The objective of fitting an upscaler: crops of an image, and of its reduced version."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.fields.upscaler import Upscaler, UpscalingNetwork
from neuralfield.images.metrics import as_seen
from neuralfield.images.resizing import resize_channel
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device, to_host
from neuralfield.system.random_streams import STREAM_CROP, philox, uniform
from neuralfield.tasks.task import Objective

ENLARGING = "lanczos"
"""Filter of the enlargement that the network corrects."""

_BLOCK_CROPS = {"cpu": 1, "gpu": 32}


@dataclass(frozen=True, kw_only=True)
class UpscalerObjective(Objective):
    """The objective of fitting an upscaler to an image."""

    network: UpscalingNetwork
    settings: Upscaler
    values: np.ndarray  # float32, shape (height, width, channels); the image
    random_seed: int

    @cached_property
    def data(self) -> "Crops":
        given = (self.settings, self.values, self.random_seed)
        return Crops(*given, self.device, self.dtype)

    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        enlarged, target = self.data.of_step(samples, step)
        values = self.network(enlarged)
        count = batch_size * target[0].size
        return self.loss_of(values, target, count), ((values.data - target) ** 2).sum() / count

    @property
    def block_samples(self) -> int:
        return _BLOCK_CROPS[self.device.kind]

    @property
    def sample_bytes(self) -> int:
        """The bytes of the image and its copies, divided by the crops of a step."""
        return 3 * self.itemsize * self.values.size // self.batches.sample_count

    @property
    def working_values(self) -> int:
        side = self.settings.crop + 2 * self.settings.reach_px
        return side**2 * (self.settings.hidden_layers + 1) * self.settings.channels


class Crops:
    """Random square crops of an image, and of the image after it is reduced and enlarged again.

    The image is reduced with the exact box filter, and enlarged to its original size; the network
    is trained to reconstruct the image from it. `light` is the image, shape (height, width,
    channels); `enlarged` is the reduced and enlarged image with a margin of `reach` pixels; `side`
    is the side of a crop in pixels.
    """

    def __init__(
        self, settings: Upscaler, values: np.ndarray, random_seed: int, device: Device, dtype: str
    ) -> None:
        self._xp, self._random_seed = device.xp, random_seed
        self.reach = settings.reach_px
        self.side = crop_side(settings, values)
        self._places = [side - self.side + 1 for side in values.shape[:2]]
        light, around = as_seen(values), (self.reach, self.reach)
        enlarged = reduced_and_enlarged(light, settings.factor)
        padded = np.pad(enlarged, (around, around, (0, 0)), mode="edge")
        self.enlarged = device.asarray(padded, dtype=dtype)
        self.light = device.asarray(light, dtype=dtype)

    def of_step(self, samples: Array, step: int) -> tuple[Array, Array]:
        """Return the crops of a step with the indices `samples`.

        Their positions and orientations are random, and depend only on seed, step and index.
        Returns crops of `enlarged`, shape (n, side + 2 reach, side + 2 reach, channels), and of
        `light`, shape (n, side, side, channels).
        """
        words = philox(np, (to_host(samples), 0, step, STREAM_CROP), self._random_seed)
        seen, inputs, targets = self.side + 2 * self.reach, [], []
        crops = np.stack([uniform(word) for word in words[:3]], axis=1) * (*self._places, 8)
        for top, left, symmetry in crops.astype(np.int64).tolist():
            square = self.enlarged[top : top + seen, left : left + seen]
            inputs.append(turned(square, symmetry))
            square = self.light[top : top + self.side, left : left + self.side]
            targets.append(turned(square, symmetry))
        return self._xp.stack(inputs), self._xp.stack(targets)


def crop_side(settings: Upscaler, values: np.ndarray) -> int:
    """Return the side of a crop in pixels: that of the settings, or less for a small image."""
    return min(settings.crop, *values.shape[:2])


def reduced_and_enlarged(light: np.ndarray, factor: int) -> np.ndarray:
    """Reduce an image by `factor`, and enlarge it to its original size, so that detail is lost."""
    height, width, _ = light.shape
    small = resized(light, (max(1, width // factor), max(1, height // factor)), "box")
    return resized(small, (width, height), ENLARGING)


def resized(
    light: np.ndarray,
    size_px: tuple[int, int],
    filter: str,
    window: tuple[float, float, float, float] | None = None,
) -> np.ndarray:
    """Resize each channel with `neuralfield.images.resizing.resize_channel`."""
    channels = (np.ascontiguousarray(light[..., c]) for c in range(light.shape[2]))
    return np.stack([resize_channel(c, size_px, filter, window) for c in channels], axis=2)


def turned(square: Array, symmetry: int) -> Array:
    """Apply one of the eight symmetries of a square to an array (height, width, channels)."""
    if symmetry & 1:
        square = square.swapaxes(0, 1)
    if symmetry & 2:
        square = square[::-1]
    return square[:, ::-1] if symmetry & 4 else square


def turned_back(square: Array, symmetry: int) -> Array:
    """Invert `turned`."""
    if symmetry & 4:
        square = square[:, ::-1]
    if symmetry & 2:
        square = square[::-1]
    return square.swapaxes(0, 1) if symmetry & 1 else square
