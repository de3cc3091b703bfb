"""The objective of fitting a classifier to labelled images: inputs, loss and error."""

from dataclasses import dataclass
from functools import cached_property

from neuralfield.nn.dropout import TrainingCall
from neuralfield.nn.losses import softmax_cross_entropy
from neuralfield.nn.network import Sequential
from neuralfield.nn.scaling import Scaling
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import LabelledImages, network_inputs
from neuralfield.tasks.task import Objective

BLOCK_IMAGES = {"cpu": 64, "gpu": 1 << 12}
"""Maximum number of images in a block, by the kind of device. Measured on a CPU: with fewer images,
the overhead of calls dominates; with more, time does not improve, and there are fewer blocks to
distribute over cores."""

BLOCK_VALUES = {"cpu": 1 << 20, "gpu": 1 << 28}
"""Maximum number of intermediate values in a block, which limits the number of large images."""


@dataclass(frozen=True, kw_only=True)
class ClassifierObjective(Objective):
    """The objective of fitting a network to labelled images."""

    network: Sequential
    settings: ConvolutionalClassifier  # the settings that the network was built from
    labelled: LabelledImages
    scaling: Scaling  # the scaling of pixels' brightness
    random_seed: int  # the seed of dropout

    @cached_property
    def data(self) -> tuple[Array, Array]:
        """All images and their labels."""
        images = self.device.asarray(self.labelled.images, dtype="uint8")
        return images, self.device.asarray(self.labelled.labels, dtype="int64")

    def evaluate(self, samples: Array, step: int, batch_size: int) -> tuple[Tensor, Array]:
        images, labels = (array[samples] for array in self.data)
        shown = network_inputs(images, self.scaling, self.dtype)
        logits = self.network(shown, TrainingCall(self.random_seed, step, samples))
        wrong = (logits.data.argmax(axis=1) != labels).sum()
        return softmax_cross_entropy(logits, labels, batch_size), wrong / batch_size

    @property
    def block_samples(self) -> int:
        fitting = BLOCK_VALUES[self.device.kind] // self.working_values
        return max(1, min(BLOCK_IMAGES[self.device.kind], fitting))

    @property
    def sample_bytes(self) -> int:
        """The bytes kept for each image: two copies of its pixels as read and of its label, and its
        number in the orders of two epochs."""
        return 2 * self.labelled.shape.width * self.labelled.shape.height + 32

    @property
    def working_values(self) -> int:
        return self.settings.working_values(self.labelled.shape)
