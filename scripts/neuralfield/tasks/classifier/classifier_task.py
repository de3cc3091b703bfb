"""Teaching a network to tell pictures apart."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from neuralfield.nn.losses import softmax
from neuralfield.nn.network import Sequential, require_memory_for
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.sampling import Batches
from neuralfield.nn.schedules import Schedule
from neuralfield.system.checkpoint import load_snapshot
from neuralfield.system.device import Device, to_host
from neuralfield.system.errors import InputError
from neuralfield.tasks.classifier.classifier_model import (
    ClassifierModel,
    load_classifier,
    save_classifier,
)
from neuralfield.tasks.classifier.classifier_objective import ClassifierProblem
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import (
    LabelledPictures,
    brightness_scaling,
    network_inputs,
)
from neuralfield.tasks.task import ACCURACY, Measure
from neuralfield.tasks.training_settings import ClassifierTraining, of_the_training

_MOST_JUDGED = 1024


@dataclass(frozen=True)
class ClassifierTask:
    """Pictures with labels, the network that learns to tell them apart, and how.

    Attributes
    ----------
    labelled : LabelledPictures
    network : ConvolutionalClassifier
    training : ClassifierTraining

    Raises
    ------
    ConfigError
        A kernel or a window of the network is larger than what is left of the pictures.
    InputError
        All labels are 0.
    """

    labelled: LabelledPictures
    network: ConvolutionalClassifier
    training: ClassifierTraining

    def __post_init__(self) -> None:
        self.network.flat_values(self.labelled.shape)
        if self.labelled.classes < 2:
            raise InputError(self.labelled.where, "all labels are 0", "two or more kinds")

    @classmethod
    def from_settings(
        cls, labelled: LabelledPictures, network: Mapping[str, Any], training: Mapping[str, Any]
    ) -> Self:
        """A task as the sections `classifiers` and `training` of a config describe it."""
        return cls(
            labelled,
            ConvolutionalClassifier.from_mapping(network),
            ClassifierTraining.from_mapping(of_the_training(training)),
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """That of every network of this task; see `ClassifierModel.provenance`."""
        metadata = self.record() | {"training": self.training.described()}
        return replace(self.model, metadata=metadata).provenance

    @property
    def measure(self) -> Measure:
        """The share of the batches' pictures that was answered right."""
        return ACCURACY

    @cached_property
    def model(self) -> ClassifierModel:
        """The network without weights: what its file says besides them."""
        scaling = brightness_scaling(self.labelled.pictures)
        return ClassifierModel(
            self.network, self.labelled.shape, self.labelled.classes, scaling, {}
        )

    def fresh_network(self) -> Sequential:
        """A network with fresh weights.

        Raises
        ------
        ResourceError
            It is larger than the memory there is.
        """
        shape, classes = self.labelled.shape, self.labelled.classes
        require_memory_for(self.network.weight_shapes(shape, classes), "network: hidden")
        generator = np.random.default_rng(self.training.random_seed)
        return self.network.build(shape, classes, generator)

    def problem(
        self,
        network: Sequential,
        optimizer: Optimizer,
        schedule: Schedule,
        device: Device,
        dtype: str,
    ) -> ClassifierProblem:
        """What an engine is given."""
        seed, count = self.training.random_seed, self.labelled.count
        return ClassifierProblem(
            network=network,
            settings=self.network,
            labelled=self.labelled,
            scaling=self.model.scaling,
            random_seed=seed,
            optimizer=optimizer,
            schedule=schedule,
            batches=Batches(device.xp, count, self.training.batch_samples, seed),
            dtype=dtype,
        )

    def identity(self) -> list[Any]:
        """Network and pictures."""
        return ["classifier", asdict(self.network), self._digest]

    def record(self) -> dict[str, Any]:
        """What a network's file says of what it was taught."""
        return {"pictures": self._digest}

    def save_network(self, path: Path, network: Sequential, record: Mapping[str, Any]) -> None:
        """Write a network so that it can be used anywhere."""
        save_classifier(path, network, self.model, record)

    def load_snapshot(self, path: Path, step: int, record: dict[str, Any]) -> dict[str, np.ndarray]:
        """Arrays of this training's network after some step; see `neuralfield.classifiers`."""
        model = self.model
        of = ClassifierModel(model.settings, model.shape, model.classes, model.scaling, {}, record)
        return load_snapshot(path, step, of, load_classifier).arrays

    @np.errstate(all="ignore")
    def squared_error(self, network: Sequential, device: Device, dtype: str) -> float:
        """Of the probabilities of some pictures' classes, their mean; may be NaN."""
        count = self.labelled.count
        chosen = np.linspace(0, count - 1, min(count, _MOST_JUDGED)).astype(np.int64)
        shown = device.asarray(self.labelled.pictures[chosen])
        logits = network(network_inputs(shown, self.model.scaling, dtype)).data
        right = np.eye(self.labelled.classes)[self.labelled.labels[chosen]]
        return float(((softmax(to_host(logits).astype(np.float64)) - right) ** 2).mean())

    @cached_property
    def _digest(self) -> str:
        return self.labelled.digest
