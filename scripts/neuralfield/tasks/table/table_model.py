"""The model of a table, as stored in a file: weights, columns and scaling."""

from dataclasses import asdict, dataclass, field
from typing import Any, Self

import numpy as np

from neuralfield.nn.network import Sequential, ZeroGenerator, require_enough
from neuralfield.nn.scaling import Scaling
from neuralfield.system.device import HOST, to_host
from neuralfield.system.input_files import MOST_COLUMNS
from neuralfield.tasks.stored_model import Arrays, Described, Metadata, StoredModel
from neuralfield.tasks.table.dense_network import Dense

_ROWS_AT_ONCE = 1 << 13


@dataclass(frozen=True, eq=False)
class TableModel(StoredModel[Sequential]):
    """A function from the input columns of a table to its target columns."""

    what, kind = "a network of a table", "table"

    settings: Dense
    # names of the columns
    inputs: tuple[str, ...]
    targets: tuple[str, ...]
    input_scaling: Scaling
    target_scaling: Scaling
    # see `StoredModel`; the digest is ``table``
    arrays: Arrays
    metadata: Metadata = field(default_factory=dict)

    @property
    def provenance(self) -> dict[str, Any]:
        keys = ("table", "training", "held_out_share")
        return {key: self.metadata.get(key) for key in keys} | self.described()

    def described(self) -> dict[str, Any]:
        return {
            "network": asdict(self.settings),
            "inputs": list(self.inputs),
            "targets": list(self.targets),
            "input_scaling": self.input_scaling.described(),
            "target_scaling": self.target_scaling.described(),
        }

    @classmethod
    def from_described(cls, arrays: Arrays, description: Described, metadata: Metadata) -> Self:
        inputs, targets = (_names(description[key]) for key in ("inputs", "targets"))
        settings = Dense.from_mapping(description["network"])
        input_scaling = Scaling.from_description(description["input_scaling"], len(inputs))
        target_scaling = Scaling.from_description(description["target_scaling"], len(targets))
        require_enough(arrays, settings.weight_shapes(len(inputs), len(targets)), settings)
        return cls(settings, inputs, targets, input_scaling, target_scaling, arrays, metadata)

    def fresh_network(self) -> Sequential:
        sizes = len(self.inputs), len(self.targets)
        return self.settings.build(*sizes, ZeroGenerator())

    def predict(self, values: np.ndarray) -> np.ndarray:
        """Predict targets in the units of the table, from values in the order of `inputs`.

        Both are float64, shape (n, columns). The network computes in the precision of its training.
        """
        network = self.network(HOST, self.dtype)
        found = np.empty((len(values), len(self.targets)))
        for start in range(0, len(values), _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            scaled = HOST.asarray(self.input_scaling.apply(values[rows]), dtype=self.dtype)
            found[rows] = to_host(network(scaled).data)
        return self.target_scaling.undo(found)

    def coefficients(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the weights and intercepts of a network without hidden layers.

        Weights have shape (inputs, targets); both are in the units of the table. The targets are
        ``inputs @ weights + intercepts``, or the sigmoid of this for the output ``sigmoid``. Raises
        ValueError if the network has hidden layers.
        """
        if self.settings.widths:
            raise ValueError(f"{len(self.settings.widths)} hidden layers have no coefficients")
        weights = self.arrays["layers.0.weight"].astype(np.float64)
        bias = self.arrays.get("layers.0.bias", np.zeros(len(self.targets))).astype(np.float64)
        weights = weights / self.input_scaling.spread[:, None]
        intercepts = bias - self.input_scaling.centre @ weights
        return weights * self.target_scaling.spread, self.target_scaling.undo(intercepts)


def _names(found: Any) -> tuple[str, ...]:
    if not isinstance(found, list) or not 0 < len(found) <= MOST_COLUMNS:
        raise ValueError(f"columns {str(found)[:60]}")
    if not all(isinstance(name, str) for name in found) or len(set(found)) < len(found):
        raise ValueError(f"columns {str(found)[:60]}")
    return tuple(found)
