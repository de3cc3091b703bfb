"""Renderers of pixels: `render` asks for pixels and never knows which renderer it has."""

from typing import Protocol

import numpy as np

from neuralfield.engines.complex_layers import real_parameters
from neuralfield.engines.cpu import cpu_engine
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.engines.cuda.portable import layer_forward
from neuralfield.engines.plan import network_plan
from neuralfield.fields.upscaler import UpscalingNetwork
from neuralfield.rendering import hopper_renderer
from neuralfield.rendering.array_renderer import ArrayRenderer
from neuralfield.rendering.cpu_renderer import CpuRenderer
from neuralfield.rendering.hopper_renderer import HopperRenderer
from neuralfield.rendering.layer_values import LayerValues
from neuralfield.rendering.mosaic_renderer import MosaicRenderer
from neuralfield.rendering.portable_renderer import LayerPixels
from neuralfield.system.device import Array, Device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.mosaic import Mosaic, Trained


class Renderer(Protocol):
    """A network, ready to render pixels with."""

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        """Compute means and spreads of pixels, on the current stream.

        Parameters
        ----------
        columns : array of float64, shape (width,)
            x of the centre of each column of pixels.
        rows : array of float64, shape (height,)
            y of the centre of each row.
        offsets : array of float64, shape (samples, 2)
            Offsets of the samples from a pixel's centre.
        which : array of int, shape (n,), or None
            Numbers of the pixels to render, counted row by row; None: all of them.

        Returns
        -------
        means : array of float, shape (n, channels)
            Over the samples; not clipped.
        spreads : array of float, shape (n,)
            The largest difference between two samples of a pixel.
        """
        ...

    def close(self) -> None:
        """Release what is not memory."""
        ...


def make_renderer(model: Trained, device: Device, threads: int = 1) -> Renderer:
    """Make the fastest renderer for a model, in the precision of its training.

    Parameters
    ----------
    model : Model or Mosaic
    device : Device
    threads : int
        Cores to use, on the CPU.
    """
    if isinstance(model, Mosaic):
        mosaic = model
        return MosaicRenderer(
            mosaic, device, lambda tile: make_renderer(mosaic.load(tile), device, threads)
        )
    precision = model.metadata.get("precision")
    # weights trained in mixed precision are float32
    dtype = "float64" if precision == "float64" else "float32"
    network = model.network(device, dtype)
    if isinstance(network, UpscalingNetwork):
        found, expected = "an upscaler among the tiles of a mosaic", "networks of positions"
        raise ConfigError("model", found, expected, "train it on the whole image")
    plan = network_plan(network)
    if (
        device.kind == "cpu"
        and dtype == "float32"
        and cpu_engine.unsupported_network_reason(plan) is None
    ):
        return CpuRenderer(network, threads)
    capability = compute_capability(device) if device.kind == "gpu" else 0
    reason = plan.unsupported_reason() or layer_forward.unsupported_reason(plan, capability)
    if dtype == "float64" or reason is not None:
        return ArrayRenderer(network, device, dtype, threads)
    arrays = {name: tensor.data for name, tensor in network.parameters.items()}
    if plan.complex_tensors:
        arrays = real_parameters(plan.complex_tensors, arrays)
    parameters = device.xp.concatenate([array.ravel() for array in arrays.values()])
    starts = np.cumsum([0, *(array.size for array in arrays.values())]).tolist()
    offsets = dict(zip(arrays, starts, strict=False))
    frequencies = network.buffers.get("encoding.frequencies")
    arguments = (device, plan, parameters, offsets, frequencies)
    is_mixed = precision == "mixed"
    if is_mixed and hopper_renderer.unsupported_reason(plan, capability) is None:
        return HopperRenderer(*arguments, (model.width, model.height))
    layers = LayerValues(*arguments, "mixed" if is_mixed else "float32")
    return LayerPixels(device, layers, network.encoding)
