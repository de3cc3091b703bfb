"""The engine for NVIDIA cards: fused kernels, recorded once as a graph and replayed.

A step is three stages: sampling, a pass (forward, loss, backward) and the update. Within a call
nothing is allocated and nothing is copied between card and host.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from neuralfield.device import Array, Device, require_memory
from neuralfield.engines.buffers import Buffers, Pass
from neuralfield.engines.hopper_narrow_pass import HopperNarrowPass
from neuralfield.engines.hopper_pass import HopperPass
from neuralfield.engines.layer_pass import LayerPass
from neuralfield.engines.picture_problem import PictureProblem
from neuralfield.engines.plans import batch_plan, network_plan
from neuralfield.engines.problem import Problem
from neuralfield.engines.sampling_stage import SamplingStage
from neuralfield.engines.update_stage import (
    UpdateStage,
    flatten_arrays,
    unclipped,
    working_bytes,
)
from neuralfield.errors import ResourceError
from neuralfield.fields.network import FourierFeatures
from neuralfield.kernels.plan import LOSSES, BatchPlan, NetworkPlan
from neuralfield.optimizers import Adam, Muon, Sgd

_PassType = type[HopperNarrowPass] | type[HopperPass] | type[LayerPass]
_PASSES: tuple[_PassType, ...] = (HopperNarrowPass, HopperPass, LayerPass)
"""The first that covers a problem is taken."""

_STEPS_OF_GRAPHS = (16, 1)
_LEAST_CAPABILITY = 75
_OUT_OF_MEMORY = 2
"""The status of CUDA's own errors that says so."""

_WHERE = "training"
_REMEDY = "use smaller batches (training: batch_pixels) or a smaller picture (images: size)"


class CudaEngine:
    """Training steps that stay on the card.

    Work goes to a stream of its own, in order with the caller's current stream.

    Parameters
    ----------
    problem : PictureProblem
        With a network in float32; its parameters and the optimizer's state become views of flat
        arrays.
    device : Device
    precision : {"auto", "mixed", "float32"}

    Raises
    ------
    ResourceError
        The card has too little memory.
    """

    name = "cuda"
    variant: str
    """Which pass it is."""
    most_steps = 1 << 20

    def __init__(self, problem: PictureProblem, device: Device, precision: str) -> None:
        network, batch = network_plan(problem.network), batch_plan(problem)
        chosen = _choose_pass(network, batch, precision, _compute_capability(device))
        assert not isinstance(chosen, str), chosen
        pass_type, self.precision = chosen
        self.variant = pass_type.name
        require_memory(_own_bytes(problem, batch), device, _WHERE, _REMEDY)
        self._start(device, lambda: self._prepare(problem, network, batch, pass_type), _REMEDY)

    def _start(self, device: Device, prepare: Callable[[], None], remedy: str) -> None:
        """Have the stages made, and record them; `remedy`: what to do where memory ends."""
        xp = device.xp
        self._device, self._nvtx = device, xp.cuda.nvtx
        self._stream = xp.cuda.Stream(non_blocking=True)
        self._before, self._after = (xp.cuda.Event(disable_timing=True) for _ in range(2))
        self._is_profiled = os.environ.get("NEURALFIELD_PROFILE") == "1"
        self._graphs: list[tuple[int, Any]] = []
        self.totals = xp.zeros(2)
        try:
            with self._range("compile"):
                prepare()
            xp.cuda.get_current_stream().synchronize()
            with self._stream:
                self._warm_up()
                if not self._is_profiled:
                    with self._range("capture"):
                        self._graphs = [(n, self._capture(n)) for n in _STEPS_OF_GRAPHS]
        except _memory_errors(xp) as error:
            if getattr(error, "status", _OUT_OF_MEMORY) != _OUT_OF_MEMORY:
                raise
            self.close()
            raise ResourceError(
                _WHERE, f"{error}", f"no more than {device.name} has free", remedy
            ) from error

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and squared error to `totals`.

        Returns at once; whatever the caller puts on its current stream waits for the steps.

        Parameters
        ----------
        first_step : int
            Steps taken before.
        count : int
        """
        current = self._device.xp.cuda.get_current_stream()
        self._before.record(current)
        self._stream.wait_event(self._before)
        with self._range(f"run {count} steps"), self._stream:
            self._update.set_step(first_step)
            self._pass.prepare()
            if self._is_profiled:
                for _ in range(count):
                    self._launch_step()
            for steps_of_graph, graph in self._graphs:
                launches, count = divmod(count, steps_of_graph)
                for _ in range(launches):
                    graph.launch()
        self._after.record(self._stream)
        current.wait_event(self._after)

    def memory_report(self) -> dict[str, int]:
        """Bytes on the card, by what they are for."""
        buffers = self._buffers
        batch = (buffers.inputs, buffers.targets, buffers.weights)
        return {
            "parameters": buffers.parameters.nbytes,
            "optimizer": self._update.memory_bytes,
            "picture": self._sampling.values.nbytes,
            "density": sum(array.nbytes for array in self._sampling.density),
            "batch": sum(array.nbytes for array in batch if array is not None),
            "pass": self._pass.memory_bytes,
        }

    def close(self) -> None:
        """Give the card's memory back, but for the network's and the optimizer's."""
        self._stream.synchronize()
        self._graphs = []
        for name in ("_pass", "_sampling", "_update", "_buffers"):
            self.__dict__.pop(name, None)
        self._device.xp.get_default_memory_pool().free_all_blocks()

    def _prepare(
        self,
        problem: PictureProblem,
        network: NetworkPlan,
        batch: BatchPlan,
        pass_type: _PassType,
    ) -> None:
        device = self._device
        step = device.xp.zeros((), dtype="int64")
        self._problem = problem
        self._buffers = _make_buffers(problem, batch, device)
        self._pass: Pass = pass_type(device, network, batch, self._buffers, self.precision)
        self._sampling = SamplingStage(device, problem, network, batch, self._buffers, step)
        self._update = UpdateStage(
            device,
            problem,
            self._buffers.parameters,
            self._pass.partial_gradients(),
            self._pass.loss_partials,
            self.totals,
            step,
            self.precision,
        )

    def _warm_up(self) -> None:
        """Whatever kernels do once they do before the capture; no parameter is changed."""
        self._update.set_step(0)
        self._sampling.launch()
        self._pass.prepare()
        self._pass.launch()
        self._stream.synchronize()

    def _capture(self, count: int) -> Any:
        self._stream.begin_capture()
        for _ in range(count):
            self._launch_step()
        return self._stream.end_capture()

    def _launch_step(self) -> None:
        if not self._sampling.is_constant:
            with self._range("sampling"):
                self._sampling.launch()
        with self._range(f"pass: {self._pass.name}"):
            self._pass.launch()
        with self._range("update"):
            self._update.launch()

    @contextmanager
    def _range(self, name: str) -> Iterator[None]:
        """A named stretch in a profiler's picture."""
        self._nvtx.RangePush(name)
        try:
            yield
        finally:
            self._nvtx.RangePop()


