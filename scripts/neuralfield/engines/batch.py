"""Steps of several trainings at once: many small networks in one job.

Here each member of a batch has an engine of its own, and members are shared out among threads, so
that a member's bytes are those it has alone. It is the place for engines that know all members: one
that keeps their weights stacked and takes a step of all in one launch would give the trainers
engines that are views of its arrays, take steps here, and then do the follow-up of each. Which
members a call names is not always all: one that has gone back catches up alone. The workflow puts
networks of one kind together, with the same settings but for seeds and rates; whether pictures have
the same channels it may not know, so that is to be looked at.
"""

import time
from collections.abc import Callable, Sequence

from neuralfield.device import Device
from neuralfield.engines import Engine
from neuralfield.engines.crew import Crew


class EngineBatch:
    """Takes steps of several engines, side by side on a processor's cores.

    Parameters
    ----------
    device : Device
        A card has one queue of work: there engines take their turns.
    side_by_side : int
        How many engines are at work at the same time, at the most.
    """

    def __init__(self, device: Device, side_by_side: int) -> None:
        self._device = device
        on_cores = device.kind == "cpu" and side_by_side > 1
        self._crew = Crew(side_by_side) if on_cores else None

    def run(
        self,
        engines: Sequence[Engine],
        first_step: int,
        count: int,
        follow_up: Callable[[int, float], None],
    ) -> None:
        """Take `count` steps with each, and do what is due after them.

        Parameters
        ----------
        engines : sequence of Engine
            Those of the members whose turn it is.
        first_step : int
            Steps that each has taken before.
        count : int
        follow_up : callable
            Told the place in `engines`, and the seconds that its steps have taken, alone on its
            cores. One member's may be done while others take steps.
        """

        def work(place: int) -> None:
            started_s = time.perf_counter()
            engines[place].run(first_step, count)
            self._device.synchronize()
            follow_up(place, time.perf_counter() - started_s)

        self.each(work, len(engines))

    def each(self, work: Callable[[int], None], count: int) -> None:
        """Do something for each of `count` members, side by side."""
        if self._crew:
            self._crew.run(lambda place, _: work(place), count)
        else:
            for place in range(count):
                work(place)

    def close(self) -> None:
        """Let the threads go."""
        if self._crew:
            self._crew.close()
