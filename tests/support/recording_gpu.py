"""A GPU without kernels: it records what is put on its streams."""

from types import SimpleNamespace
from typing import Any

import numpy as np

from neuralfield.system.device import Device


class OutOfMemoryError(Exception):
    """This stands for the error that CuPy raises."""


class CudaError(Exception):
    """This stands for an error of CUDA, with its status."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status = status


class RecordingGpu:
    """Stands for CuPy, as far as steps are recorded and replayed.

    Attributes
    ----------
    done : list of str
        What has been done so far; launches in a capture are done when its graph is replayed.
    freed : int
        How often memory was given back.
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
        """Return the GPU as the package knows it."""
        xp: Any = self
        return Device("gpu", "a GPU", xp)

    def launch(self, kernel: str) -> None:
        """Put a kernel on the current stream."""
        (self.done if self._captured is None else self._captured).append(kernel)

    def get_default_memory_pool(self) -> Any:
        """CuPy's."""
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
    """Sampling, pass and update in one: launches of a name.

    Parameters
    ----------
    gpu : RecordingGpu
    name : str
    is_constant : bool
        Of sampling.
    """

    memory_bytes = 5

    def __init__(self, gpu: RecordingGpu, name: str, is_constant: bool = False) -> None:
        self._gpu, self.name, self.is_constant = gpu, name, is_constant
        self.totals = np.zeros(2)

    def launch(self) -> None:
        """Put the stage on the current stream."""
        self._gpu.launch(self.name)

    def launch_first(self, first_step: int) -> None:
        """Put on the current stream what is due of the stage before steps."""
        self._gpu.launch(f"{self.name} first, at {first_step}")

    def prepare(self) -> None:
        """Put on the current stream what is due before steps."""
        self._gpu.launch(f"prepare {self.name}")

    def set_step(self, first_step: int) -> None:
        """Put on the current stream where steps begin."""
        self._gpu.launch(f"step {first_step}")

    def begin(self, first_step: int) -> None:
        """Put on the current stream what is due of a batch's update before steps."""
        self._gpu.launch(f"{self.name} begins at {first_step}")

    def memory_report(self) -> dict[str, int]:
        """Return the memory of sampling."""
        return {"batch": 7}
