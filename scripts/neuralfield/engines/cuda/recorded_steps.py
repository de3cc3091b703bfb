"""Steps that are recorded once as graphs and replayed on a separate stream."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from neuralfield.system.device import Device

_STEPS_OF_GRAPHS = (16, 1)


class RecordedSteps:
    """Records the kernels of a step, and runs them in order with the caller's current stream.

    `launch` puts the kernels of one step on the current stream. `begin` is called with the number
    of finished steps, and puts there the work that has to precede the next step. A call of `run`
    allocates nothing and copies nothing between GPU and host. With ``NEURALFIELD_PROFILE=1`` in the
    environment nothing is recorded, and kernels are launched one by one.
    """

    def __init__(
        self, device: Device, begin: Callable[[int], None], launch: Callable[[], None]
    ) -> None:
        cuda = device.xp.cuda
        self._cuda, self._begin, self._launch = cuda, begin, launch
        self.stream = cuda.Stream(non_blocking=True)
        self._before, self._after = (cuda.Event(disable_timing=True) for _ in range(2))
        self._is_profiled = os.environ.get("NEURALFIELD_PROFILE") == "1"
        self._graphs: list[tuple[int, Any]] = []

    def record(self, *launches: Callable[[], None]) -> None:
        """Record the steps.

        Before that, `launches`, which are the stages of a step in order except those that update
        parameters, are called once, so that the one-time work of kernels is done before a capture.
        """
        with self.stream:
            self._begin(0)
            for launch in launches:
                launch()
            self.stream.synchronize()
        if not self._is_profiled:
            with named_range(self._cuda, "capture"), self.stream:
                self._graphs = [(count, self._capture(count)) for count in _STEPS_OF_GRAPHS]

    def run(self, first_step: int, count: int) -> None:
        """Take steps; returns at once, and the caller's current stream waits for them."""
        current = self._cuda.get_current_stream()
        self._before.record(current)
        self.stream.wait_event(self._before)
        with named_range(self._cuda, f"run {count} steps"), self.stream:
            self._begin(first_step)
            if self._is_profiled:
                for _ in range(count):
                    self._launch()
            for steps_of_graph, graph in self._graphs:
                launches, count = divmod(count, steps_of_graph)
                for _ in range(launches):
                    graph.launch()
        self._after.record(self.stream)
        current.wait_event(self._after)

    def close(self) -> None:
        """Wait for the steps, and release the graphs."""
        self.stream.synchronize()
        self._graphs = []

    def _capture(self, count: int) -> Any:
        self.stream.begin_capture()
        try:
            for _ in range(count):
                self._launch()
        except BaseException:
            with suppress(Exception):  # the first error says more
                self.stream.end_capture()
            raise
        return self.stream.end_capture()


@contextmanager
def named_range(cuda: Any, name: str) -> Iterator[None]:
    """Name a range of a profile; `cuda` is ``cupy.cuda``."""
    cuda.nvtx.RangePush(name)
    try:
        yield
    finally:
        cuda.nvtx.RangePop()
