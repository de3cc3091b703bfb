"""A network that was taught to tell pictures apart, on disk: enough to use it anywhere."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.images.image import PictureShape
from neuralfield.nn.losses import softmax
from neuralfield.nn.network import Sequential, require_enough, require_numbers
from neuralfield.nn.scaling import Scaling
from neuralfield.system.checkpoint import load_described, record_of, require_format, save_arrays
from neuralfield.system.device import HOST, Device, to_host
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.idx import MOST_SIDE_PX
from neuralfield.tasks.classifier.labelled import network_inputs

_FORMAT = 1
_KIND = "classifier"
_MOST_CLASSES = 256
_PICTURES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class ClassifierModel:
    """A function from a picture to the probability of each class.

    Attributes
    ----------
    settings : ConvolutionalClassifier
    shape : PictureShape
    classes : int
    scaling : Scaling
        Of pixels' brightness, 0 to 255; one column.
    arrays : dict of name to array
        Weights.
    metadata : dict
        How it was made: ``step``, ``training`` settings, ``engine``, ``device`` ("cpu" or "gpu"),
        ``precision``, ``pictures`` (digest of what it was taught, see `classifiers.labelled`).
    """

    settings: ConvolutionalClassifier
    shape: PictureShape
    classes: int
    scaling: Scaling
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def provenance(self) -> dict[str, Any]:
        """What networks of one training have in common, whatever their step; plain values."""
        return {key: self.metadata.get(key) for key in ("pictures", "training")} | {
            "network": asdict(self.settings),
            "width": self.shape.width,
            "height": self.shape.height,
            "classes": self.classes,
        }

    def network(self, device: Device = HOST, dtype: str = "float32") -> Sequential:
        """The network with its weights, ready to be called on a device.

        Raises
        ------
        ConfigError
            The arrays are not those of the settings.
        """
        network = self.settings.build(self.shape, self.classes, np.random.default_rng(0))
        return network.with_weights(self.arrays, device, dtype)

    def probabilities(self, pictures: np.ndarray, device: Device = HOST) -> np.ndarray:
        """Of each class for each picture, in the precision that the network was taught in.

        Parameters
        ----------
        pictures : ndarray of uint8, shape (n, height, width)
        device : Device

        Returns
        -------
        ndarray of float64, shape (n, classes)
        """
        dtype = "float64" if self.metadata.get("precision") == "float64" else "float32"
        network = self.network(device, dtype)
        found = np.empty((len(pictures), self.classes))
        for start in range(0, len(pictures), _PICTURES_AT_ONCE):
            part = slice(start, start + _PICTURES_AT_ONCE)
            shown = network_inputs(device.asarray(pictures[part]), self.scaling, dtype)
            found[part] = softmax(to_host(network(shown).data).astype(np.float64))
        return found


def save_classifier(
    path: Path, network: Sequential, model: ClassifierModel, metadata: Mapping[str, Any]
) -> None:
    """Write a network so that it can be used anywhere; the same network gives the same bytes.

    Parameters
    ----------
    path : Path
    network : Sequential
        Its weights are written.
    model : ClassifierModel
        All else is taken from it, but for its metadata.
    metadata : mapping
        See `ClassifierModel`.
    """
    description = {
        "format": _FORMAT,
        "kind": _KIND,
        "network": asdict(model.settings),
        "width": model.shape.width,
        "height": model.shape.height,
        "classes": model.classes,
        "scaling": model.scaling.described(),
        "record": dict(metadata),
    }
    save_arrays(path, {name: to_host(a) for name, a in network.arrays.items()}, description)


def load_classifier(path: Path | str) -> ClassifierModel:
    """Read a classifier or a snapshot of it.

    Raises
    ------
    CheckpointError
        The file is missing, damaged, of an unknown format, or not a classifier.
    """
    return load_described(path, "a classifier", _described)


def _described(arrays: dict[str, np.ndarray], description: Mapping[str, Any]) -> ClassifierModel:
    """A model out of a file that anybody may have written: nothing in it is believed unchecked."""
    if description.get("kind") != _KIND:
        raise ValueError(f"kind {description.get('kind')!r}")
    require_format(description["format"], _FORMAT)
    width, height, classes = (description[key] for key in ("width", "height", "classes"))
    for number, most in ((width, MOST_SIDE_PX), (height, MOST_SIDE_PX), (classes, _MOST_CLASSES)):
        if type(number) is not int or not 0 < number <= most:
            raise ValueError(f"{width!r} x {height!r} pixels and {classes!r} classes")
    record = record_of(description)
    shape = PictureShape(width, height, 1)
    settings = ConvolutionalClassifier.from_mapping(description["network"])
    scaling = Scaling.from_description(description["scaling"], 1)
    require_numbers(arrays)
    require_enough(arrays, settings.weight_shapes(shape, classes), settings)
    model = ClassifierModel(settings, shape, classes, scaling, arrays, record)
    model.network()
    return model
