"""A trained network as its file has it: what the models of all tasks have in common."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np

from neuralfield.nn.network import Network, require_numbers
from neuralfield.system.checkpoint import load_arrays, save_arrays
from neuralfield.system.device import HOST, Device, to_host
from neuralfield.system.errors import CheckpointError, NeuralfieldError
from neuralfield.system.provenance import remedy_for, require_same_training

_FORMAT = 1

Arrays = dict[str, np.ndarray]
Described = Mapping[str, Any]
Metadata = dict[str, Any]

AnyNetwork = TypeVar("AnyNetwork", bound=Network)


class StoredModel(ABC, Generic[AnyNetwork]):
    """A network's settings, its weights and how it was made."""

    what: ClassVar[str]
    """The words for it in errors."""

    kind: ClassVar[str | None] = None
    """The kind that its file names, if any."""

    settings: Any  # those of the network
    arrays: Arrays  # weights, and buffers such as random frequencies
    metadata: Metadata
    """The record of its training: ``step``, ``training`` settings, ``engine``, ``device`` ("cpu" or
    "gpu"), ``precision`` ("float32", "float64" or "mixed"), and a digest of its training data."""

    @property
    def dtype(self) -> str:
        """The type of numbers that it was trained with; of mixed precision, weights are float32."""
        return "float64" if self.metadata.get("precision") == "float64" else "float32"

    @property
    @abstractmethod
    def provenance(self) -> dict[str, Any]:
        """All that networks of one training share, whatever their step, as plain values."""

    @abstractmethod
    def described(self) -> dict[str, Any]:
        """Return all that its file says beside weights and metadata, as plain values."""

    @classmethod
    @abstractmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        """Make a model out of a file that anybody may have written: nothing is believed unchecked,
        and any exception is raised where something is wrong.
        """

    @abstractmethod
    def fresh_network(self) -> AnyNetwork:
        """Build a network of this kind, with zeros as weights."""

    def network(self, device: Device = HOST, dtype: str = "float32") -> AnyNetwork:
        """Build the network with its weights, ready to be called on a device; raises `ConfigError`
        where the arrays are not those of the settings.
        """
        return self.fresh_network().with_weights(self.arrays, device, dtype)

    def arrays_beside(self) -> dict[str, np.ndarray]:
        """Return the arrays of its file beside those of the network."""
        return {}

    def with_metadata(self, metadata: dict[str, Any]) -> Self:
        """Return this model, made in another way."""
        model: Any = self
        return replace(model, metadata=metadata)

    def save(self, path: Path, network: Network, metadata: Mapping[str, Any]) -> None:
        """Write the weights of a network, with all else but the metadata from this model, so that
        it can be used anywhere; the same network gives the same bytes.
        """
        self._write(path, {name: to_host(a) for name, a in network.arrays.items()}, metadata)

    def write(self, path: Path) -> None:
        """Write this model; one that was read gives the bytes of its file."""
        self._write(path, self.arrays, self.metadata)

    def _write(
        self, path: Path, arrays: dict[str, np.ndarray], metadata: Mapping[str, Any]
    ) -> None:
        kind = {} if self.kind is None else {"kind": self.kind}
        description = {"format": _FORMAT, **kind, **self.described(), "record": dict(metadata)}
        save_arrays(path, arrays | self.arrays_beside(), description)

    def load_snapshot(self, path: Path, step: int) -> Self:
        """Read the network that this one's training had after a step; raises `CheckpointError`."""
        snapshot = type(self).load(path)
        found_step, expected = snapshot.metadata.get("step"), f"this training's after step {step}"
        require_same_training(path, snapshot.provenance, self.provenance, expected)
        if found_step != step:
            found = f"the network of step {found_step!r}"
            raise CheckpointError(str(path), found, expected, remedy_for(path))
        return snapshot

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Read a model or a snapshot of it; raises `CheckpointError` where the file is missing,
        damaged, of an unknown format, or another kind of model.
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
            return cls.from_described(arrays, description, record)
        except CheckpointError:
            raise
        except NeuralfieldError as error:
            expected = f"{what} of a kind known here"
            raise CheckpointError(str(path), str(error), expected, remedy_for(path)) from error
        except (KeyError, TypeError, ValueError) as error:
            found = f"not {what} ({type(error).__name__}: {error})"
            expected = f"{what} written by neuralfield"
            raise CheckpointError(str(path), found, expected, remedy_for(path)) from error
