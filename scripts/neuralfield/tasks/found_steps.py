"""The number of steps and the batch size found for a training's budget, as stored in a file."""

from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.input_files import read_json
from neuralfield.system.settings import settings_of
from neuralfield.tasks.training_settings import ImageTraining

FILE_NAME = "budget.json"

_FOUND = ("steps", "batch_pixels", "warmup_steps", "footprint_points")


@dataclass(frozen=True)
class FoundSteps:
    """The number of steps and the batch size that were found for a budget."""

    training: dict[str, int]
    """The settings that were found; if they are given instead of the budget, the same network is
    trained."""
    step_s: float  # measured duration of a step
    # the device on which it was measured; see `neuralfield.system.device.Device`
    device: str
    device_kind: str
    threads: int
    budget_s: float
    measured_for: str  # digest of the training for which the settings were found

    @property
    def steps(self) -> int:
        return self.training["steps"]

    @classmethod
    def read(cls, path: Path) -> Self | None:
        """Read a file; return None if there is none or it is damaged."""
        with suppress(NeuralfieldError, TypeError, AttributeError):
            found = cls(**read_json(path))
            rules = settings_of(ImageTraining)
            is_whole = {*_FOUND[:2]} <= {*found.training} <= {*_FOUND}
            if is_whole and all(rules[key].allows(n) for key, n in found.training.items()):
                return replace(found, step_s=float(found.step_s))
        return None
