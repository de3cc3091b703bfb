"""The stage of the cuda engine that samples the crops of an upscaler's step."""

from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.system.device import Array, Device
from neuralfield.tasks.upscaler.upscaler_objective import UpscalerObjective


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
