"""What the engines for NVIDIA cards share: three stages, recorded once as graphs and replayed.

A step is sampling, a pass (forward, loss, backward) and the update. Within a call nothing is
allocated and nothing is copied between card and host.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, Protocol, TypeVar

from neuralfield.engines.cuda.buffers import Pass
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.engines.cuda.recorded_steps import RecordedSteps, named_range
from neuralfield.engines.cuda.stages.update import UpdateStage
from neuralfield.engines.plan import SCHEDULES
from neuralfield.nn.optimizers import Adam, Muon, Sgd, unclipped
from neuralfield.system.device import Array, Device
from neuralfield.system.errors import ResourceError
from neuralfield.tasks.objective import Problem

_LEAST_CAPABILITY = 75
_OUT_OF_MEMORY = 2
"""The status of CUDA's own errors that says so."""

_WHERE = "training"


class Sampling(Protocol):
    """Fills a step's batch."""

    is_constant: bool
    """Whether every step's batch is the same: the stage then has to run only once."""

    def memory_report(self) -> dict[str, int]:
        """Bytes on the card, by what they are for."""
        ...

    def launch(self) -> None:
        """Put the stage on the current stream."""
        ...


AnySampling = TypeVar("AnySampling", bound=Sampling)


class RecordedEngine(Generic[AnySampling]):
    """Training steps that stay on the card.

    Work goes to a stream of its own, in order with the caller's current stream. Whoever extends it
    sets `precision` and `variant` first.

    Parameters
    ----------
    device : Device
    problem : Problem
        With a network in float32; its parameters and the optimizer's state become views of flat
        arrays.
    prepare : callable
        Makes sampling and pass, and hands them to `_set_stages`.
    remedy : str
        What to do where memory ends.

    Raises
    ------
    ResourceError
        The card has too little memory.
    """

    name = "cuda"
    variant: str
    """Which pass it is."""
    precision: str
    most_steps = 1 << 20

    _sampling: AnySampling
    _pass: Pass
    _update: UpdateStage

    def __init__(
        self, device: Device, problem: Problem, prepare: Callable[[], None], remedy: str
    ) -> None:
        xp = device.xp
        self._device, self._cuda, self._problem = device, xp.cuda, problem
        self._steps = RecordedSteps(device, self._begin, self._launch_step)
        self.totals = xp.zeros(2)
        try:
            with memory_in_words(device, remedy):
                with named_range(self._cuda, "compile"):
                    prepare()
                xp.cuda.get_current_stream().synchronize()
                self._steps.warm_up(self._sampling, self._pass)
                self._steps.record()
        except ResourceError:
            self.close()
            raise

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and error to `totals`.

        Returns at once; whatever the caller puts on its current stream waits for the steps.

        Parameters
        ----------
        first_step : int
            Steps taken before.
        count : int
        """
        self._steps.run(first_step, count)

    def memory_report(self) -> dict[str, int]:
        """Bytes on the card, by what they are for; not of an engine that is closed."""
        tensors = self._problem.network.parameters.values()
        return {
            "parameters": sum(tensor.data.nbytes for tensor in tensors),
            "optimizer": self._update.memory_bytes,
            **self._sampling.memory_report(),
            "pass": self._pass.memory_bytes,
        }

    def close(self) -> None:
        """Give the card's memory back, but for the network's and the optimizer's."""
        self._steps.close()
        for name in ("_pass", "_sampling", "_update"):
            self.__dict__.pop(name, None)
        self._device.xp.get_default_memory_pool().free_all_blocks()

    def _set_stages(
        self, sampling: AnySampling, own_pass: Pass, parameters: Array, step: Array
    ) -> None:
        """Take two stages, and make the update that goes with them.

        Parameters
        ----------
        sampling : Sampling
        own_pass : Pass
        parameters : array of float32, shape (n,)
            All parameters one after another.
        step : array of int64, shape ()
            Steps finished so far, on the card.
        """
        self._sampling, self._pass = sampling, own_pass
        self._update = UpdateStage(
            self._device,
            self._problem,
            parameters,
            own_pass.partial_gradients(),
            own_pass.loss_partials,
            self.totals,
            step,
            self.precision,
        )

    def _begin(self, first_step: int) -> None:
        self._update.set_step(first_step)
        self._pass.prepare()

    def _launch_step(self) -> None:
        if not self._sampling.is_constant:
            with named_range(self._cuda, "sampling"):
                self._sampling.launch()
        with named_range(self._cuda, f"pass: {self._pass.name}"):
            self._pass.launch()
        with named_range(self._cuda, "update"):
            self._update.launch()


def reason_against_card(precision: str, device: Device) -> str | None:
    """Why the cuda engine cannot work here, whatever the problem; None where it can."""
    if device.kind != "gpu":
        return "the cuda engine needs a GPU"
    if precision == "float64":
        return "the cuda engine computes in mixed precision or float32, not in float64"
    capability = compute_capability(device)
    if capability < _LEAST_CAPABILITY:
        found = f"{capability // 10}.{capability % 10}"
        return f"the cuda engine needs compute capability 7.5, this card has {found}"
    return None


def unknown_rule(problem: Problem) -> str | None:
    """Of how parameters are moved, what the update has no code for; None: it has it for all."""
    optimizer = unclipped(problem.optimizer)
    if not isinstance(optimizer, Adam | Muon | Sgd):
        return f"the optimizer {type(optimizer).__name__}"
    if problem.schedule.name not in SCHEDULES:
        return f"the schedule {problem.schedule.name}"
    return None


@contextmanager
def memory_in_words(device: Device, remedy: str) -> Iterator[None]:
    """Have CuPy's and CUDA's errors about used-up memory say what to do.

    Raises
    ------
    ResourceError
    """
    try:
        yield
    except _memory_errors(device.xp) as error:
        if getattr(error, "status", _OUT_OF_MEMORY) != _OUT_OF_MEMORY:
            raise
        raise ResourceError(
            _WHERE, f"{error}", f"no more than {device.name} has free", remedy
        ) from error


def _memory_errors(xp: Any) -> tuple[type[Exception], ...]:
    """What CuPy raises where the card's memory is used up, and where other things go wrong."""
    cuda = xp.cuda
    return (
        cuda.memory.OutOfMemoryError,
        cuda.runtime.CUDARuntimeError,
        cuda.driver.CUDADriverError,
    )
