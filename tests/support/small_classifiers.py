"""Small classifiers and the images on which they are trained."""

from pathlib import Path

import numpy as np
import test_fit

from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.labelled import LabelledImages
from neuralfield.tasks.training_settings import ClassifierTraining

CPU = test_fit.CPU
SHIPPED = Path(__file__).parents[2] / "workflow" / "resources" / "digits"
SMALL = {"channels": (4,), "kernel": 3, "padding": 1, "hidden": (8,), "dropout": 0.25}


def bars(count=60, seed=0):
    """Return noisy images of 6 x 5 pixels with horizontal bars, vertical bars or crosses."""
    random = np.random.default_rng(seed)
    images = random.integers(0, 60, (count, 5, 6), dtype=np.uint8)
    labels = np.arange(count) % 3
    for image, label in zip(images, labels, strict=True):
        if label != 1:
            image[random.integers(5)] = 220
        if label != 0:
            image[:, random.integers(6)] = 220
    return LabelledImages("bars-labels", images, labels)


def make_task(labelled=None, network=None, **training):
    small = {"steps": 40, "batch_samples": 24, "snapshots": 5, "learning_rate": 5e-3}
    return ClassifierTask(
        labelled or bars(),
        ConvolutionalClassifier(**(SMALL | (network or {}))),
        ClassifierTraining.from_mapping(small | training),
    )


def train(task, folder, **run_settings):
    """Train to the end, and return the network and the reported lines."""
    messages = test_fit.train(task, folder, device=CPU, **run_settings)
    return ClassifierModel.load(folder / "model.safetensors"), messages
