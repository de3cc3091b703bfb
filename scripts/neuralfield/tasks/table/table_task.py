"""The task of fitting a network to a table."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Self, Unpack

import numpy as np

from neuralfield.nn.network import Sequential, require_memory_for
from neuralfield.nn.sampling import Batches
from neuralfield.nn.scaling import RULES, fit_scaling
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.table.samples import Samples, held_out_rows
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.tasks.table.table_objective import TableObjective
from neuralfield.tasks.task import ACCURACY, Measure, Shared, Task
from neuralfield.tasks.training_settings import SampleTraining, of_the_training

RMSE = Measure("rmse", math.sqrt, "error {:.4g}")
"""The measure for squared errors, in the targets' units."""


@dataclass(frozen=True)
class TableTask(Task):
    """The task of fitting a network to samples."""

    samples: Samples  # all rows, including those that are held out
    network: Dense
    training: SampleTraining
    scale_inputs: str = "standard"
    """Rule of `neuralfield.nn.scaling.fit_scaling`, which is applied to the training rows."""
    scale_targets: str = "auto"
    """A rule like `scale_inputs`, or ``auto``: none for a sigmoid output, standard for a linear
    output."""
    held_out_share: float = 0.0  # fraction of the rows for evaluation; see `held_out_rows`

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
        """Create a task from the sections `tables` and `training` of a config."""
        return cls(
            samples,
            Dense.from_mapping(settings["network"]),
            SampleTraining.from_mapping(of_the_training(training)),
            settings["scale_inputs"],
            settings["scale_targets"],
            settings["held_out_share"],
        )

    @property
    def measure(self) -> Measure:
        """Accuracy if the output is a sigmoid and all targets are 0 or 1; otherwise the root mean
        squared error."""
        return ACCURACY if self._counts_wrong else RMSE

    @cached_property
    def held_out(self) -> np.ndarray:
        """The rows that are kept for evaluation; bool, shape (n,)."""
        seed = self.training.random_seed
        return held_out_rows(self.samples.count, self.held_out_share, seed)

    @cached_property
    def training_rows(self) -> Samples:
        return self.samples.rows(~self.held_out)

    @cached_property
    def model(self) -> TableModel:
        rule = self.scale_targets
        if rule == "auto":
            rule = "none" if self.network.output == "sigmoid" else "standard"
        return TableModel(
            self.network,
            self.samples.inputs,
            self.samples.targets,
            fit_scaling(self.training_rows.input_values, self.scale_inputs),
            fit_scaling(self.training_rows.target_values, rule),
            {},
        )

    def fresh_network(self) -> Sequential:
        sizes = len(self.samples.inputs), len(self.samples.targets)
        require_memory_for(self.network.weight_shapes(*sizes), "network: widths")
        return self.network.build(*sizes, np.random.default_rng(self.training.random_seed))

    def objective(self, network: Sequential, **shared: Unpack[Shared]) -> TableObjective:
        settings = self.training
        inputs, targets = self._scaled
        batch, seed = settings.batch_samples, settings.random_seed
        return TableObjective(
            network=network,
            inputs=inputs,
            targets=targets,
            target_spread=self.model.target_scaling.spread,
            counts_wrong=self._counts_wrong,
            batches=Batches(shared["device"].xp, len(inputs), batch, seed),
            **shared,
        )

    def identity(self) -> list[Any]:
        scaling = [self.scale_inputs, self.scale_targets]
        return ["table", asdict(self.network), scaling, self.held_out_share, self.samples.digest]

    def record(self) -> dict[str, Any]:
        return {
            "table": self.samples.digest,
            "measure": self.measure.name,
            "held_out_share": self.held_out_share,
        }

    @property
    def _counts_wrong(self) -> bool:
        return self.network.output == "sigmoid" and self.samples.are_classes()

    @cached_property
    def _scaled(self) -> tuple[np.ndarray, np.ndarray]:
        """The training rows in the network's units."""
        inputs = self.model.input_scaling.apply(self.training_rows.input_values)
        return inputs, self.model.target_scaling.apply(self.training_rows.target_values)
