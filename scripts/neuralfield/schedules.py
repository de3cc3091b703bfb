"""How the learning rate changes with the step: a pure function of it, so nothing is saved."""

import math
from dataclasses import dataclass

from neuralfield.errors import ConfigError


@dataclass(frozen=True)
class Schedule:
    """The learning rate at every step.

    ``cosine`` is cosine annealing without restarts (Loshchilov & Hutter 2017, equation 5):

        lr_min + (lr_max - lr_min) * 0.5 * (1 + cos(pi * i / (steps + epoch_offset)))

    Attributes
    ----------
    name : {"cosine", "constant"}
    learning_rate : float
        The highest rate, lr_max.
    minimum_learning_rate : float
        The rate the cosine ends at, lr_min.
    steps : int
        Steps of the whole training.
    epoch_offset : int
        Stretches the cosine beyond the last step, so that the rate does not quite reach its end.
    warmup_steps : int
        The rate rises linearly over these steps before the schedule takes over in full.
    """

    name: str
    learning_rate: float
    minimum_learning_rate: float
    steps: int
    epoch_offset: int = 0
    warmup_steps: int = 0

    def __post_init__(self) -> None:
        if self.name not in ("cosine", "constant"):
            raise ConfigError("training.schedule", repr(self.name), "cosine or constant")

    @property
    def period(self) -> int:
        """Steps from the cosine's beginning to its end."""
        return max(self.steps + self.epoch_offset, 1)

    def __call__(self, step: int) -> float:
        """The rate of the update that follows `step` finished ones (0 for the first)."""
        rate = self.learning_rate
        if self.name == "cosine":
            spread = self.learning_rate - self.minimum_learning_rate
            cosine = 0.5 * (1 + math.cos(math.pi * min(step, self.period) / self.period))
            rate = self.minimum_learning_rate + spread * cosine
        if step < self.warmup_steps:
            rate *= (step + 1) / self.warmup_steps
        return rate
