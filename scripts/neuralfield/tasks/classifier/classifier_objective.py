"""Pictures with labels as a problem: what is shown, and how far a network's answers are off."""

from dataclasses import dataclass

from neuralfield.nn.dropout import TrainingCall
from neuralfield.nn.losses import softmax_cross_entropy
from neuralfield.nn.network import Sequential
from neuralfield.nn.scaling import Scaling
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import LabelledPictures, network_inputs
from neuralfield.tasks.objective import Problem

BLOCK_PICTURES = {"cpu": 64, "gpu": 1 << 12}
"""Pictures that pass through the network together at the most, by the kind of device. Measured on a
processor: with fewer the calls cost more than the work; with more it takes as long, and there are
fewer blocks to share between cores."""

BLOCK_VALUES = {"cpu": 1 << 20, "gpu": 1 << 28}
"""Numbers that the network gives for them, at the most: large pictures come a few at a time."""


@dataclass(frozen=True, kw_only=True)
class ClassifierProblem(Problem):
    """A network, the pictures that it is taught, and how.

    Attributes
    ----------
    network : Sequential
    settings : ConvolutionalClassifier
        What the network was made of.
    labelled : LabelledPictures
    scaling : Scaling
        Of pixels' brightness.
    random_seed : int
        Of dropout.
    """

    network: Sequential
    settings: ConvolutionalClassifier
    labelled: LabelledPictures
    scaling: Scaling
    random_seed: int

    def supervision(self, device: Device) -> "ClassifierSupervision":
        """Pictures and labels, on a device."""
        return ClassifierSupervision(self, device)

    def block_samples(self, device: Device) -> int:
        """Pictures that pass through the network together, on the tape."""
        fitting = BLOCK_VALUES[device.kind] // self.working_values
        return max(1, min(BLOCK_PICTURES[device.kind], fitting))

    @property
    def sample_bytes(self) -> int:
        """What is kept of each picture: its pixels as they were read, twice, and its label."""
        return 2 * self.labelled.shape.width * self.labelled.shape.height + 16

    @property
    def working_values(self) -> int:
        """Numbers that are alive for each picture while it is worked on, about."""
        return self.settings.working_values(self.labelled.shape)


class ClassifierSupervision:
    """Pictures, and the loss of a network's answers.

    Parameters
    ----------
    problem : ClassifierProblem
    device : Device
    """

    def __init__(self, problem: ClassifierProblem, device: Device) -> None:
        self._problem, self._xp = problem, device.xp
        self._pictures = device.asarray(problem.labelled.pictures, dtype="uint8")
        self._labels = device.asarray(problem.labelled.labels, dtype="int64")

    def loss(
        self, network: Sequential, samples: Array, step: int, batch_size: int
    ) -> tuple[Tensor, Array]:
        """The part of a batch's mean loss, and of its share of wrong answers, that some have."""
        problem, labels = self._problem, self._labels[samples]
        shown = network_inputs(self._pictures[samples], problem.scaling, problem.dtype)
        logits = network(shown, TrainingCall(problem.random_seed, step, samples))
        wrong = (logits.data.argmax(axis=1) != labels).sum()
        return softmax_cross_entropy(logits, labels, batch_size), wrong / batch_size
