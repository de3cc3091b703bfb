"""A GPU without kernels, which records the launches on its streams."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from neuralfield.system.device import Device


class OutOfMemoryError(Exception):
    """A stand-in for the error that CuPy raises."""


class CudaError(Exception):
    """A stand-in for an error of CUDA, with its status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class RecordingGpu:
    """A stand-in for the part of CuPy that records and replays steps.

    Attributes
    ----------
    done : list of str
        Launches so far; launches in a capture are added when the captured graph is replayed.
    freed : int
        Number of times that memory was released.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.freed = 0
        self._captured: list[str] | None = None
        self.cuda = SimpleNamespace(
            Stream=lambda non_blocking: _Stream(self),
            Event=lambda disable_timing: SimpleNamespace(record=lambda stream: None),
            get_current_stream=lambda: _Stream(self),
            nvtx=SimpleNamespace(RangePush=lambda name: None, RangePop=lambda: None),
            memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
            runtime=SimpleNamespace(CUDARuntimeError=CudaError),
            driver=SimpleNamespace(CUDADriverError=CudaError),
        )
        self.zeros = np.zeros

    @property
    def device(self) -> Device:
        """The GPU as a `Device` of the package."""
        xp: Any = self
        return Device("gpu", "a GPU", xp)

    def launch(self, kernel: str) -> None:
        """Launch a kernel on the current stream."""
        (self.done if self._captured is None else self._captured).append(kernel)

    def get_default_memory_pool(self) -> Any:
        """Return a stand-in for CuPy's memory pool."""
        return SimpleNamespace(free_all_blocks=self._free)

    def _free(self) -> None:
        self.freed += 1


class _Stream:
    def __init__(self, gpu: RecordingGpu) -> None:
        self._gpu = gpu

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_event(self, event: object) -> None:
        pass

    def begin_capture(self) -> None:
        self._gpu._captured = []

    def end_capture(self) -> Any:
        captured, self._gpu._captured = self._gpu._captured, None
        assert captured is not None
        return SimpleNamespace(launch=lambda: self._gpu.done.extend(captured))


class FakeStage:
    """A stand-in for the stages sampling, pass and update, which launches kernels with its name.

    Parameters
    ----------
    gpu : RecordingGpu
    name : str
    is_constant : bool
        Whether every step has the same batch, if this is the sampling stage.
    """

    memory_bytes = 5

    def __init__(self, gpu: RecordingGpu, name: str, is_constant: bool = False) -> None:
        self._gpu, self.name, self.is_constant = gpu, name, is_constant
        self.variant = name
        self.totals = np.zeros(2)

    def launch(self) -> None:
        """Launch the stage on the current stream."""
        self._gpu.launch(self.name)

    def prepare(self) -> None:
        """Launch the preparation of the stage before the steps of a call."""
        self._gpu.launch(f"prepare {self.name}")

    def set_step(self, first_step: int) -> None:
        """Set the number of the first step on the current stream."""
        self._gpu.launch(f"step {first_step}")

    def memory_report(self) -> dict[str, int]:
        """Return the memory of the sampling stage."""
        return {"batch": 7}
