"""Where and with what a training is worked on: what the result does not depend on."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from neuralfield.system.device import Device
from neuralfield.system.heat import HeatGuard

Progress = Callable[[dict[str, float]], None]
"""Told a row of the history, as a mapping of its columns, whenever one is complete."""


@dataclass
class Run:
    """Where and with what a task is worked on: none of this changes the result.

    Attributes
    ----------
    device : Device
    state_folder : Path
        Beside the outputs, not one of them; kept for the next attempt.
    engine : str
        ``auto`` or an engine's name.
    threads : int
        CPU cores to use.
    checkpoint_interval_s : float
        At most this long between two saved states.
    progress : callable
    say : callable
        Told, in a line, whatever a user should know.
    leave_at_s : float
        When to save and leave, as `time.monotonic` has it.
    heat : HeatGuard, optional
        Pauses the training while the card is too hot.
    kept_folder : Path, optional
        Where the results stay when they are published; see `neuralfield.system.kept`.
    """

    device: Device
    state_folder: Path
    engine: str = "auto"
    threads: int = 1
    checkpoint_interval_s: float = 30.0
    progress: Progress = lambda row: None
    say: Callable[[str], None] = print
    leave_at_s: float = math.inf
    heat: HeatGuard | None = None
    kept_folder: Path | None = None
    notes: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        """Say something and keep it for the record."""
        self.notes.append(line)
        self.say(line)
