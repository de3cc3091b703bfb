"""Part `drawing`: the pixels per second of rendering a large image."""

from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, Protocol

import numpy as np

from measuring.context import Context
from measuring.measure import time_calls
from measuring.ours import release_memory
from measuring.rows import (
    FREQUENCY_4X64,
    SIREN,
    reduced_field,
    rendering_bytes,
    rendering_multiply_adds,
)
from neuralfield.fields import CoordinateNetwork, ImageShape, build_field, field_settings
from neuralfield.images.coordinates import axis_centres, extent, grid
from neuralfield.rendering import make_renderer
from neuralfield.rendering.render import BAND_POINTS, render_bands
from neuralfield.system.device import Device, to_host
from neuralfield.tasks.image.image_model import Model

_SHAPE = ImageShape(768, 512, 3)
_FIELDS = {"siren 3x256, rgb": SIREN, "fourier 4x64, rgb": FREQUENCY_4X64}
_ROWS_PER_BLOCK, _QUICK_ROWS_PER_BLOCK = 128, 16
_QUICK_WIDTH_PX = 96
_CHECKED_ROWS = 8
_CENTRE = np.zeros((1, 2))
"""The offset of the only sample of a pixel, its centre."""

_TO_HOST, _BIT_DEPTH = "ours, to the host", 8
_ERROR_LIMIT = 2e-2
"""Maximum error of correctly rendered values, relative to their spread."""


class _Rendering(Protocol):
    """A callable that renders an image a given number of times, and returns its first rows."""

    def __call__(self, images: int) -> None: ...

    def first_block(self) -> np.ndarray:
        """Return the values of the first rows, shape (points, channels)."""
        ...


