"""An engine for NVIDIA GPUs: three stages, recorded once as graphs and replayed.

A step is sampling, a pass (forward, loss, backward) and the update. A call of `run` allocates
nothing and copies nothing between GPU and host.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from neuralfield.engines.cuda.buffers import Pass
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.engines.cuda.recorded_steps import RecordedSteps, named_range
from neuralfield.engines.cuda.stages.sampling import SamplingStage
from neuralfield.engines.cuda.stages.update import UpdateStage, working_bytes
from neuralfield.engines.kernel_plan import SCHEDULES, NotCovered, no_kernels_for
from neuralfield.nn.optimizers import Adam, Muon, Sgd, unclipped
from neuralfield.system.device import Device, require_memory
from neuralfield.system.errors import ResourceError
from neuralfield.tasks.task import Objective

_LEAST_CAPABILITY = 75
_OUT_OF_MEMORY = 2
"""Status of CUDA's out-of-memory errors."""


@dataclass(frozen=True)
class Stages:
    """The stages of a step."""

    sampling: SamplingStage
    own_pass: Pass
    update: UpdateStage


class RecordedEngine:
    """Takes training steps entirely on the GPU.

    The steps run on a separate stream, in order with the caller's current stream. The objective's
    parameters and the optimizer's state are views of the flat arrays that the update changes.
    """

    name = "cuda"
    most_steps = 1 << 20

    def __init__(
        self, device: Device, objective: Objective, stages: Stages, precision: str
    ) -> None:
        self._device, self._cuda, self.objective = device, device.xp.cuda, objective
        self.stages, self.precision = stages, precision
        self.variant = stages.own_pass.variant
        self.totals = stages.update.totals
        device.synchronize()
        self._steps = RecordedSteps(device, self._begin, self._launch_step)
        self._steps.record(stages.sampling.launch, stages.own_pass.launch)

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and error to `totals`.

        Returns at once; work that the caller then puts on its current stream waits for the steps.
        """
        self._steps.run(first_step, count)

    def memory_report(self) -> dict[str, int]:
        """Count the bytes on the GPU by purpose; a closed engine cannot report them."""
        tensors = self.objective.network.parameters.values()
        return {
            "parameters": sum(tensor.data.nbytes for tensor in tensors),
            "optimizer": self.stages.update.memory_bytes,
            **self.stages.sampling.memory_report(),
            "pass": self.stages.own_pass.memory_bytes,
        }

    def close(self) -> None:
        """Release the GPU memory of everything except the network and the optimizer."""
        self._steps.close()
        self.__dict__.pop("stages", None)
        self._device.xp.get_default_memory_pool().free_all_blocks()

    def _begin(self, first_step: int) -> None:
        self.stages.update.set_step(first_step)
        self.stages.own_pass.prepare()

    def _launch_step(self) -> None:
        stages = self.stages
        if not stages.sampling.is_constant:
            with named_range(self._cuda, "sampling"):
                stages.sampling.launch()
        with named_range(self._cuda, f"pass: {stages.own_pass.name}"):
            stages.own_pass.launch()
        with named_range(self._cuda, "update"):
            stages.update.launch()


def require_kernels(objective: Objective, precision: str, device: Device) -> None:
    """Raise `NotCovered` if the cuda engine cannot train on a device or update the parameters."""
    if device.kind != "gpu":
        raise NotCovered("the cuda engine needs a GPU")
    if precision == "float64":
        computes = "the cuda engine computes in mixed precision or float32, not in float64"
        raise NotCovered(computes)
    capability = compute_capability(device)
    if capability < _LEAST_CAPABILITY:
        found = f"{capability // 10}.{capability % 10}"
        raise NotCovered(f"the cuda engine needs compute capability 7.5, this GPU has {found}")
    optimizer = unclipped(objective.optimizer)
    if not isinstance(optimizer, Adam | Muon | Sgd):
        raise no_kernels_for(f"the optimizer {type(optimizer).__name__}")
    if objective.schedule.name not in SCHEDULES:
        raise no_kernels_for(f"the schedule {objective.schedule.name}")


@contextmanager
def made_in_memory(
    objective: Objective, device: Device, own_bytes: int, remedy: str
) -> Iterator[None]:
    """Raise `ResourceError` if the GPU has too little memory for an engine that is made inside.

    `own_bytes` is the memory that the engine needs in addition to that of the parameters, of the
    optimizer's state and of the optimizer's work.
    """
    network, optimizer = objective.network, objective.optimizer
    parameters = 4 * network.parameter_count + working_bytes(optimizer, network.parameters)
    state = sum(array.nbytes for array in optimizer.state.values())
    require_memory(own_bytes + parameters + state, device, "training", remedy)
    with memory_in_words(device, remedy):
        yield


@contextmanager
def memory_in_words(device: Device, remedy: str) -> Iterator[None]:
    """Turn CuPy's and CUDA's out-of-memory errors into a `ResourceError` with a remedy."""
    cuda: Any = device.xp.cuda
    errors = (
        cuda.memory.OutOfMemoryError,
        cuda.runtime.CUDARuntimeError,
        cuda.driver.CUDADriverError,
    )
    try:
        yield
    except errors as error:
        if getattr(error, "status", _OUT_OF_MEMORY) != _OUT_OF_MEMORY:
            raise
        device.xp.get_default_memory_pool().free_all_blocks()
        expected = f"at most the free memory of {device.name}"
        raise ResourceError("training", f"{error}", expected, remedy) from error
