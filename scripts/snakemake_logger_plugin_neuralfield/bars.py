"""Progress bars at the bottom of a terminal: one per training, and a line for the whole run."""

import os
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TextIO

from tqdm import tqdm

from snakemake_logger_plugin_neuralfield.job import Progress

_OTHER_ROWS = 4
"""Rows of the terminal that are reserved for other lines."""

_USUAL_SIZE = (80, 20)
"""Assumed columns and rows of a terminal of unknown size, as in tqdm."""

_SHARE_OF_NAMES = 0.4
"""Maximum share of the columns that names take."""


class Bars:
    """Stacked bars on a terminal; other lines are written above them. The cursor stays visible."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream
        self._bars: list[tqdm] = []
        tqdm.monitor_interval = 0  # disables tqdm's thread, which would also draw
        tqdm.set_lock(threading.RLock())  # the default lock is for several processes

    def draw(self, trainings: Sequence[tuple[str, Progress]], line: str) -> None:
        """Draw a bar for each named training, as far as the rows suffice, and a line below them."""
        columns, rows = self._size()
        room = max(1, rows - _OTHER_ROWS)
        if len(trainings) > room:
            line = f"{len(trainings) - room} more trainings; {line}"
        trainings = trainings[:room]
        if len(self._bars) != len(trainings) + 1:
            self.clear()
            self._bars = [self._bar(place) for place in range(len(trainings) + 1)]
        longest = int(columns * _SHARE_OF_NAMES)
        # the ends of names differ more than their beginnings
        names = [n if len(n) <= longest else f"..{n[2 - longest :]}" for n, _ in trainings]
        widest = max(map(len, names), default=0)
        for bar, name, (_, progress) in zip(self._bars, names, trainings, strict=False):
            bar.total, bar.n = progress.steps, progress.step
            bar.bar_format = f"{name:{widest}} {{percentage:3.0f}}%|{{bar}}| {progress.in_short}"
        self._bars[-1].bar_format = line[: columns - 1]
        for bar in self._bars:
            bar.ncols = columns - 1
            bar.refresh()

    def clear(self) -> None:
        while self._bars:
            self._bars.pop().close()

    def aside(self) -> AbstractContextManager[None]:
        """Return a context in which the bars are cleared, so that other lines can be written."""
        return tqdm.external_write_mode(self.stream)

    def _size(self) -> tuple[int, int]:
        try:
            columns, rows = os.get_terminal_size(self.stream.fileno())
        except OSError:
            return _USUAL_SIZE
        return columns or _USUAL_SIZE[0], rows or _USUAL_SIZE[1]

    def _bar(self, place: int) -> tqdm:
        # the format is empty until the first progress is drawn
        return tqdm(total=1, position=place, file=self.stream, leave=False, bar_format="{desc}")
