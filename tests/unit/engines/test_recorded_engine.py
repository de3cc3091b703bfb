"""The common parts of engines for GPUs, without a GPU."""

import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from recording_gpu import CudaError, FakeStage, OutOfMemoryError, RecordingGpu

from neuralfield.engines.cuda.recorded_engine import RecordedEngine, Stages, memory_in_words
from neuralfield.system.errors import ResourceError

WARM_UP = ["step 0", "prepare pass", "sample", "pass"]


class FakeStagedEngine(RecordedEngine):
    """An engine whose stages record when they run."""

    def __init__(self, gpu, is_constant=False, failure=None):
        weight = SimpleNamespace(data=np.zeros(3, np.float32))
        network = SimpleNamespace(parameters={"weight": weight})
        objective: Any = SimpleNamespace(network=network)
        sampling: Any = FakeStage(gpu, "sample", is_constant)
        own_pass: Any = FakeStage(gpu, "pass")
        update: Any = FakeStage(gpu, "update")
        stages = Stages(sampling, own_pass, update)
        with memory_in_words(gpu.device, "use smaller batches"):
            if failure:
                raise failure
            super().__init__(gpu.device, objective, stages, "float32")


@pytest.fixture
def gpu():
    return RecordingGpu()


def test_before_steps_are_recorded_kernels_run_once_but_move_no_parameter(gpu):
    FakeStagedEngine(gpu)
    assert gpu.done == WARM_UP


@pytest.mark.parametrize("is_profiled", [False, True])
@pytest.mark.parametrize("is_constant", [False, True])
def test_each_step_has_its_stages_and_a_constant_batch_is_sampled_once(
    gpu, monkeypatch, is_constant, is_profiled
):
    monkeypatch.setenv("NEURALFIELD_PROFILE", str(int(is_profiled)))
    engine = FakeStagedEngine(gpu, is_constant)
    engine.run(40, 35)
    step = ["pass", "update"] if is_constant else ["sample", "pass", "update"]
    assert gpu.done == [*WARM_UP, "step 40", "prepare pass", *35 * step]


def test_memory_is_reported_by_what_it_is_for_and_given_back(gpu):
    engine = FakeStagedEngine(gpu)
    assert engine.memory_report() == {"parameters": 12, "optimizer": 5, "batch": 7, "pass": 5}
    stages = [weakref.ref(stage) for stage in vars(engine.stages).values()]
    engine.close()
    assert [stage() for stage in stages] == [None] * 3
    assert gpu.freed == 1


def test_an_engine_that_has_no_room_says_what_to_do_and_gives_all_back(gpu):
    with pytest.raises(ResourceError, match=r"512 MiB.*use smaller batches"):
        FakeStagedEngine(gpu, failure=OutOfMemoryError("512 MiB"))
    assert gpu.freed == 1


def test_a_gpu_without_memory_is_reported_in_words_and_other_errors_are_left(gpu):
    for used_up in (OutOfMemoryError("512 MiB"), CudaError(2)):
        with (
            pytest.raises(ResourceError, match="fewer networks"),
            memory_in_words(gpu.device, "fewer networks"),
        ):
            raise used_up
    with pytest.raises(CudaError), memory_in_words(gpu.device, "fewer networks"):
        raise CudaError(700)
