"""Classifiers of images, with the interface of scikit-learn's classifiers."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np

from neuralfield.api.arguments import argument_names, as_array, unit_values
from neuralfield.api.estimators import Classifier, classes_of, plain_settings, require_same_length
from neuralfield.api.run_training import run_training
from neuralfield.system.device import select_device
from neuralfield.system.errors import InputError, WrongTypeError
from neuralfield.system.settings import settings_of
from neuralfield.tasks.classifier.classifier_model import MOST_CLASSES, ClassifierModel
from neuralfield.tasks.classifier.classifier_task import ClassifierTask
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.idx import MOST_SIDE_PX
from neuralfield.tasks.classifier.labelled import LabelledImages
from neuralfield.tasks.training_settings import ClassifierTraining, ImageExecution

_NETWORK_SETTINGS = tuple(settings_of(ConvolutionalClassifier))


@dataclass(kw_only=True, repr=False, eq=False)
class ImageClassifier(Classifier):
    """A small convolutional network from grey images of one size to the probability of each class.

    It has the interface of scikit-learn's classifiers, and gives the same results as the workflow's
    classifiers.

    Parameters
    ----------
    channels : sequence of int
        Number of output channels of each convolution.
    kernel, padding, pool : int
        Side of the kernels, width of the zero padding, and side of the max pooling windows, in
        pixels. The defaults are for images of 28 x 28; for 8 x 8 use ``kernel=3, padding=1``.
    hidden : sequence of int
        Number of outputs of each linear layer except the last.
    dropout : float
        Fraction of these outputs that is dropped in training.
    steps : int
        Number of weight updates.
    learning_rate : float
    batch_samples : int
        Number of images in each step's batch; 0 means all.
    optimizer : {"adam", "muon", "sgd"}
    random_state : int, RandomState or None
        The seed; None means 0.
    device : {"auto", "cpu", "gpu"}
    folder : path, optional
        Folder for the model, the history and the state of the training. A later `fit` with the same
        folder resumes a training that was interrupted.
    settings : mapping, optional
        Further settings of the training (``schedule``, ``keep_best`` ...).

    Attributes
    ----------
    classes_ : ndarray
        The labels, sorted.
    model_ : neuralfield.tasks.classifier.classifier_model.ClassifierModel
    history_ : dict of str to ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from neuralfield import ImageClassifier
    >>> images = np.zeros((40, 8, 8), np.uint8)
    >>> images[:20, 2:4] = images[20:, :, 4:6] = 255
    >>> labels = ["lying"] * 20 + ["standing"] * 20
    >>> network = dict(channels=(4,), kernel=3, padding=1, hidden=(8,))
    >>> classifier = ImageClassifier(**network, steps=60, device="cpu").fit(images, labels)
    >>> classifier.predict(images[[0, -1]]).tolist()
    ['lying', 'standing']
    """

    channels: Sequence[int] = (10, 20)
    kernel: int = 5
    padding: int = 0
    pool: int = 2
    hidden: Sequence[int] = (64,)
    dropout: float = 0.0

    model_: ClassifierModel = field(init=False)

    @classmethod
    def of_model(cls, model: ClassifierModel) -> Self:
        """Return a classifier with a trained network, from this package or the workflow.

        Its labels are 0, 1, ..., because a model file stores no other labels.
        """
        found = cls._fitted(model, _NETWORK_SETTINGS)
        found.classes_ = np.arange(model.classes)
        return found

    @argument_names()
    def fit(self, X: Any, y: Any) -> Self:  # noqa: N803
        """Train the network with images and their labels.

        Parameters
        ----------
        X : array of uint8, bool, or floats in [0, 1], shape (n, height, width)
            Floats are rounded to 256 levels.
        y : array, shape (n,)
            Labels of any sortable type; at least two different ones.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            A setting is out of range, the shapes do not match, the images are too small for the
            network, or there is only one class.
        TypeError
            The images are of an unsupported type.
        """
        images = _levels_of(X)
        classes, labels = classes_of(y)
        require_same_length(images, labels)
        if len(classes) > MOST_CLASSES:
            expected = f"at most {MOST_CLASSES}, the most that a file can hold"
            raise InputError("y", f"{len(classes):,} classes", expected)
        network = plain_settings({name: getattr(self, name) for name in _NETWORK_SETTINGS})
        task = ClassifierTask(
            LabelledImages("y", images, labels.astype(np.int64)),
            ConvolutionalClassifier.from_mapping(network),
            ClassifierTraining.from_mapping(self._training_settings()),
        )
        self.model_, self.history_ = run_training(
            task, self.folder, ImageExecution(device=self.device)
        )
        self.classes_ = classes
        return self

    @argument_names()
    def predict_proba(self, X: Any) -> np.ndarray:  # noqa: N803
        """Return the probability of each class; float64, shape (n, classes).

        Raises
        ------
        ValueError
            The images differ in size from those given to `fit`.
        """
        self._require_fitted()
        images, shape = _levels_of(X), self.model_.shape
        if images.shape[1:] != (shape.height, shape.width):
            found = f"images of {images.shape[2]} x {images.shape[1]} pixels"
            expected = f"{shape.width} x {shape.height}, as the network was trained with"
            raise InputError("X", found, expected)
        return self.model_.probabilities(images, select_device(self.device))

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags

        tags = super().__sklearn_tags__()
        tags.input_tags = InputTags(two_d_array=False, three_d_array=True)
        return tags


def _levels_of(images: Any) -> np.ndarray:
    """Return images as uint8, shape (n, height, width)."""
    array = as_array("X", images)
    if array.ndim != 3 or array.size == 0:
        found = f"an array of shape {array.shape}"
        raise InputError("X", found, "(images, height, width), each at least 1")
    if max(array.shape[1:]) > MOST_SIDE_PX:
        found = f"images of {array.shape[2]:,} x {array.shape[1]:,} pixels"
        raise InputError("X", found, f"sides of at most {MOST_SIDE_PX:,}", "reduce them")
    if array.dtype == bool:
        return array * np.uint8(255)
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype.kind != "f":
        expected = "uint8, bool, or floats from 0 to 1"
        remedy = "if 255 is white, use X.astype(numpy.uint8)" if array.dtype.kind in "iu" else ""
        raise WrongTypeError("X", f"an array of {array.dtype}", expected, remedy)
    return np.rint(unit_values("X", array) * 255).astype(np.uint8)
