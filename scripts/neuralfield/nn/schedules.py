"""Learning rate schedules, which are pure functions of the step, so that they have no state."""

import math
from dataclasses import dataclass, replace

from neuralfield.system.errors import ConfigError

SCHEDULES = ("cosine", "exponential", "constant")


@dataclass(frozen=True)
class Schedule:
    """The learning rate at every step.

    ``cosine`` is cosine annealing without restarts (Loshchilov & Hutter 2017, equation 5):

        lr_min + (lr_max - lr_min) * 0.5 * (1 + cos(pi * i / (steps + epoch_offset)))

    ``exponential``, for which `minimum_learning_rate` must be above 0, decreases by the same factor
    in every step:

        lr_max * (lr_min / lr_max) ** (i / (steps + epoch_offset))
    """

    name: str  # one of `SCHEDULES`
    learning_rate: float  # the highest rate, lr_max
    minimum_learning_rate: float  # the rate at the end of cosine and exponential, lr_min
    steps: int  # steps of the whole training
    epoch_offset: int = 0  # steps by which the schedule extends beyond the last step
    warmup_steps: int = 0
    """Number of steps over which the rate rises linearly from 0 to that of the schedule."""

    def __post_init__(self) -> None:
        if self.name == "exponential" and not self.minimum_learning_rate > 0:
            found = f"{self.minimum_learning_rate:g}"
            expected = "a number above 0, where an exponential schedule ends"
            raise ConfigError("training.minimum_learning_rate", found, expected)

    def at_rest(self) -> "Schedule":
        """Return a schedule of the same length with rate 0, whose steps change nothing."""
        return replace(self, name="constant", learning_rate=0.0, minimum_learning_rate=0.0)

    @property
    def period(self) -> int:
        """Number of steps from the highest rate to the lowest."""
        return max(self.steps + self.epoch_offset, 1)

    def __call__(self, step: int) -> float:
        """Return the rate of the update that follows `step` completed updates."""
        rate, place = self.learning_rate, min(step, self.period)
        if self.name == "cosine":
            spread = self.learning_rate - self.minimum_learning_rate
            cosine = 0.5 * (1 + math.cos(math.pi * place / self.period))
            rate = self.minimum_learning_rate + spread * cosine
        elif self.name == "exponential":
            rate *= (self.minimum_learning_rate / self.learning_rate) ** (place / self.period)
        if step < self.warmup_steps:
            rate *= (step + 1) / self.warmup_steps
        return rate
