"""The cuda engine for upscalers: the convolutions of classifiers with other stages."""

from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.convolution import convolution_plan
from neuralfield.engines.cuda.recorded_engine import (
    RecordedEngine,
    Stages,
    made_in_memory,
    not_covered,
)
from neuralfield.engines.cuda.recorded_steps import named_range
from neuralfield.engines.cuda.source import compiled_together
from neuralfield.engines.cuda.stages.update import UpdateStage
from neuralfield.engines.cuda.upscaler.sampling import CropSampling
from neuralfield.engines.cuda.upscaler.upscaler_pass import UpscalerPass, batch_bytes, layer_shapes
from neuralfield.engines.flat_arrays import flatten_parameters
from neuralfield.nn.optimizers import Muon, unclipped
from neuralfield.system.device import Device
from neuralfield.tasks.upscaler.upscaler_objective import UpscalerObjective

_REMEDY = "use smaller batches (training: batch_pixels) or smaller crops (fields: crop)"


class UpscalerCudaEngine(RecordedEngine[CropSampling]):
    """Takes training steps of an upscaler entirely on the GPU, in float32.

    The objective must have no `unsupported_reason`. Its parameters and the optimizer's state become
    views of flat arrays. A `ResourceError` is raised if the GPU has too little memory.
    """

    def __init__(self, objective: UpscalerObjective, device: Device) -> None:
        crops_bytes = batch_bytes(layer_shapes(objective), objective.batches.size)
        own_bytes = 8 * objective.values.size + crops_bytes
        with made_in_memory(objective, device, own_bytes, _REMEDY):
            with named_range(device.xp.cuda, "compile"), compiled_together(device):
                stages = make_stages(objective, device)
            super().__init__(device, objective, stages, "float32")


def make_stages(objective: UpscalerObjective, device: Device) -> Stages[CropSampling]:
    """Make the stages of a step."""
    step = device.xp.zeros((), dtype="int64")
    parameters, _ = flatten_parameters(device, objective.network)
    sampling = CropSampling(device, objective, step)
    own_pass = UpscalerPass(device, objective, layer_shapes(objective), parameters, sampling)
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