def _memory_errors(xp: Any) -> tuple[type[Exception], ...]:
    """What CuPy raises where the card's memory is used up, and where other things go wrong."""
    cuda = xp.cuda
    return (
        cuda.memory.OutOfMemoryError,
        cuda.runtime.CUDARuntimeError,
        cuda.driver.CUDADriverError,
    )


def reason_against(problem: PictureProblem, precision: str, device: Device) -> str | None:
    """Why the cuda engine cannot work on a problem; None where it can.

    Parameters
    ----------
    problem : PictureProblem
    precision : {"auto", "mixed", "float32", "float64"}
    device : Device
    """
    found = reason_against_card(precision, device)
    if found is not None:
        return found
    network, batch = network_plan(problem.network), batch_plan(problem)
    found = _unknown_part(problem, network, batch)
    if found is None:
        chosen = _choose_pass(network, batch, precision, _compute_capability(device))
        found = chosen if isinstance(chosen, str) else None
    return None if found is None else f"the cuda engine does not cover {found}"


def reason_against_card(precision: str, device: Device) -> str | None:
    """Why the cuda engine cannot work here, whatever the problem; None where it can."""
    if device.kind != "gpu":
        return "the cuda engine needs a GPU"
    if precision == "float64":
        return "the cuda engine computes in mixed precision or float32, not in float64"
    capability = _compute_capability(device)
    if capability < _LEAST_CAPABILITY:
        found = f"{capability // 10}.{capability % 10}"
        return f"the cuda engine needs compute capability 7.5, this card has {found}"
    return None


def _unknown_part(problem: PictureProblem, network: NetworkPlan, batch: BatchPlan) -> str | None:
    """What kernels have no code for, whichever pass is taken; None: they have it for all."""
    if batch.loss not in LOSSES:
        return f"the loss {batch.loss}"
    return unknown_rule(problem) or network.unknown_part


def unknown_rule(problem: Problem) -> str | None:
    """Of how parameters are moved, what the update has no code for; None: it has it for all."""
    optimizer = unclipped(problem.optimizer)
    if not isinstance(optimizer, Adam | Muon | Sgd):
        return f"the optimizer {type(optimizer).__name__}"
    if problem.schedule.name not in ("cosine", "constant"):
        return f"the schedule {problem.schedule.name}"
    return None


def _choose_pass(
    network: NetworkPlan, batch: BatchPlan, precision: str, capability: int
) -> tuple[_PassType, str] | str:
    """A pass and its precision, or the reason why there is none."""
    reasons = []
    for candidate in ("mixed", "float32") if precision == "auto" else (precision,):
        for pass_type in _PASSES:
            reason = pass_type.reason_against(network, batch, candidate, capability)
            if reason is None:
                return pass_type, candidate
            reasons.append(reason)
    return reasons[-1]


def _compute_capability(device: Device) -> int:
    """Of the current card; 90 is 9.0."""
    return int(device.xp.cuda.Device().compute_capability)


def _own_bytes(problem: PictureProblem, batch: BatchPlan) -> int:
    """What the engine needs beside its pass."""
    parameters = 4 * problem.network.parameter_count
    state = sum(array.nbytes for array in problem.optimizer.state.values())
    rows = 8 * batch.rows + 4 * batch.pixels * (batch.channels + int(batch.weighted))
    working = working_bytes(problem.optimizer, problem.network.parameters)
    return parameters + state + working + problem.values.nbytes + rows


def _make_buffers(problem: PictureProblem, batch: BatchPlan, device: Device) -> Buffers:
    xp, network = device.xp, problem.network
    arrays: dict[str, Array] = {name: tensor.data for name, tensor in network.parameters.items()}
    flat = flatten_arrays(device, [(arrays, name) for name in arrays])
    offsets, offset = {}, 0
    for name, tensor in network.parameters.items():
        tensor.data = arrays[name]
        offsets[name] = offset
        offset += tensor.data.size
    encoding = network.encoding
    return Buffers(
        parameters=flat,
        offsets=offsets,
        inputs=xp.zeros((batch.rows, 2), dtype="float32"),
        targets=xp.zeros((batch.pixels, batch.channels), dtype="float32"),
        weights=xp.zeros(batch.pixels, dtype="float32") if batch.weighted else None,
        frequencies=encoding.frequencies if isinstance(encoding, FourierFeatures) else None,
    )
