"""Trained networks as stored in files: the base class of the models of all tasks."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from neuralfield.nn.network import Network, require_numbers
from neuralfield.system.checkpoint import load_arrays, save_arrays
from neuralfield.system.device import HOST, Device
from neuralfield.system.errors import CheckpointError, NeuralfieldError
from neuralfield.system.provenance import remedy_for, require_same_training

_FORMAT = 1

Arrays = dict[str, np.ndarray]
Described = Mapping[str, Any]
Metadata = dict[str, Any]

AnyNetwork = TypeVar("AnyNetwork", bound=Network)


class StoredModel(ABC, Generic[AnyNetwork]):
    """A network's settings, its weights and the record of its training."""

    what: ClassVar[str]
    """Description of this kind of model in error messages."""

    kind: ClassVar[str | None] = None
    """The kind that is stored in the file, if any."""

    settings: Any  # those of the network
    arrays: Arrays  # weights, and buffers such as random frequencies
    metadata: Metadata
    """The record of its training: ``step``, ``training`` settings, ``engine``, ``device`` ("cpu" or
    "gpu"), ``precision`` ("float32", "float64" or "mixed"), and a digest of its training data."""

    @property
    def dtype(self) -> str:
        """The type of the weights in training; float32 for mixed precision."""
        return "float64" if self.metadata.get("precision") == "float64" else "float32"

    @property
    @abstractmethod
    def provenance(self) -> dict[str, Any]:
        """A description that all networks of one training share at any step, as plain values."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return the contents of the file other than weights and metadata, as plain values."""

    @classmethod
    @abstractmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        """Create a model from the contents of a file.

        The file may be from an untrusted source, so that everything is checked except the names and
        shapes of the arrays. Any exception may be raised if something is wrong.
        """

    @abstractmethod
    def fresh_network(self) -> AnyNetwork:
        """Create a network with these settings, whose weights are zeros."""

    def network(self, device: Device = HOST, dtype: str = "float32") -> AnyNetwork:
        """Create the network with its weights on a device.

        Raises `ConfigError` if the arrays do not match the settings.
        """
        return self.fresh_network().with_weights(self.arrays, device, dtype)

    def arrays_beside(self) -> dict[str, np.ndarray]:
        """Return the arrays of the file that are not arrays of the network."""
        return {}

    def write(self, path: Path) -> None:
        """Write a self-contained file.

        Equal models give equal bytes, also if a model was read from a file.
        """
        kind = {} if self.kind is None else {"kind": self.kind}
        description = {"format": _FORMAT, **kind, **self.described(), "record": self.metadata}
        save_arrays(path, self.arrays | self.arrays_beside(), description)

    def load_snapshot(self, path: Path, step: int) -> Self:
        """Read a snapshot of this model's training after a step; raises `CheckpointError`."""
        snapshot = type(self).load(path)
        found_step, expected = (
            snapshot.metadata.get("step"),
            f"the network of this training after step {step}",
        )
        require_same_training(path, snapshot.provenance, self.provenance, expected)
        if found_step != step:
            found = f"the network of step {found_step!r}"
            raise CheckpointError(str(path), found, expected, remedy_for(path))
        return snapshot

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a model or a snapshot.

        Raises `CheckpointError` if the file is missing, damaged, of an unknown format, or contains
        another kind of model.
        """
        path, what = Path(path), cls.what
        arrays, description = load_arrays(path)
        try:
            if cls.kind is not None and description.get("kind") != cls.kind:
                raise ValueError(f"kind {description.get('kind')!r}")
            if (found := description["format"]) != _FORMAT:
                expected = f"format {_FORMAT}"
                raise CheckpointError(
                    str(path), f"format {found!r}", expected, "update neuralfield"
                )
            require_numbers(arrays)
            record = description["record"]
            if not isinstance(record, dict):
                raise TypeError(f"a record that is a {type(record).__name__}")
            model = cls.from_described(arrays, description, record)
            model.fresh_network().require_same_arrays(model.arrays, "model")
            return model
        except CheckpointError:
            raise
        except NeuralfieldError as error:
            expected = f"{what} that this version can read"
            raise CheckpointError(str(path), str(error), expected, remedy_for(path)) from error
        except (KeyError, OverflowError, TypeError, ValueError) as error:
            found = f"not {what} ({type(error).__name__}: {error})"
            expected = f"{what} written by neuralfield"
            raise CheckpointError(str(path), found, expected, remedy_for(path)) from error
