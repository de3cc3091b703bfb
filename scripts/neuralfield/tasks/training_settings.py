"""The settings of a training run, checked, with their defaults."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from neuralfield.system.errors import ConfigError

HOW_AND_WHERE = (
    *("device", "engine", "threads", "checkpoint_interval_s", "segments"),
    *("time_limit_s", "time_margin_s", "max_temperature_celsius"),
)
"""Settings of the section `training` of a config that are not of the training itself."""

_LEFT_OUT_WHERE_OFF = ("gradient_clip_norm", "keep_best")


@dataclass(frozen=True)
class TrainingSettings:
    """How a network is taught, whatever it is taught. The keys are those of the config.

    Attributes
    ----------
    steps : int
        Updates of the weights.
    loss : {"mse", "binary_cross_entropy", "huber"}
    huber_delta : float
    optimizer : {"adam", "muon", "sgd"}
    learning_rate, minimum_learning_rate : float
    momentum, beta1, beta2 : float
    schedule : {"cosine", "exponential", "constant"}
    epoch_offset, warmup_steps : int
        See `neuralfield.nn.schedules.Schedule`.
    gradient_clip_norm : float, optional
        The largest norm of all gradients together; None: whatever it is.
    keep_best : bool
        Whether the network that is saved is the best one seen, and not the last; see
        `neuralfield.training.trainer.Best`.
    precision : {"auto", "mixed", "float32", "float64"}
        Of the numbers. ``mixed``: products of 16-bit numbers, added up in float32, on the cuda
        engine; ``auto``: that where it can be had, and float32 elsewhere.
    random_seed : int
    snapshots : int
        Snapshots kept for the film, log-spaced over the steps.
    """

    steps: int = 2000
    loss: str = "mse"
    huber_delta: float = 0.1
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    minimum_learning_rate: float = 0.0
    momentum: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.999
    schedule: str = "cosine"
    epoch_offset: int = 0
    warmup_steps: int = 0
    gradient_clip_norm: float | None = None
    keep_best: bool = False
    precision: str = "auto"
    random_seed: int = 0
    snapshots: int = 60

    def __post_init__(self) -> None:
        self._require("steps", 1)
        self._require("snapshots", 2)
        self._require("random_seed", 0)
        self._require("epoch_offset", 0)
        self._require("warmup_steps", 0)
        if not self.learning_rate > 0:
            raise ConfigError("training.learning_rate", self.learning_rate, "a number above 0")
        if self.gradient_clip_norm is not None and not self.gradient_clip_norm > 0:
            found = self.gradient_clip_norm
            raise ConfigError("training.gradient_clip_norm", found, "a number above 0")
        self._require_one_of("precision", "auto", "mixed", "float32", "float64")

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any]) -> Self:
        """Read settings; unknown keys are errors.

        Raises
        ------
        ConfigError
        """
        known = [field.name for field in dataclasses.fields(cls)]
        unknown = sorted(set(given) - set(known))
        if unknown:
            raise ConfigError("training", f"unknown {unknown}", f"some of {', '.join(known)}")
        return cls(**given)

    def described(self) -> dict[str, Any]:
        """The settings as plain values, for names and records of a training.

        Without what came later and is not in use, so that older trainings keep their names.
        """
        plain = dataclasses.asdict(self)
        return {n: v for n, v in plain.items() if n not in _LEFT_OUT_WHERE_OFF or v}

    def _require(self, name: str, at_least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            expected = f"a whole number from {at_least} up"
            raise ConfigError(f"training.{name}", repr(value), expected)

    def _require_one_of(self, name: str, *choices: str) -> None:
        value = getattr(self, name)
        if value not in choices:
            raise ConfigError(f"training.{name}", repr(value), " or ".join(choices))


@dataclass(frozen=True)
class PictureTraining(TrainingSettings):
    """How a field is taught a picture.

    Attributes
    ----------
    batch_pixels : int
        Pixels looked at in each step; 0: all.
    detail_share : float
        Part of each batch chosen by contrast; see `neuralfield.nn.sampling.detail_density`. Without
        effect where a batch is the whole picture.
    supervision : {"point", "footprint"}
        Fit the value at a pixel's centre, or the mean over its square.
    footprint_points : int
        Points a pixel and step under footprint supervision, from 2 to 64.
    """

    batch_pixels: int = 2048
    detail_share: float = 0.5
    supervision: str = "footprint"
    footprint_points: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("batch_pixels", 0)
        self._require("footprint_points", 1)
        if not 0 <= self.detail_share <= 1:
            raise ConfigError("training.detail_share", self.detail_share, "a number from 0 to 1")
        self._require_one_of("supervision", "point", "footprint")


@dataclass(frozen=True)
class SampleTraining(TrainingSettings):
    """How a network is taught samples: the rows of a table, or pictures with labels.

    Attributes
    ----------
    batch_samples : int
        Those looked at in each step; 0: all.
    """

    learning_rate: float = 1e-2
    snapshots: int = 12
    batch_samples: int = 256

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require("batch_samples", 0)


@dataclass(frozen=True)
class ClassifierTraining(SampleTraining):
    """How a network is taught to tell pictures apart.

    Attributes
    ----------
    loss : {"cross_entropy"}
        See `neuralfield.nn.losses.softmax_cross_entropy`.
    """

    learning_rate: float = 1e-3
    loss: str = "cross_entropy"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._require_one_of("loss", "cross_entropy")


def of_the_training(training: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a config's section `training` that the training itself is made of."""
    return {key: value for key, value in training.items() if key not in HOW_AND_WHERE}


def log_spaced_steps(steps: int, count: int) -> list[int]:
    """At most `count` different steps from 0 to `steps`, both among them, denser at the start.

    Most is learned early.
    """
    if count <= 1 or steps <= 1:
        return sorted({0, steps})
    ratio = (steps + 1) ** (1 / (count - 1))
    return sorted({min(steps, round(ratio**i) - 1) for i in range(count - 1)} | {steps})
