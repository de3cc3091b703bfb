"""The function of position that a network is: its values and derivatives."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from neuralfield.api.arguments import positions_on_device, render_sides
from neuralfield.api.derivatives import derivatives
from neuralfield.fields import CoordinateNetwork, describe_field
from neuralfield.images.coordinates import WHOLE, Box, axis_centres, extent, grid
from neuralfield.system.device import Array, Device
from neuralfield.tasks.image.image_model import Model

_BLOCK_POINTS = {"cpu": 1 << 12, "gpu": 1 << 18}


class ImageFunction:
    """The function of position that the network of an image is; see `ImageField`."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._networks: dict[tuple[str, str], Any] = {}

    @property
    def width(self) -> int:
        """Width of the training image in pixels."""
        return self.model.width

    @property
    def height(self) -> int:
        """Height of the training image in pixels."""
        return self.model.height

    @property
    def channels(self) -> int:
        """Number of values at each position: 1 for grey, 3 for RGB, 4 for RGB with alpha."""
        return self.model.channels

    @property
    def settings(self) -> dict[str, Any]:
        """All settings of the network, with its ``type``."""
        return describe_field(self.model.settings)

    @property
    def parameter_count(self) -> int:
        """The number of trainable parameters."""
        return self.model.parameter_count

    def coordinates(
        self, size: int | Sequence[int] | None = None, *, box: Box = WHOLE
    ) -> np.ndarray:
        """Return the positions of the pixel centres of a render.

        Parameters
        ----------
        size, box
            As in `render`.

        Returns
        -------
        ndarray of float64, shape (height, width, 2)
        """
        width, height = render_sides(self.model, size, box)
        half_width, half_height = extent(self.width, self.height)
        columns = axis_centres(np, width, half_width, box[0], box[2])
        rows = axis_centres(np, height, half_height, box[1], box[3])
        return grid(columns, rows).reshape(height, width, 2)

    def __call__(self, xy: Any) -> Array:
        """Return the network's values at positions.

        The `residual`, which `render` adds if the field has one, is not included.

        Parameters
        ----------
        xy : array, shape (..., 2)
            A NumPy or CuPy array, or anything that `numpy.asarray` accepts.

        Returns
        -------
        array, shape (..., channels)
            An array of the same library as `xy`, in the precision of the training. Values are not
            clipped: they may lie slightly outside [0, 1].

        Raises
        ------
        ValueError
            The last axis does not have length 2, or `xy` contains NaN or infinity.
        TypeError
            `xy` is not numeric.
        """
        return self._evaluated(xy, self.model.dtype, lambda network, at: network(at).data)

    def gradient(self, xy: Any) -> Array:
        """Return the derivatives of the values with respect to x and y, in float64.

        They are exact derivatives of the network, not finite differences. Lengths are in the units
        of `xy`: half the longer side of the image.

        Parameters
        ----------
        xy : array, shape (..., 2)

        Returns
        -------
        array, shape (..., channels, 2)

        Raises
        ------
        ValueError, TypeError
            As for a call.
        """
        return self._evaluated(xy, "float64", lambda network, at: derivatives(network, at)[0], 2)

    def laplacian(self, xy: Any) -> Array:
        """Return the Laplacian: the sum of the second derivatives by x and y, in float64.

        It is 0 almost everywhere for networks whose values are linear in x and in y between edges
        and kinks: hashgrid, and mlp with relu.

        Parameters
        ----------
        xy : array, shape (..., 2)

        Returns
        -------
        array, shape (..., channels)

        Raises
        ------
        ValueError, TypeError
            As for a call.
        """
        return self._evaluated(
            xy, "float64", lambda network, at: derivatives(network, at)[1].sum(axis=-1)
        )

    def _evaluated(
        self, xy: Any, dtype: str, function: Callable[[CoordinateNetwork, Array], Array], *axes: int
    ) -> Array:
        """Apply a function of the network and of positions to blocks of positions.

        The result has the shape (..., channels, *axes).
        """
        points, device = positions_on_device(xy, dtype)
        network, flat = self._network(device, dtype), points.reshape(-1, 2)
        values = device.xp.empty((len(flat), self.channels, *axes), dtype)
        size = _BLOCK_POINTS[device.kind]
        for start in range(0, len(flat), size):
            rows = slice(start, start + size)
            values[rows] = function(network, flat[rows])
        return values.reshape(*points.shape[:-1], self.channels, *axes)

    def _network(self, device: Device, dtype: str) -> CoordinateNetwork:
        """Return the network on a device; it is created once per device and precision."""
        key = device.kind, dtype
        if key not in self._networks:
            self._networks[key] = self.model.network(device, dtype)
        return self._networks[key]
