"""The task of classifying images."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self, Unpack

import numpy as np

from neuralfield.nn.network import Sequential, require_memory_for
from neuralfield.nn.sampling import Batches
from neuralfield.system.errors import InputError
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import LabelledImages, brightness_scaling
from neuralfield.tasks.task import ACCURACY, Measure, Shared, Task
from neuralfield.tasks.training_settings import ClassifierTraining, of_the_training


@dataclass(frozen=True)
class ClassifierTask(Task):
    """The task of fitting a network to images with labels."""

    labelled: LabelledImages
    network: ConvolutionalClassifier
    training: ClassifierTraining

    def __post_init__(self) -> None:
        self.network.flat_values(self.labelled.shape)
        if self.labelled.classes < 2:
            raise InputError(
                self.labelled.where, "all labels are 0", "labels of two or more classes"
            )

    @classmethod
    def from_settings(
        cls, labelled: LabelledImages, network: Mapping[str, Any], training: Mapping[str, Any]
    ) -> Self:
        """Create a task from the sections `classifiers` and `training` of a config."""
        return cls(
            labelled,
            ConvolutionalClassifier.from_mapping(network),
            ClassifierTraining.from_mapping(of_the_training(training)),
        )

    @property
    def measure(self) -> Measure:
        return ACCURACY

    @cached_property
    def model(self) -> ClassifierModel:
        scaling = brightness_scaling(self.labelled.images)
        return ClassifierModel(
            self.network, self.labelled.shape, self.labelled.classes, scaling, {}
        )

    def fresh_network(self) -> Sequential:
        shape, classes = self.labelled.shape, self.labelled.classes
        require_memory_for(self.network.weight_shapes(shape, classes), "network: hidden")
        generator = np.random.default_rng(self.training.random_seed)
        return self.network.build(shape, classes, generator)

    def objective(self, network: Sequential, **shared: Unpack[Shared]) -> ClassifierObjective:
        seed, count = self.training.random_seed, self.labelled.count
        return ClassifierObjective(
            network=network,
            settings=self.network,
            labelled=self.labelled,
            scaling=self.model.scaling,
            random_seed=seed,
            batches=Batches(shared["device"].xp, count, self.training.batch_samples, seed),
            **shared,
        )

    def identity(self) -> list[Any]:
        return ["classifier", asdict(self.network), self.labelled.digest]

    def record(self) -> dict[str, Any]:
        return {"pictures": self.labelled.digest}
