"""Renderers of pixels, with one interface, so that `render` does not depend on their kind."""

from contextlib import suppress
from functools import partial
from typing import Protocol

import numpy as np

from neuralfield.engines.complex_layers import real_parameters
from neuralfield.engines.kernel_plan import NotCovered, network_plan
from neuralfield.fields import CoordinateNetwork
from neuralfield.rendering.array_renderer import ArrayRenderer
from neuralfield.rendering.corrected_renderer import CorrectedRenderer
from neuralfield.rendering.cpu_renderer import CpuRenderer, Workers
from neuralfield.rendering.mosaic_renderer import MosaicRenderer
from neuralfield.system.device import Array, Device
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import Mosaic, Trained


class Renderer(Protocol):
    """A network that is prepared for rendering pixels."""

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        """Compute means and spreads of pixels, on the current stream.

        `columns` and `rows` are x and y of the pixels' centres, and `offsets`, shape (samples, 2),
        are those of the samples from the centre; all are float64. `which` has the numbers of the
        pixels to render, counted row by row; None means all pixels. Return the means over the
        samples, shape (n, channels), not clipped, and the largest difference between two samples of
        each pixel, shape (n,).
        """
        ...

    def close(self) -> None:
        """Release all resources except memory."""
        ...


def make_renderer(model: Trained, device: Device, threads: int = 1) -> Renderer:
    """Make the fastest renderer for a model, in the precision of its training; `threads` is the
    number of cores to use on the CPU.
    """
    if not isinstance(model, Mosaic):
        return _of_model(model, device, threads)
    workers = Workers(threads)
    make = partial(_of_model, device=device, threads=threads, workers=workers)
    return MosaicRenderer(model, device, make, workers.pool)


def _of_model(
    model: Model, device: Device, threads: int, workers: Workers | None = None
) -> Renderer:
    renderer = _of_network(model, device, threads, workers)
    return renderer if model.residual is None else CorrectedRenderer(renderer, model, device)


def _of_network(model: Model, device: Device, threads: int, workers: Workers | None) -> Renderer:
    """Make a renderer of a network without a correction."""
    network = model.network(device, model.dtype)
    try:
        return _with_kernels(model, network, device, threads, workers)
    except NotCovered:
        return ArrayRenderer(network, device, model.dtype, threads)


def _with_kernels(
    model: Model,
    network: CoordinateNetwork,
    device: Device,
    threads: int,
    workers: Workers | None,
) -> Renderer:
    """Make a renderer with compiled kernels; raise `NotCovered` if there are none."""
    if model.dtype != "float32":
        raise NotCovered("kernels compute in float32")
    if device.kind == "cpu":
        return CpuRenderer(network, threads, workers)
    # imported here, because only jobs on a GPU need these many modules
    from neuralfield.engines.cuda.buffers import NetworkArrays
    from neuralfield.engines.cuda.launch import compute_capability
    from neuralfield.engines.cuda.portable.layer_forward import require_layer_kernels
    from neuralfield.rendering.fused_renderer import FusedRenderer
    from neuralfield.rendering.layer_values import LayerPixels, LayerValues

    plan, capability = network_plan(network), compute_capability(device)
    require_layer_kernels(plan, capability)
    tensors = {name: tensor.data for name, tensor in network.parameters.items()}
    if plan.complex_tensors:
        tensors = real_parameters(plan.complex_tensors, tensors)
    parameters = device.xp.concatenate([array.ravel() for array in tensors.values()])
    starts = np.cumsum([0, *(array.size for array in tensors.values())]).tolist()
    offsets = dict(zip(tensors, starts, strict=False))
    arrays = NetworkArrays(parameters, offsets, network.buffers.get("encoding.frequencies"))
    is_mixed = model.metadata.get("precision") == "mixed"
    if is_mixed:
        with suppress(NotCovered):
            return FusedRenderer(device, plan, arrays, (model.width, model.height))
    layers = LayerValues(device, plan, arrays, "mixed" if is_mixed else "float32")
    return LayerPixels(device, layers, network.encoding)
