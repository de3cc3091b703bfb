"""The cuda engine for upscalers: the convolutions of classifiers with other stages."""

from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.buffers import PartialGradient, Pass
from neuralfield.engines.cuda.convolution import convolution_plan
from neuralfield.engines.cuda.convolution.convolution_layers import ConvolutionLayers
from neuralfield.engines.cuda.convolution.convolution_plan import ConvolutionShape
from neuralfield.engines.cuda.launch import THREADS, Launch, gpu_limits
from neuralfield.engines.cuda.recorded_engine import (
    RecordedEngine,
    Stages,
    made_in_memory,
    not_covered,
)
from neuralfield.engines.cuda.recorded_steps import named_range
from neuralfield.engines.cuda.source import compile_kernel, compiled_together
from neuralfield.engines.cuda.stages.update import UpdateStage
from neuralfield.engines.flat_arrays import flatten_parameters
from neuralfield.nn.optimizers import Muon, unclipped
from neuralfield.system.device import Array, Device
from neuralfield.tasks.upscaler.upscaler_objective import UpscalerObjective, crop_side

_REMEDY = "use smaller batches (training: batch_pixels) or smaller crops (fields: crop)"


class CropSampling:
    """Fills inputs and targets for the step whose number is in the GPU's memory.

    `inputs` has shape (crops, channels, side, side), including the pixels around the crops.
    `targets` does not include these pixels, and has the values that a network should add to each
    crop.
    """

    is_constant = False

    def __init__(self, device: Device, objective: UpscalerObjective, step: Array) -> None:
        xp, crops = device.xp, objective.data
        batch, (height, width, channels) = objective.batches.size, crops.light.shape
        seen = crops.side + 2 * crops.reach
        self.inputs = xp.zeros((batch, channels, seen, seen), dtype="float32")
        self.targets = xp.zeros((batch, channels, crops.side, crops.side), dtype="float32")
        self._images = crops.enlarged, crops.light
        constants = {
            "BATCH": batch,
            "CHANNELS": channels,
            "HEIGHT": height,
            "WIDTH": width,
            "SIDE": crops.side,
            "REACH": crops.reach,
            "SEED": f"{objective.random_seed}ull",
            "THREADS": THREADS,
        }
        kernel = compile_kernel("upscaler/sample_crops.cu", "sample_crops", constants)
        blocks = -(-(self.inputs.size + self.targets.size) // THREADS)
        arguments = (step, *self._images, self.inputs, self.targets)
        self.launch = Launch(kernel, (blocks,), arguments)

    def memory_report(self) -> dict[str, int]:
        return {
            "picture": sum(image.nbytes for image in self._images),
            "batch": self.inputs.nbytes + self.targets.nbytes,
        }


class UpscalerPass(Pass):
    """The forward pass, loss and backward pass of the crops that the stage `sampling` fills in."""

    name = "upscaler"

    def __init__(
        self,
        device: Device,
        objective: UpscalerObjective,
        parameters: Array,
        sampling: CropSampling,
    ) -> None:
        super().__init__(device)
        batch, shapes, targets = objective.batches.size, layer_shapes(objective), sampling.targets
        self._layers = ConvolutionLayers(
            device, shapes, batch, parameters, sampling.inputs, is_spread=True
        )
        self._allocated += self._layers.arrays
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
        return self._layers.partial_gradients


class UpscalerCudaEngine(RecordedEngine[CropSampling]):
    """Takes training steps of an upscaler entirely on the GPU, in float32.

    The objective must have no `unsupported_reason`. Its parameters and the optimizer's state become
    views of flat arrays. A `ResourceError` is raised if the GPU has too little memory.
    """

    def __init__(self, objective: UpscalerObjective, device: Device) -> None:
        own_bytes = 8 * objective.values.size + _batch_bytes(objective)
        with made_in_memory(objective, device, own_bytes, _REMEDY):
            with named_range(device.xp.cuda, "compile"), compiled_together(device):
                stages = make_stages(objective, device)
            super().__init__(device, objective, stages, "float32")


def make_stages(objective: UpscalerObjective, device: Device) -> Stages[CropSampling]:
    """Make the stages of a step."""
    step = device.xp.zeros((), dtype="int64")
    parameters, _ = flatten_parameters(device, objective.network)
    sampling = CropSampling(device, objective, step)
    own_pass = UpscalerPass(device, objective, parameters, sampling)
    update = UpdateStage(device, objective, parameters, own_pass, step, "float32")
    return Stages(sampling, own_pass, update)


def unsupported_reason(objective: UpscalerObjective, precision: str, device: Device) -> str | None:
    """Return the reason why the cuda engine does not cover an objective, or None; for `precision`
    see `make_engine`.
    """
    found = recorded_engine.unsupported_reason(objective, precision, device)
    if found is not None:
        return found
    if isinstance(unclipped(objective.optimizer), Muon):
        return not_covered("the optimizer Muon for upscalers")  # not measured, nor tested
    for shape in layer_shapes(objective):
        part = convolution_plan.unsupported_reason(shape)
        if part is not None:
            return not_covered(part)
    return None


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


def _batch_bytes(objective: UpscalerObjective) -> int:
    """Count the bytes that a batch needs, except for parts of gradients."""
    shapes = layer_shapes(objective)
    first, last = shapes[0], shapes[-1]
    inputs = first.channels_in * first.height * first.width
    # values and gradients of float32, and places of the pooling in 16 bits
    values = sum(10 * shape.values_out for shape in shapes)
    return objective.batches.size * (4 * (inputs + last.values_out) + values)
