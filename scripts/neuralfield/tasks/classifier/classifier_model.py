"""The model of a trained classifier, as stored in a self-contained file."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from neuralfield.images.image import ImageShape
from neuralfield.nn.losses import softmax
from neuralfield.nn.network import Sequential, ZeroGenerator, require_enough
from neuralfield.nn.scaling import Scaling
from neuralfield.system.device import HOST, Device, to_host
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.classifier.idx import MOST_SIDE_PX
from neuralfield.tasks.classifier.labelled import network_inputs
from neuralfield.tasks.stored_model import Arrays, Described, Metadata, StoredModel

MOST_CLASSES = 256
_IMAGES_AT_ONCE = 256


@dataclass(frozen=True, eq=False)
class ClassifierModel(StoredModel[Sequential]):
    """A function from an image to the probability of each class."""

    what, kind = "a classifier", "classifier"

    settings: ConvolutionalClassifier
    shape: ImageShape
    classes: int
    scaling: Scaling  # the scaling of pixels' brightness, 0 to 255; one column
    # see `StoredModel`; the digest is ``pictures``
    arrays: Arrays
    metadata: Metadata = field(default_factory=dict)

    @property
    def provenance(self) -> dict[str, Any]:
        return {key: self.metadata.get(key) for key in ("pictures", "training")} | self._shape_facts

    def described(self) -> dict[str, Any]:
        return self._shape_facts | {"scaling": self.scaling.described()}

    @property
    def _shape_facts(self) -> dict[str, Any]:
        return {
            "network": asdict(self.settings),
            "width": self.shape.width,
            "height": self.shape.height,
            "classes": self.classes,
        }

    @classmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        width, height, classes = (description[key] for key in ("width", "height", "classes"))
        sides = (width, MOST_SIDE_PX), (height, MOST_SIDE_PX), (classes, MOST_CLASSES)
        if not all(type(number) is int and 0 < number <= most for number, most in sides):
            raise ValueError(f"{width!r} x {height!r} pixels and {classes!r} classes")
        shape = ImageShape(width, height, 1)
        settings = ConvolutionalClassifier.from_mapping(description["network"])
        scaling = Scaling.from_description(description["scaling"], 1)
        require_enough(arrays, settings.weight_shapes(shape, classes), settings)
        return cls(settings, shape, classes, scaling, arrays, metadata)

    def fresh_network(self) -> Sequential:
        return self.settings.build(self.shape, self.classes, ZeroGenerator())

    def probabilities(self, images: np.ndarray, device: Device = HOST) -> np.ndarray:
        """Compute the probability of each class for each image; float64, shape (n, classes).

        `images` are uint8, shape (n, height, width). The network computes in the precision of its
        training.
        """
        network = self.network(device, self.dtype)
        found = np.empty((len(images), self.classes))
        for start in range(0, len(images), _IMAGES_AT_ONCE):
            part = slice(start, start + _IMAGES_AT_ONCE)
            shown = network_inputs(device.asarray(images[part]), self.scaling, self.dtype)
            found[part] = softmax(to_host(network(shown).data).astype(np.float64))
        return found
