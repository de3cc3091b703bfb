"""Edges of an image, found by the Laplacian of a Gaussian.

Marr & Hildreth, "Theory of edge detection", Proceedings of the Royal Society B, 1980. The value is
negative on the light side of an edge and positive on its dark side. It is 0 on the edge, and in
regions where the light is constant or changes linearly.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from neuralfield.nn.convolution import conv2d
from neuralfield.nn.tensor import Tensor
from neuralfield.system.errors import ConfigError

LAPLACIAN = np.array([[0, 1, 0], [1, -4, 1], [0, 1, 0]], np.float32)
"""Sum of the second differences along both axes."""

BAND_VALUES = 1 << 20
"""Maximum number of values in a band, unless it is a single row."""

_REACH_SIGMAS = 4

GreyRows = Callable[[int, int], np.ndarray]
"""Function (top, bottom) -> rows of a grey image; float32, shape (bottom - top, width)."""


@dataclass(frozen=True)
class EdgeFilter:
    """A Gaussian followed by a Laplacian; pixels at the border are repeated beyond it.

    The Gaussian is applied along the columns and then along the rows, which is faster than its
    two-dimensional kernel and gives the same result. Raises `ConfigError` if `sigma_px` is not
    above 0 or `kernel_size` is not odd.
    """

    sigma_px: float  # standard deviation of the Gaussian, which smooths away finer detail
    kernel_size: int | None = None
    """Size of the Gaussian in pixels, an odd number; None: all pixels within four sigmas, as in
    `scipy.ndimage.gaussian_filter`."""

    def __post_init__(self) -> None:
        if not 0 < self.sigma_px < math.inf:
            raise ConfigError("edges: sigma", self.sigma_px, "a number of pixels > 0")
        if self.kernel_size is not None and not (self.kernel_size > 0 and self.kernel_size % 2):
            raise ConfigError("edges: kernel_size", self.kernel_size, "an odd number of pixels")

    @property
    def radius(self) -> int:
        """The radius of the Gaussian in pixels."""
        if self.kernel_size is None:
            return int(_REACH_SIGMAS * self.sigma_px + 0.5)
        return self.kernel_size // 2

    @cached_property
    def gaussian(self) -> np.ndarray:
        """The Gaussian along one axis; float64, shape (2 radius + 1,), with a sum of 1."""
        offset = np.arange(-self.radius, self.radius + 1)
        weights = np.exp(-0.5 * (offset / self.sigma_px) ** 2)
        return weights / weights.sum()

    @property
    def step_response(self) -> float:
        """The largest value next to a straight axis-aligned edge between black and white."""
        return float(np.abs(np.diff(self.gaussian, prepend=0, append=0)).max())

    def bands(self, rows: GreyRows, height: int, width: int) -> Iterator[np.ndarray]:
        """Yield float32 values of an image from top to bottom, in bands of shape (rows, width).

        `rows` is called with the range of a band, extended by the radius of the kernels; `height`
        and `width` are in px.
        """
        count = max(1, BAND_VALUES // width)
        for top in range(0, height, count):
            yield self._band(rows, height, top, min(top + count, height))

    def _band(self, rows: GreyRows, height: int, top: int, bottom: int) -> np.ndarray:
        # the Laplacian needs one more smoothed row above and below, except at the image's border
        first, last = max(top - 1, 0), min(bottom + 1, height)
        above, below = max(first - self.radius, 0), min(last + self.radius, height)
        beyond = (self.radius - (first - above), self.radius - (below - last))
        light = np.pad(rows(above, below), (beyond, (self.radius, self.radius)), mode="edge")
        along = self.gaussian.astype(np.float32)
        smooth = _correlated(_correlated(light, along[:, None]), along[None, :])
        beyond = (int(first == top), int(last == bottom))
        return _correlated(np.pad(smooth, (beyond, (1, 1)), mode="edge"), LAPLACIAN)

    def levels(self, values: np.ndarray) -> np.ndarray:
        """Convert signed values to light: 1/2 + value / (2 `step_response`), clipped to [0, 1].

        0 becomes middle grey, and a straight edge between black and white becomes black on its
        light side and white on its dark side. The scale is the same for all images.
        """
        return np.clip(0.5 + values / np.float32(2 * self.step_response), 0, 1)


def _correlated(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Correlate without padding: (height, width) -> (height - kernel height + 1, ...)."""
    image = Tensor(np.ascontiguousarray(values)[None, :, :, None])
    return conv2d(image, Tensor(kernel[:, :, None, None])).data[0, :, :, 0]
