"""Evaluation and rendering of a field: the base class of `ImageField`, which adds exports."""

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.api.arguments import (
    positions_on_device,
    render_sides,
    require_bit_depth,
    require_png,
    require_samples,
)
from neuralfield.api.derivatives import derivatives
from neuralfield.api.errors import InvalidInputError, WrongTypeError, built_in_kinds
from neuralfield.api.rendered import RenderedImage
from neuralfield.api.training_image import training_image
from neuralfield.fields import CoordinateNetwork, Upscaler, describe_field
from neuralfield.images.coordinates import WHOLE, Box, axis_centres, extent, grid
from neuralfield.images.metrics import as_seen, psnr_db
from neuralfield.rendering.render import render, render_to_png
from neuralfield.system.device import Array, Device, available_cores, select_device
from neuralfield.tasks.image.image_model import Model
from neuralfield.training.history import History

_BLOCK_POINTS = {"cpu": 1 << 12, "gpu": 1 << 18}


class EvaluatedField:
    """Base class of `ImageField`, where the parameters are documented."""

    def __init__(
        self,
        model: Model,
        *,
        device: str = "auto",
        history: History | None = None,
        image: np.ndarray | None = None,
        checkpoints: Path | None = None,
        measured_db: float | None = None,
    ) -> None:
        self.model, self.device, self.history = model, device, history or {}
        self.image, self.checkpoints, self._measured_db = image, checkpoints, measured_db
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

    @property
    def residual(self) -> np.ndarray | None:
        """The image that `render` adds to the network's values; None if there is no such image.

        It is a float32 array of shape (k * height, k * width, channels), where height and width are
        those of the training image and k is a whole number.
        """
        return self.model.residual

    @cached_property
    def psnr(self) -> float | None:
        """The PSNR of a render with respect to the training image, in decibels.

        It is None if it is not known; pass the training image to `neuralfield.load` to compute it.
        """
        return self._measured_db if self.image is None else self._psnr(self.image)

    def psnr_to(self, image: Any) -> float:
        """Return the PSNR in decibels of a render with respect to an image of any size.

        The image is given as to `neuralfield.fit`; the render has the size of the image.

        Raises
        ------
        ValueError
            The image has a different number of channels than the field.
        """
        with built_in_kinds():
            return self._psnr(training_image(image).values)

    def _psnr(self, values: np.ndarray) -> float:
        height, width, channels = values.shape
        if channels != self.channels:
            found = f"an image of {channels} channel{'s' * (channels != 1)}"
            raise InvalidInputError("image", found, f"{self.channels}, as the field has")
        return psnr_db(as_seen(render(self.model, width, height, **self._place)), as_seen(values))

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
            The network is an upscaler, which has no values at positions; or `xy` is not numeric.
        """
        points, device = positions_on_device(xy)
        dtype = self.model.dtype
        network = self._network(device, dtype)
        flat = points.reshape(-1, 2).astype(dtype)
        values = device.xp.empty((len(flat), self.channels), dtype)
        for rows in _blocks(len(flat), device):
            values[rows] = network(flat[rows]).data
        return values.reshape(*points.shape[:-1], self.channels)

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
        return self._derivatives(xy)[0]

    def laplacian(self, xy: Any) -> Array:
        """Return the Laplacian: the sum of the second derivatives by x and y, in float64.

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
        return self._derivatives(xy)[1].sum(axis=-1)

    def _derivatives(self, xy: Any) -> tuple[Array, Array]:
        points, device = positions_on_device(xy)
        network = self._network(device, "float64")
        flat = points.reshape(-1, 2).astype("float64")
        found = device.xp.empty((2, len(flat), self.channels, 2))
        for rows in _blocks(len(flat), device):
            found[0, rows], found[1, rows] = derivatives(network, flat[rows])
        shape = (*points.shape[:-1], self.channels, 2)
        return found[0].reshape(shape), found[1].reshape(shape)

    def render(
        self,
        size: int | Sequence[int] | None = None,
        *,
        box: Box = WHOLE,
        samples: int | str = "auto",
        residual: bool = True,
        max_megapixels: float = 400.0,
    ) -> RenderedImage:
        """Render the image, or a part of it, at any size.

        Parameters
        ----------
        size : int or (int, int), optional
            The longer side in pixels, or (width, height). The default is the size that the box has
            in the training image.
        box : (left, top, right, bottom)
            The part to render, in fractions of the image's sides.
        samples : int or "auto"
            Number of samples per pixel; the value of a pixel is their mean.
        residual : bool
            Whether to add the field's `residual`, if it has one; otherwise only the network is
            rendered.
        max_megapixels : float
            Maximum size of the render; a larger one raises ValueError.

        Returns
        -------
        RenderedImage
            A float32 array in [0, 1], of shape (height, width) for grey and (height, width, 3 or 4)
            for colour.

        Raises
        ------
        ValueError
            The size is below 1 or too large, or the box is empty or outside the image.
        """
        with built_in_kinds():
            require_samples(samples)
            sides = render_sides(self.model, size, box, max_megapixels)
            values = render(self._shown(residual), *sides, box=box, samples=samples, **self._place)
        return (values[..., 0] if self.channels == 1 else values).view(RenderedImage)

    def render_to(
        self,
        path: str | os.PathLike,
        size: int | Sequence[int] | None = None,
        *,
        box: Box = WHOLE,
        samples: int | str = "auto",
        residual: bool = True,
        bit_depth: int = 8,
        max_megapixels: float = 400.0,
    ) -> tuple[int, int]:
        """Render to a PNG file of any size, holding only one band of it in memory at a time.

        Parameters
        ----------
        path : path
        size, box, samples, residual
            As in `render`.
        bit_depth : {8, 16}
            Bits per channel.
        max_megapixels : float
            Maximum size of the render; a larger one raises ValueError.

        Returns
        -------
        width, height : int
            In pixels.
        """
        with built_in_kinds():
            file = require_png("path", path)
            require_bit_depth(bit_depth)
            require_samples(samples)
            sides = render_sides(self.model, size, box, max_megapixels)
            options = self._place | {"box": box, "samples": samples, "bit_depth": bit_depth}
            render_to_png(self._shown(residual), file, *sides, **options)
        return sides

    def _shown(self, residual: bool) -> Model:
        return self.model if residual else replace(self.model, residual=None)

    @property
    def _place(self) -> dict[str, Any]:
        """The device and the number of CPU cores that compute renders."""
        return {"device": select_device(self.device), "threads": available_cores()}

    def _network(self, device: Device, dtype: str) -> CoordinateNetwork:
        """Return the network on a device; it is created once per device and precision."""
        if isinstance(self.model.settings, Upscaler):
            found, expected = "an upscaler, which cannot be evaluated at positions", "another field"
            raise WrongTypeError("field", found, expected, "use render")
        key = device.kind, dtype
        if key not in self._networks:
            self._networks[key] = self.model.network(device, dtype)
        return self._networks[key]


def _blocks(count: int, device: Device) -> list[slice]:
    size = _BLOCK_POINTS[device.kind]
    return [slice(start, start + size) for start in range(0, count, size)]