class DeviceRendering:
    """An image rendered by this package in blocks, as for a file, without a copy to the host."""

    def __init__(
        self, model: Model, size_px: tuple[int, int], device: Device, threads: int = 1
    ) -> None:
        self._renderer, self._centre = (
            make_renderer(model, device, threads),
            device.asarray(_CENTRE),
        )
        self._columns, self._rows = _axes(model, size_px, device)
        self._rows_per_block = max(1, BAND_POINTS[device.kind] // size_px[0])

    def __call__(self, images: int) -> None:
        for _ in range(images):
            for top in range(0, len(self._rows), self._rows_per_block):
                self._render(top)

    def first_block(self) -> np.ndarray:
        """Return the values of the first rows, shape (points, channels)."""
        return to_host(self._render(0))

    def _render(self, top: int) -> Any:
        rows = self._rows[top : top + self._rows_per_block]
        return self._renderer.pixels(self._columns, rows, self._centre)[0]


class HostRendering:
    """An image rendered by this package as for a file: in bands, rounded to levels, on the host."""

    def __init__(self, model: Model, size_px: tuple[int, int], device: Device) -> None:
        self._bands = partial(
            render_bands, model, *size_px, device=device, samples=1, bit_depth=_BIT_DEPTH
        )

    def __call__(self, images: int) -> None:
        for _ in range(images):
            for _ in self._bands():
                pass

    def first_block(self) -> np.ndarray:
        """Return the values of the first rows, clipped and rounded, shape (points, channels)."""
        with closing(self._bands()) as bands:
            band = next(bands)
            return band.reshape(-1, band.shape[2]) / np.float32(2**_BIT_DEPTH - 1)


def measure_rendering(context: Context, width_px: int) -> None:
    """Measure rendering with random weights, at nearly the proportions of 768x512."""
    width_px = _QUICK_WIDTH_PX if context.quick else width_px
    rows_per_block = _QUICK_ROWS_PER_BLOCK if context.quick else _ROWS_PER_BLOCK
    blocks = max(1, round(width_px * _SHAPE.height / _SHAPE.width / rows_per_block))
    size_px = (width_px, blocks * rows_per_block)
    report, deadline = context.report, context.deadline
    for name, field in _FIELDS.items():
        settings = field_settings(reduced_field(field) if context.quick else field)
        arrays, record = build_field(settings, _SHAPE).arrays, {"precision": "mixed"}
        model = Model(settings, _SHAPE, "rgb", arrays, record)
        row = f"{name}, {size_px[0]}x{size_px[1]}"
        make: dict[str, Callable[[], _Rendering]] = {
            "ours, on the device": partial(DeviceRendering, model, size_px, context.device),
            _TO_HOST: partial(HostRendering, model, size_px, context.device),
        }
        for peer in context.peers():
            make[peer.name] = partial(
                _torch_rendering, model, size_px, rows_per_block, context.device, peer
            )
        report.attempt("drawing", row, "ceiling", deadline, partial(_ceiling, model, context))
        for system, make_rendering in make.items():
            rounding = 0.5 / (2**_BIT_DEPTH - 1) if system == _TO_HOST else 0.0
            measure = partial(rendering_rate, model, make_rendering, size_px, context, rounding)
            report.attempt("drawing", row, system, deadline, measure)
            if system.startswith("ours"):
                error = report.entries[-1].get("relative_error", 0.0)
                report.require(error <= _ERROR_LIMIT, f"{row}, {system}: off by {error:.2g}")
    report.add_table("drawing", "gigapixels_per_s", "gigapixels a second")
    report.add_table("drawing", "relative_error", "error of rendered values over their spread")


def rendering_rate(
    model: Model,
    make: Callable[[], _Rendering],
    size_px: tuple[int, int],
    context: Context,
    rounding: float = 0.0,
) -> dict[str, Any]:
    """Render once and compare with float64; then time whole images.

    Differences of up to `rounding`, which is half a level, do not count as errors.
    """
    rendering = make()
    rendering(1)
    exact = _exact_values(model, size_px, context.device)
    found = np.clip(rendering.first_block()[: len(exact)], 0, 1)
    unexplained = np.maximum(np.abs(found - exact) - rounding, 0)
    error = float(np.linalg.norm(unexplained) / np.linalg.norm(exact - exact.mean()))
    timing = time_calls(rendering, context.device, context.effort)
    del rendering
    release_memory(context.device)
    if context.peers():
        from torch_peers.fields import release_memory as release_memory_of_torch

        release_memory_of_torch()
    return {
        "gigapixels_per_s": 1e-9 * size_px[0] * size_px[1] / timing.median_s,
        "image_ms": 1e3 * timing.median_s,
        "lowest_ms": 1e3 * timing.lowest_s,
        "highest_ms": 1e3 * timing.highest_s,
        "samples": timing.samples,
        "relative_error": error,
    }


def _torch_rendering(
    model: Model, size_px: tuple[int, int], rows_per_block: int, device: Device, peer: Any
) -> _Rendering:
    from torch_peers.fields import TorchRendering

    return TorchRendering(_fresh_network(model), model.shape, size_px, rows_per_block, device, peer)


def _fresh_network(model: Model) -> CoordinateNetwork:
    network = build_field(model.settings, model.shape)
    assert isinstance(network, CoordinateNetwork)
    return network


def _ceiling(model: Model, context: Context) -> dict[str, Any]:
    network = _fresh_network(model)
    floor_s = context.ceilings.floor_s(rendering_multiply_adds(network), rendering_bytes(network))
    return {"gigapixels_per_s": 1e-9 / floor_s}


def _exact_values(model: Model, size_px: tuple[int, int], device: Device) -> np.ndarray:
    """Return the first rows in float64, clipped as for a file; shape (points, channels)."""
    columns, rows = _axes(model, size_px, device)
    values = model.network(device, "float64")(grid(columns, rows[:_CHECKED_ROWS]))
    return np.clip(to_host(values.data), 0, 1)


def _axes(model: Model, size_px: tuple[int, int], device: Device) -> tuple[Any, Any]:
    half_width, half_height = extent(model.width, model.height)
    columns = axis_centres(device.xp, size_px[0], half_width)
    return columns, axis_centres(device.xp, size_px[1], half_height)
