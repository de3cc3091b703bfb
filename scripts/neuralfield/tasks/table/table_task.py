"""Teaching a network a table."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from neuralfield.nn.network import Sequential, require_memory_for
from neuralfield.nn.optimizers import Optimizer
from neuralfield.nn.sampling import Batches
from neuralfield.nn.scaling import RULES, fit_scaling
from neuralfield.nn.schedules import Schedule
from neuralfield.system.checkpoint import load_snapshot
from neuralfield.system.device import Device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.table.samples import Samples, held_out_rows
from neuralfield.tasks.table.table_model import TableModel, load_table_model, save_table_model
from neuralfield.tasks.table.table_objective import TableProblem
from neuralfield.tasks.task import ACCURACY, Measure
from neuralfield.tasks.training_settings import SampleTraining, of_the_training

_MOST_ROWS_JUDGED = 4096


def _root(squared_error: float) -> float:
    return math.sqrt(squared_error)


RMSE = Measure("rmse", _root, "{:.4g} off")
"""Of squared errors, in the targets' own units."""


@dataclass(frozen=True)
class TableTask:
    """Samples, the network that learns them, and how.

    Attributes
    ----------
    samples : Samples
        All rows, those that are held out among them.
    network : Dense
    training : SampleTraining
    scale_inputs : {"standard", "range", "none"}
        See `neuralfield.nn.scaling.fit_scaling`. Of the rows that are taught.
    scale_targets : {"auto", "standard", "range", "none"}
        ``auto``: as they are for a sigmoid output, and standard for a linear one.
    held_out_share : float
        Part of the rows that is not taught; see `neuralfield.tasks.table.samples.held_out_rows`.

    Raises
    ------
    ConfigError
        Settings that do not go together.
    InputError
        Targets that a sigmoid cannot give.
    """

    samples: Samples
    network: Dense
    training: SampleTraining
    scale_inputs: str = "standard"
    scale_targets: str = "auto"
    held_out_share: float = 0.0

    def __post_init__(self) -> None:
        is_sigmoid = self.network.output == "sigmoid"
        for name, known in (("scale_inputs", RULES), ("scale_targets", ("auto", *RULES))):
            if getattr(self, name) not in known:
                raise ConfigError(name, repr(getattr(self, name)), f"one of {', '.join(known)}")
        if is_sigmoid and self.scale_targets not in ("auto", "none"):
            expected = "auto or none, as the output is sigmoid"
            raise ConfigError("scale_targets", repr(self.scale_targets), expected)
        if self.training.loss == "binary_cross_entropy" and not is_sigmoid:
            found = f"{self.network.output!r} with the loss binary_cross_entropy"
            raise ConfigError("network: output", found, "sigmoid, whose values are probabilities")
        if is_sigmoid:
            self.samples.require_probabilities()

    @classmethod
    def from_settings(
        cls, samples: Samples, settings: Mapping[str, Any], training: Mapping[str, Any]
    ) -> Self:
        """A task as the sections `tables` and `training` of a config describe it."""
        return cls(
            samples,
            Dense(**{**settings["network"], "widths": tuple(settings["network"]["widths"])}),
            SampleTraining.from_mapping(of_the_training(training)),
            settings["scale_inputs"],
            settings["scale_targets"],
            settings["held_out_share"],
        )

    @property
    def provenance(self) -> dict[str, Any]:
        """That of every network of this task; see `TableModel.provenance`."""
        metadata = self.record() | {"training": self.training.described()}
        return replace(self.model, metadata=metadata).provenance

    @property
    def measure(self) -> Measure:
        """Accuracy of a sigmoid whose targets are all 0 or 1, and else the error's root."""
        return ACCURACY if self._counts_wrong else RMSE

    @cached_property
    def held_out(self) -> np.ndarray:
        """Which rows are not taught; bool, shape (n,)."""
        seed = self.training.random_seed
        return held_out_rows(self.samples.count, self.held_out_share, seed)

    @cached_property
    def taught(self) -> Samples:
        """The rows that are."""
        return self.samples.rows(~self.held_out)

    @cached_property
    def model(self) -> TableModel:
        """The network without weights: what its file says besides them."""
        rule = self.scale_targets
        if rule == "auto":
            rule = "none" if self.network.output == "sigmoid" else "standard"
        return TableModel(
            self.network,
            self.samples.inputs,
            self.samples.targets,
            fit_scaling(self.taught.input_values, self.scale_inputs),
            fit_scaling(self.taught.target_values, rule),
            {},
        )

    def fresh_network(self) -> Sequential:
        """A network with fresh weights.

        Raises
        ------
        ResourceError
            It is larger than the memory there is.
        """
        sizes = len(self.samples.inputs), len(self.samples.targets)
        require_memory_for(self.network.weight_shapes(*sizes), "network: widths")
        return self.network.build(*sizes, np.random.default_rng(self.training.random_seed))

    def problem(
        self,
        network: Sequential,
        optimizer: Optimizer,
        schedule: Schedule,
        device: Device,
        dtype: str,
    ) -> TableProblem:
        """What an engine is given."""
        settings = self.training
        inputs, targets = self._scaled
        return TableProblem(
            network=network,
            inputs=inputs,
            targets=targets,
            target_spread=self.model.target_scaling.spread,
            counts_wrong=self._counts_wrong,
            loss=settings.loss,
            huber_delta=settings.huber_delta,
            optimizer=optimizer,
            schedule=schedule,
            batches=Batches(device.xp, len(inputs), settings.batch_samples, settings.random_seed),
            dtype=dtype,
        )

    def identity(self) -> list[Any]:
        """Network, scaling and rows."""
        scaling = [self.scale_inputs, self.scale_targets]
        return ["table", asdict(self.network), scaling, self.held_out_share, self.samples.digest]

    def record(self) -> dict[str, Any]:
        """What a network's file says of what it was taught."""
        return {
            "table": self.samples.digest,
            "measure": self.measure.name,
            "held_out_share": self.held_out_share,
        }

    def save_network(self, path: Path, network: Sequential, record: Mapping[str, Any]) -> None:
        """Write a network so that it can predict anywhere."""
        save_table_model(path, network, self.model, record)

    def load_snapshot(self, path: Path, step: int, record: dict[str, Any]) -> dict[str, np.ndarray]:
        """Arrays of this training's network after some step."""
        model = self.model
        scaling = model.input_scaling, model.target_scaling
        of = TableModel(model.settings, model.inputs, model.targets, *scaling, {}, record)
        return load_snapshot(path, step, of, load_table_model).arrays

    @np.errstate(all="ignore")
    def squared_error(self, network: Sequential, device: Device, dtype: str) -> float:
        """Mean over a few thousand rows, in the network's units; may be infinite or NaN."""
        inputs, targets = self._scaled
        count = len(inputs)
        rows = np.linspace(0, count - 1, min(count, _MOST_ROWS_JUDGED)).astype(np.int64)
        values = network(device.asarray(inputs[rows], dtype=dtype)).data
        return float(((values - device.asarray(targets[rows], dtype=dtype)) ** 2).mean())

    @property
    def _counts_wrong(self) -> bool:
        return self.network.output == "sigmoid" and self.samples.are_classes()

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """The taught rows in the network's units."""
        inputs = self.model.input_scaling.apply(self.taught.input_values)
        return inputs, self.model.target_scaling.apply(self.taught.target_values)
