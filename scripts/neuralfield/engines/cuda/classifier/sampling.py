"""The stage of the cuda engine that samples the images of a classifier's batch."""

from typing import Any

import numpy as np

from neuralfield.engines.cuda.classifier.classifier_plan import ClassifierPlan
from neuralfield.engines.cuda.launch import THREADS, Launch
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.system.device import Device
from neuralfield.system.random_streams import half_bits_of
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective
from neuralfield.tasks.classifier.labelled import network_inputs


class ImageSampling:
    """Fills inputs and labels for the step whose number is in the GPU's memory.

    All `images` stay on the GPU as bytes, shape (n, height, width). `inputs` has shape (batch,
    pixels); `samples` and `labels`, int32, have the images' numbers and labels.
    """

    def __init__(
        self, device: Device, objective: ClassifierObjective, plan: ClassifierPlan, step: Any
    ) -> None:
        xp, labelled = device.xp, objective.labelled
        self.is_constant = objective.batches.is_everything
        """Whether every step's batch is the same, so that the stage has to run only once."""
        self.images = device.asarray(np.ascontiguousarray(labelled.images))
        self._all_labels = device.asarray(labelled.labels.astype(np.int32))
        self.inputs = xp.zeros((plan.batch, plan.pixels), dtype="float32")
        self.samples = xp.zeros(plan.batch, dtype="int32")
        self.labels = xp.zeros(plan.batch, dtype="int32")
        constants = image_sampling_constants(objective, plan)
        kernel = compile_kernel("classifier/sample_images.cu", "sample_images", constants)
        brightness = device.asarray(brightness_table(objective))
        every = (step, self.images, self._all_labels, brightness)
        arguments = (*every, self.inputs, self.samples, self.labels)
        self.launch = Launch(kernel, (plan.batch,), arguments)

    def memory_report(self) -> dict[str, int]:
        return {
            "pictures": self.images.nbytes,
            "labels": self._all_labels.nbytes,
            "batch": self.inputs.nbytes + self.samples.nbytes + self.labels.nbytes,
        }


def brightness_table(objective: ClassifierObjective) -> np.ndarray:
    """Map each value of a byte to the network's input; float32, shape (256,)."""
    every = np.arange(256, dtype=np.uint8).reshape(1, 1, -1)
    return network_inputs(every, objective.scaling, "float32").reshape(-1)


def image_sampling_constants(
    objective: ClassifierObjective, plan: ClassifierPlan
) -> dict[str, int | str]:
    """Return the kernel's constants."""
    batches = objective.batches
    return {
        "BATCH": plan.batch,
        "SAMPLES": batches.sample_count,
        "IS_EVERYTHING": int(batches.is_everything),
        "HALF_BITS": half_bits_of(batches.sample_count),
        "SEED": f"{batches.random_seed}ull",
        "PIXELS": plan.pixels,
        "THREADS": THREADS,
    }
