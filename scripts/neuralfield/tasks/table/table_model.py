"""A network that was taught a table, on disk: weights, columns and scaling; enough to predict."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.nn.network import Sequential, require_enough, require_numbers
from neuralfield.nn.scaling import Scaling
from neuralfield.system.checkpoint import load_described, record_of, require_format, save_arrays
from neuralfield.system.device import HOST, Device, to_host
from neuralfield.system.input_files import MOST_COLUMNS
from neuralfield.tasks.table.dense_network import Dense

_FORMAT = 1
_KIND = "table"
_ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class TableModel:
    """A function from the input columns of a table to its target columns.

    Attributes
    ----------
    settings : Dense
    inputs, targets : tuple of str
        Names of the columns.
    input_scaling, target_scaling : Scaling
    arrays : dict of name to array
        Weights.
    metadata : dict
        How it was made: ``step``, ``training`` settings, ``engine``, ``device`` ("cpu" or "gpu"),
        ``precision``, ``table`` (digest of what it was taught, see `tables.samples`).
    """

    settings: Dense
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    input_scaling: Scaling
    target_scaling: Scaling
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def provenance(self) -> dict[str, Any]:
        """What networks of one training have in common, whatever their step; plain values."""
        keys = ("table", "training", "held_out_share")
        return {key: self.metadata.get(key) for key in keys} | {
            "network": asdict(self.settings),
            "inputs": self.inputs,
            "targets": self.targets,
            "input_scaling": self.input_scaling.described(),
            "target_scaling": self.target_scaling.described(),
        }

    def network(self, device: Device = HOST, dtype: str = "float32") -> Sequential:
        """The network with its weights, ready to be called on a device.

        Raises
        ------
        ConfigError
            The arrays are not those of the settings.
        """
        sizes = len(self.inputs), len(self.targets)
        network = self.settings.build(*sizes, np.random.default_rng(0))
        return network.with_weights(self.arrays, device, dtype)

    def predict(
        self, values: np.ndarray, device: Device = HOST, dtype: str = "float32"
    ) -> np.ndarray:
        """What the network answers, in the table's own units.

        Parameters
        ----------
        values : ndarray of float64, shape (n, inputs)
            In the order of `inputs`.
        device : Device
        dtype : {"float32", "float64"}
            Of the network's own numbers.

        Returns
        -------
        ndarray of float64, shape (n, targets)
        """
        network = self.network(device, dtype)
        found = np.empty((len(values), len(self.targets)))
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            scaled = device.asarray(self.input_scaling.apply(values[rows]), dtype=dtype)
            found[rows] = to_host(network(scaled).data)
        return self.target_scaling.undo(found)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Of a network without hidden layers, in the table's own units.

        Returns
        -------
        weights : ndarray of float64, shape (inputs, targets)
        intercepts : ndarray of float64, shape (targets,)
            The targets are ``inputs @ weights + intercepts``; with the output ``sigmoid``, that is
            what the sigmoid is taken of.

        Raises
        ------
        ValueError
            It has hidden layers.
        """
        if self.settings.widths:
            raise ValueError(f"{len(self.settings.widths)} hidden layers have no coefficients")
        weights = self.arrays["layers.0.weight"].astype(np.float64)
        bias = self.arrays.get("layers.0.bias", np.zeros(len(self.targets))).astype(np.float64)
        weights = weights / self.input_scaling.spread[:, None]
        intercepts = bias - self.input_scaling.centre @ weights
        return weights * self.target_scaling.spread, self.target_scaling.undo(intercepts)


def save_table_model(
    path: Path, network: Sequential, model: TableModel, metadata: Mapping[str, Any]
) -> None:
    """Write a network so that it can predict anywhere; the same network gives the same bytes.

    Parameters
    ----------
    path : Path
    network : Sequential
        Its weights are written.
    model : TableModel
        All else is taken from it, but for its metadata.
    metadata : mapping
        See `TableModel`.
    """
    description = {
        "format": _FORMAT,
        "kind": _KIND,
        "network": asdict(model.settings),
        "inputs": list(model.inputs),
        "targets": list(model.targets),
        "input_scaling": model.input_scaling.described(),
        "target_scaling": model.target_scaling.described(),
        "record": dict(metadata),
    }
    save_arrays(path, {name: to_host(a) for name, a in network.arrays.items()}, description)


def load_table_model(path: Path | str) -> TableModel:
    """Read a table's network or a snapshot of it.

    Raises
    ------
    CheckpointError
        The file is missing, damaged, of an unknown format, or not a network of a table.
    """
    return load_described(path, "a network of a table", _described)


def _described(arrays: dict[str, np.ndarray], description: Mapping[str, Any]) -> TableModel:
    """A model out of a file that anybody may have written: nothing in it is believed unchecked."""
    if description.get("kind") != _KIND:
        raise ValueError(f"kind {description.get('kind')!r}")
    require_format(description["format"], _FORMAT)
    inputs, targets = (_names(description[key]) for key in ("inputs", "targets"))
    record = record_of(description)
    given = dict(description["network"])
    settings = Dense(**{**given, "widths": tuple(given["widths"])})
    input_scaling = Scaling.from_description(description["input_scaling"], len(inputs))
    target_scaling = Scaling.from_description(description["target_scaling"], len(targets))
    require_numbers(arrays)
    require_enough(arrays, settings.weight_shapes(len(inputs), len(targets)), settings)
    model = TableModel(settings, inputs, targets, input_scaling, target_scaling, arrays, record)
    model.network()
    return model


def _names(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not 0 < len(found) <= MOST_COLUMNS:
        raise ValueError(f"columns {str(found)[:60]}")
    if not all(isinstance(name, str) for name in found) or len(set(found)) < len(found):
        raise ValueError(f"columns {str(found)[:60]}")
    return tuple(found)
