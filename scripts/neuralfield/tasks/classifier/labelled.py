"""Images with labels, read from the four files of a data set such as MNIST."""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from neuralfield.images.image import ImageShape
from neuralfield.nn.scaling import Scaling
from neuralfield.system.device import Array
from neuralfield.system.errors import InputError
from neuralfield.tasks.classifier.idx import read_idx

TRAINING = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte")
HELD_OUT = ("t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
"""File names of images and labels as in MNIST; each may have the suffix .gz."""

_BRIGHTNESSES = 256
_IMAGES_AT_ONCE = 1 << 12


@dataclass(frozen=True, eq=False)
class LabelledImages:
    """Images and their labels."""

    where: str  # the file of the labels, for messages
    images: np.ndarray  # uint8, shape (n, height, width)
    labels: np.ndarray  # int64, shape (n,)

    @property
    def count(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> ImageShape:
        _, height, width = self.images.shape
        return ImageShape(width, height, 1)

    @property
    def classes(self) -> int:
        """The number of classes: the largest label plus 1."""
        return int(self.labels.max()) + 1

    @cached_property
    def digest(self) -> str:
        """SHA-256 of images and labels, in hexadecimal."""
        digest = hashlib.sha256(json.dumps(self.images.shape).encode())
        digest.update(np.ascontiguousarray(self.images).data)
        digest.update(self.labels.astype("<i8").data)
        return digest.hexdigest()

    def require_fit(self, shape: ImageShape, classes: int, like: str) -> None:
        """Check that a network for images of this shape and these classes can be evaluated on them.

        Raises `InputError` for images of another size, or a label that is not a class of the
        network. `like` describes the network's training images in the message.
        """
        if self.shape != shape:
            found = f"labels images of {self.shape.width} x {self.shape.height} pixels"
            raise InputError(self.where, found, f"{shape.width} x {shape.height}, {like}")
        beyond = self.labels >= classes
        if beyond.any():
            number = int(np.argmax(beyond))
            found = f"label {self.labels[number]} of image {number + 1:,}"
            raise InputError(self.where, found, f"labels from 0 to {classes - 1}, {like}")


def find_files(folder: str | os.PathLike, names: tuple[str, str]) -> tuple[Path, Path]:
    """Return the paths of the files of images and of labels in a folder, compressed or not.

    `names` are `TRAINING` or `HELD_OUT`. Nothing is downloaded: `InputError` is raised if a file is
    missing, or exists both compressed and uncompressed.
    """
    found = []
    for name in names:
        present = [p for p in (Path(folder, name), Path(folder, f"{name}.gz")) if p.is_file()]
        if len(present) != 1:
            state = f"has both {name} and {name}.gz" if present else f"has no file {name}"
            remedy = "remove one of them" if present else "put the four files of the set into it"
            raise InputError(os.fspath(folder), state, f"{name}, or {name}.gz", remedy)
        found += present
    images, labels = found
    return images, labels


def read_labelled(
    images: Path, labels: Path, checksums: Mapping[str, str] | None = None
) -> LabelledImages:
    """Read images and their labels from IDX files; see `read_idx`.

    `checksums` are the SHA-256 of the files by name. Raises `InputError` if there is not one label
    for each image.
    """
    known = checksums or {}
    shown = read_idx(images, 3, known.get(images.name))
    numbers = read_idx(labels, 1, known.get(labels.name)).astype(np.int64)
    if len(numbers) != len(shown):
        expected = f"{len(shown):,}, one for each image in {images}"
        raise InputError(str(labels), f"has {len(numbers):,} labels", expected)
    return LabelledImages(str(labels), shown, numbers)


def brightness_scaling(images: np.ndarray) -> Scaling:
    """Return the scaling of all pixels to mean 0 and standard deviation 1; it has one column.

    `images` are uint8. If all pixels are equal, they become 0.
    """
    counts = np.zeros(_BRIGHTNESSES, np.int64)
    for start in range(0, len(images), _IMAGES_AT_ONCE):
        part = images[start : start + _IMAGES_AT_ONCE]
        counts += np.bincount(part.reshape(-1), minlength=_BRIGHTNESSES)
    values = np.arange(_BRIGHTNESSES)
    mean = (counts * values).sum() / images.size
    deviation = np.sqrt((counts * (values - mean) ** 2).sum() / images.size)
    return Scaling(np.array([mean]), np.array([deviation or 1.0]))


def network_inputs(images: Array, scaling: Scaling, dtype: str) -> Array:
    """Convert images, uint8 of shape (n, height, width), to inputs of a network.

    The result has the type `dtype` and the shape (n, height, width, 1).
    """
    values = images.astype(dtype)
    values -= float(scaling.centre[0])
    values /= float(scaling.spread[0])
    return values[..., None]
