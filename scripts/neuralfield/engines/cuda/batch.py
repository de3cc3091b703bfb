"""Steps of several cuda engines with one launch of each kernel, for many small networks on a GPU.

Every engine keeps its own arrays, and can still take steps alone; kernels find the arrays in
tables. A step has the same stages, and divides its sums in the same way, as that of a single
engine. Therefore a network's bytes do not depend on which networks share its launches, or how
often.
"""

from collections import defaultdict
from collections.abc import Sequence

from neuralfield.engines.cuda.field_engine import BatchKind, CudaEngine
from neuralfield.engines.cuda.fused.narrow_pass import NarrowPass
from neuralfield.engines.cuda.hopper.narrow_batch import NarrowBatch
from neuralfield.engines.cuda.launch import gpu_limits
from neuralfield.engines.cuda.recorded_engine import memory_in_words
from neuralfield.engines.cuda.recorded_steps import RecordedSteps, named_range
from neuralfield.engines.cuda.stages.sampling import SamplingBatch
from neuralfield.engines.cuda.stages.update import UpdateBatch
from neuralfield.system.device import Device

_REMEDY = "train fewer networks in a job (sweeps: batch)"


class CudaBatch:
    """Takes steps of engines that have the same `batch_kind`, none of which is closed."""

    def __init__(self, device: Device, engines: Sequence[CudaEngine]) -> None:
        self.engines = list(engines)
        self._cuda = device.xp.cuda
        sampling = [engine.stages.sampling for engine in engines]
        self._is_constant = sampling[0].is_constant
        passes = [engine.stages.own_pass for engine in engines]
        narrow_passes = [each for each in passes if isinstance(each, NarrowPass)]
        with memory_in_words(device, _REMEDY):
            self._sampling = SamplingBatch(device, sampling)
            self._pass = NarrowBatch(device, narrow_passes, self._sampling)
            self._update = UpdateBatch(device, [engine.stages.update for engine in engines])
            self._steps = RecordedSteps(device, self._begin, self._launch_step)
            device.synchronize()
            self._steps.record(self._pass.launch)

    def run(self, first_step: int, count: int) -> None:
        self._steps.run(first_step, count)

    def close(self) -> None:
        self._steps.close()

    def _begin(self, first_step: int) -> None:
        # in this order, because the kernel right before the first pass must not write anything that
        # a pass reads before its wait
        if not self._is_constant:
            self._sampling.launch_first(first_step)
        self._update.begin(first_step)

    def _launch_step(self) -> None:
        with named_range(self._cuda, "pass: hopper-narrow, batch"):
            self._pass.launch()
        if not self._is_constant:
            with named_range(self._cuda, "sampling of the next step"):
                self._sampling.launch()
        with named_range(self._cuda, "update"):
            self._update.launch()


def groups_of(engines: Sequence[object], device: Device) -> dict[BatchKind, dict[int, CudaEngine]]:
    """Group the engines that take their steps together, by kind and by their index in `engines`;
    engines that cannot do so, or gain nothing from it, are in no group.
    """
    groups: dict[BatchKind, dict[int, CudaEngine]] = defaultdict(dict)
    for place, engine in enumerate(engines):
        if isinstance(engine, CudaEngine) and engine.batch_kind is not None:
            groups[engine.batch_kind][place] = engine
    if not groups:
        return {}
    processors, _ = gpu_limits(device)
    return {
        kind: group
        for kind, group in groups.items()
        if is_faster_together(kind.batch.tiles, len(group), processors)
    }


def is_faster_together(tiles: int, networks: int, processors: int) -> bool:
    """Estimate whether one step of all networks takes less time than their steps in turn.

    `tiles` is the number of tiles in one network's batch. A network whose batch keeps the whole GPU
    busy gains nothing. A few networks do not gain either, because a batch gives each of them only
    few multiprocessors.
    """
    in_turns = networks * NarrowPass.step_tiles(tiles, processors)
    return NarrowBatch.step_tiles(tiles, networks, processors) < in_turns
