"""Edges: where the light of a picture bends, found by the Laplacian of a Gaussian.

Marr & Hildreth, "Theory of edge detection", Proceedings of the Royal Society B, 1980. The value is
negative on the light side of an edge, positive on its dark side, and 0 on it and where the light
is even or changes evenly.
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
"""Second differences along both axes, added up."""

BAND_VALUES = 1 << 20
"""Values of a band at the most, if it is not a single row."""

_REACH_SIGMAS = 4

GreyRows = Callable[[int, int], np.ndarray]
"""(top, bottom) -> those rows of a grey picture; float32, shape (bottom - top, width)."""


@dataclass(frozen=True)
class EdgeFilter:
    """A Gaussian, then a Laplacian, both with the border's pixels repeated beyond it.

    The Gaussian is applied along the columns and then along the rows, which is the same as its
    square kernel in one, and quicker.

    Attributes
    ----------
    sigma_px : float
        Standard deviation of the Gaussian: finer detail than about this is smoothed away.
    kernel_size : int, optional
        Odd number of pixels that the Gaussian is cut off to; None: all within four sigmas, as
        `scipy.ndimage.gaussian_filter` has it.

    Raises
    ------
    ConfigError
        A sigma that is not above 0, or a size that is not odd.
    """

    sigma_px: float
    kernel_size: int | None = None

    def __post_init__(self) -> None:
        if not 0 < self.sigma_px < math.inf:
            raise ConfigError("edges: sigma", self.sigma_px, "a number of pixels > 0")
        if self.kernel_size is not None and not (self.kernel_size > 0 and self.kernel_size % 2):
            raise ConfigError("edges: kernel_size", self.kernel_size, "an odd number of pixels")

    @property
    def radius(self) -> int:
        """Pixels that the Gaussian reaches to each side."""
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
        """The largest value beside a straight edge between black and white, along an axis."""
        return float(np.abs(np.diff(self.gaussian, prepend=0, append=0)).max())

    def bands(self, rows: GreyRows, height: int, width: int) -> Iterator[np.ndarray]:
        """The values of a picture from top to bottom, some rows at a time.

        Parameters
        ----------
        rows : callable
            Asked for a band's rows and those that its kernels reach.
        height, width : int
            Of the picture, in px.

        Yields
        ------
        ndarray of float32, shape (any, width)
        """
        count = max(1, BAND_VALUES // width)
        for top in range(0, height, count):
            yield self._band(rows, height, top, min(top + count, height))

    def _band(self, rows: GreyRows, height: int, top: int, bottom: int) -> np.ndarray:
        # the Laplacian sees one smooth row more to each side, where there is one
        first, last = max(top - 1, 0), min(bottom + 1, height)
        above, below = max(first - self.radius, 0), min(last + self.radius, height)
        beyond = (self.radius - (first - above), self.radius - (below - last))
        light = np.pad(rows(above, below), (beyond, (self.radius, self.radius)), mode="edge")
        along = self.gaussian.astype(np.float32)
        smooth = _correlated(_correlated(light, along[:, None]), along[None, :])
        beyond = (int(first == top), int(last == bottom))
        return _correlated(np.pad(smooth, (beyond, (1, 1)), mode="edge"), LAPLACIAN)

    def levels(self, values: np.ndarray) -> np.ndarray:
        """Signed values as light: 1/2 + value / (2 `step_response`), cut off at 0 and 1.

        So 0 is middle grey, and a straight edge between black and white is black on its light side
        and white on its dark side. The same value is the same grey in every picture.
        """
        return np.clip(0.5 + values / np.float32(2 * self.step_response), 0, 1)


def _correlated(values: np.ndarray, kernel: np.ndarray) -> np.ndarray:
    """Where the kernel lies inside: (height, width) -> (height - kernel height + 1, ...)."""
    picture = Tensor(np.ascontiguousarray(values)[None, :, :, None])
    return conv2d(picture, Tensor(kernel[:, :, None, None])).data[0, :, :, 0]
