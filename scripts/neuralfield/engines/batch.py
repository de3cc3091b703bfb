"""Steps of several trainings at once: many small networks in one job.

Here each member of a batch has an engine of its own, and members are shared out among threads, so
that a member's bytes are those it has alone. It is the place for engines that know all members: one
that keeps their weights stacked and takes a step of all in one launch would give the trainers
engines that are views of its arrays, and take steps here. Which members a call names is not always
all: one that has gone back catches up alone. Members have the same kind of network and the same
settings but for seeds and rates; pictures of other shapes may be among them where a file's content
says what its name and header did not, and are to be looked for.
"""

from collections.abc import Sequence

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
        on_cores = device.kind == "cpu" and side_by_side > 1
        self.side_by_side = side_by_side if on_cores else 1
        self._crew = Crew(side_by_side) if on_cores else None

    def run(self, engines: Sequence[Engine], first_step: int, count: int) -> None:
        """Take `count` steps with each; may return early, as `Engine.run` may.

        Parameters
        ----------
        engines : sequence of Engine
            Those of the members whose turn it is.
        first_step : int
            Steps that each has taken before.
        count : int
        """
        if self._crew:
            self._crew.run(lambda piece, _: engines[piece].run(first_step, count), len(engines))
        else:
            for engine in engines:
                engine.run(first_step, count)

    def share(self, members: int) -> float:
        """Which part of the time that a call takes is each member's, were it alone on its core."""
        return min(self.side_by_side, members) / members

    def close(self) -> None:
        """Let the threads go."""
        if self._crew:
            self._crew.close()
