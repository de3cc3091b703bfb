"""The line on the setting that ends in an image, where a time limit ends a training without one."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from neuralfield.system.interruption import Interrupted, TimeLimitReached


@contextmanager
def naming_budgets(training: Mapping[str, Any]) -> Iterator[None]:
    """Name the setting that ends in an image, where the time limit ends a training without one."""
    try:
        yield
    except TimeLimitReached as pause:
        if "time_limit_s" not in training or training.get("segments") != 1:  # or it is a table's
            raise
        instead = f"budget={training['time_limit_s']:g} ends with an image after that time"
        raise Interrupted(f"{pause}; {instead}") from pause
