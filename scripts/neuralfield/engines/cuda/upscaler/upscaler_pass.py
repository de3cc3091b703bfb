"""The pass of upscalers: forward, loss and backward of a step's crops, layer by layer."""

from collections.abc import Sequence

from neuralfield.engines.cuda.buffers import PartialGradient, Pass
from neuralfield.engines.cuda.convolution.convolution_layers import ConvolutionLayers
from neuralfield.engines.cuda.convolution.convolution_plan import ConvolutionShape
from neuralfield.engines.cuda.launch import THREADS, Launch, gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.cuda.upscaler.sampling import CropSampling
from neuralfield.system.device import Array, Device
from neuralfield.tasks.upscaler.upscaler_objective import UpscalerObjective, crop_side


class UpscalerPass(Pass):
    """The forward pass, loss and backward pass of the crops that the stage `sampling` fills in."""

    name = "upscaler"

    def __init__(
        self,
        device: Device,
        objective: UpscalerObjective,
        shapes: Sequence[ConvolutionShape],
        parameters: Array,
        sampling: CropSampling,
    ) -> None:
        super().__init__(device)
        batch, targets = objective.batches.size, sampling.targets
        self._layers = ConvolutionLayers(
            device, shapes, batch, parameters, sampling.inputs, is_spread=True
        )
        self._parts.append(self._layers)
        multiprocessors, _ = gpu_limits(device)
        blocks = min(-(-targets.size // THREADS), multiprocessors)
        self.loss_partials = self._zeros((blocks, 2), "float64")
        constants = {
            "LOSS": objective.loss.upper(),
            "HUBER_DELTA": float(objective.huber_delta),
            "COUNT": targets.size,
            "THREADS": THREADS,
        }
        kernel = compile_kernel("upscaler/crop_loss.cu", "crop_loss", constants)
        arguments = (self._layers.values, targets, self._layers.gradients, self.loss_partials)
        loss = Launch(kernel, (blocks,), arguments)
        self._launches += [*self._layers.forward, loss, *self._layers.backward]

    def partial_gradients(self) -> list[PartialGradient]:
        return self._layers.partial_gradients()


def layer_shapes(objective: UpscalerObjective) -> list[ConvolutionShape]:
    """List a network's convolutions, with their sizes for crops with the pixels around them."""
    layers, shapes = objective.network.layers, []
    side = crop_side(objective.settings, objective.values) + 2 * objective.settings.reach_px
    for layer in layers:
        kernel, _, channels_in, channels_out = layer.weight.shape
        is_hidden = layer is not layers[-1]
        sizes = (channels_in, side, side, channels_out, kernel)
        shapes.append(
            ConvolutionShape(*sizes, padding=0, pool=1, is_last=False, has_relu=is_hidden)
        )
        side -= kernel - 1
    return shapes


def batch_bytes(shapes: Sequence[ConvolutionShape], batch: int) -> int:
    """Count the bytes that a batch needs, except for parts of gradients."""
    first, last = shapes[0], shapes[-1]
    inputs = first.channels_in * first.height * first.width
    # values and gradients of float32, and places of the pooling in 16 bits
    values = sum(10 * shape.values_out for shape in shapes)
    return batch * (4 * (inputs + last.values_out) + values)
