"""Images rendered by this package in blocks, without a copy to the host."""

from typing import Any

import numpy as np

from neuralfield.images.coordinates import axis_centres, extent, grid
from neuralfield.rendering import make_renderer
from neuralfield.rendering.render import BAND_POINTS
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.image.image_model import Model

_CENTRE = np.zeros((1, 2))
"""The offset of the only sample of a pixel, its centre."""

_CHECKED_ROWS = 8


class DeviceRendering:
    """A square image rendered as for a file; a call renders it a given number of times."""

    def __init__(self, model: Model, side_px: int, device: Device, threads: int) -> None:
        self._model, self._device = model, device
        self._renderer = make_renderer(model, device, threads)
        self._centre = device.asarray(_CENTRE)
        self._columns, self._rows = (
            axis_centres(device.xp, side_px, half_side)
            for half_side in extent(model.width, model.height)
        )
        self._rows_per_block = max(1, BAND_POINTS[device.kind] // side_px)

    def __call__(self, images: int) -> None:
        for _ in range(images):
            for top in range(0, len(self._rows), self._rows_per_block):
                self._render(top)

    def error(self) -> float:
        """Return the error of the first rows against float64, relative to their spread."""
        network = self._model.network(self._device, "float64")
        exact = to_host(network(grid(self._columns, self._rows[:_CHECKED_ROWS])).data)
        exact = np.clip(exact, 0, 1)
        found = np.clip(to_host(self._render(0))[: len(exact)], 0, 1)
        return float(np.linalg.norm(found - exact) / np.linalg.norm(exact - exact.mean()))

    def _render(self, top: int) -> Any:
        rows = self._rows[top : top + self._rows_per_block]
        return self._renderer.pixels(self._columns, rows, self._centre)[0]
