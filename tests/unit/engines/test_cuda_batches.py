"""Networks that take steps in one launch, and the arguments of its kernels, without a GPU."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from make_objective import SIREN, make_objective

from neuralfield.engines import EngineBatch
from neuralfield.engines.cuda import batch as cuda_batch
from neuralfield.engines.cuda import concurrent_steps
from neuralfield.engines.cuda.batch import is_faster_together
from neuralfield.engines.cuda.buffers import network_table
from neuralfield.engines.cuda.field_engine import BatchKind, CudaEngine
from neuralfield.engines.cuda.fused import narrow_pass as narrow
from neuralfield.engines.cuda.hopper.narrow_batch import NarrowBatch
from neuralfield.engines.cuda.stages.update import PARTIAL_SUMS
from neuralfield.engines.kernel_plan import batch_plan, network_plan
from neuralfield.system.device import Device

H200_PROCESSORS = 132


FREQUENCIES = {"type": "fourier", "frequencies": 20, "width": 64}


@pytest.mark.parametrize(
    ("tiles", "networks", "together"),
    [
        (256, 64, True),
        (128, 64, True),
        (128, 8, True),
        (256, 8, True),
        (256, 4, False),
        (256, 16, True),
        (16, 2, True),
        (128, 2, False),  # each network would use only eight multiprocessors
        (6144, 20, False),  # each network keeps the GPU busy by itself
        (256, 1, False),
    ],
)
def test_together_go_those_that_are_many_and_small(tiles, networks, together):
    assert is_faster_together(tiles, networks, H200_PROCESSORS) == together


@pytest.mark.parametrize(
    ("field", "has_room"),
    [
        ({**SIREN, "width": 64, "hidden_layers": 2}, True),
        ({**SIREN, "width": 32, "hidden_layers": 4}, True),
        ({**FREQUENCIES, "hidden_layers": 2}, True),
        ({**FREQUENCIES, "hidden_layers": 4}, False),
        ({**SIREN, "width": 48, "hidden_layers": 4}, False),
    ],
)
@pytest.mark.parametrize("side", [20, 128, 1000])
def test_a_batch_is_for_networks_whose_sums_have_room(field, has_room, side):
    objective = make_objective(field, width=side, height=side, channels=4)
    network, batch = network_plan(objective.network), batch_plan(objective)
    alone: Any = SimpleNamespace(
        network=network,
        batch=batch,
        blocks=min(H200_PROCESSORS, batch.tiles),
        block_tiles=narrow._block_tiles(network, 90),
        by_warps=False,
    )
    assert (NarrowBatch.unsupported_reason(alone) is None) == has_room


class Pointer:
    """A stand-in for an array on a GPU that only has an address."""

    def __init__(self, address):
        self.data = SimpleNamespace(ptr=address)


def test_kernels_find_each_network_in_a_table():
    device = Device("cpu", "host", np)
    networks = [(Pointer(1 << 33), np.uint64(2**64 - 1)), (Pointer(8), np.uint64(5))]
    table = network_table(device, networks)
    assert table.dtype == np.uint64
    assert table.tolist() == [[1 << 33, 2**64 - 1], [8, 5]]


def test_sums_of_every_eighth_part_give_the_bits_of_all_parts():
    """In update.cu's order of summation, partial sums may be computed beforehand."""
    parts = np.random.default_rng(0).normal(size=(132, 50)).astype(np.float32)

    def summed(parts):
        total = np.zeros(50, np.float32)
        for warp in range(8):
            partial = np.zeros(50, np.float32)
            for part in parts[warp::8]:
                partial += part
            total += partial
        return total

    sums = np.stack([np.add.accumulate(parts[s::PARTIAL_SUMS])[-1] for s in range(PARTIAL_SUMS)])
    np.testing.assert_array_equal(summed(sums), summed(parts))


class FakeBatch:
    """A batch that takes no steps, and records which engines would."""

    made: list[list[Any]]

    def __init__(self, device, engines):
        self.engines, self.closed = list(engines), False
        self.made.append(self.engines)

    def run(self, first_step, count):
        for engine in self.engines:
            engine.calls.append(("together", len(self.engines), first_step, count))

    def close(self):
        self.closed = True


class FakeConcurrentSteps:
    """A stand-in for the streams of engines that run alone."""

    def __init__(self, device):
        pass

    def run(self, engines, first_step, count):
        for engine in engines:
            engine.run(first_step, count)

    def fetched_totals(self, engines):
        return np.zeros((len(engines), 2))


def fake_engine(kind):
    engine: Any = object.__new__(CudaEngine)
    engine.batch_kind, engine.calls = kind, []
    engine.run = lambda first_step, count: engine.calls.append(("alone", first_step, count))
    return engine


@pytest.fixture
def gpu(monkeypatch):
    """Return a device with an H200's limits, and replace batches by some that take no steps."""
    FakeBatch.made = []
    monkeypatch.setattr(cuda_batch, "CudaBatch", FakeBatch)
    monkeypatch.setattr(concurrent_steps, "ConcurrentSteps", FakeConcurrentSteps)
    limits = {"multiProcessorCount": H200_PROCESSORS, "sharedMemPerBlockOptin": 232_448}
    stream = SimpleNamespace(synchronize=lambda: None)
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(id=0),
        runtime=SimpleNamespace(getDeviceProperties=lambda index: limits),
        get_current_stream=lambda: stream,
    )
    xp: Any = SimpleNamespace(cuda=cuda)
    return Device("gpu", "a GPU", xp)


def kind_of(**settings):
    objective = make_objective(width=128, height=128, **settings)
    return BatchKind(network_plan(objective.network), batch_plan(objective), ())


def test_those_of_one_kind_go_together_and_others_run_alone(gpu):
    kind, other = kind_of(), kind_of(channels=3)
    engines = [fake_engine(kind) for _ in range(20)]
    engines[3:3] = [fake_engine(None), fake_engine(other)]
    seconds: dict[int, float] = {}
    batch = EngineBatch(gpu, 1)
    batch.run(engines, 40, 7, lambda place, share_s, _: seconds.update({place: share_s}))
    together = [("together", 20, 40, 7)]
    alone = [("alone", 40, 7)]
    assert [e.calls for e in engines] == [*[together] * 3, alone, alone, *[together] * 17]
    assert sorted(seconds) == list(range(22))
    assert len({seconds[place] for place in (0, 10, 21)}) == 1  # shares of one measurement


def test_a_batch_is_made_anew_only_where_others_go_together(gpu):
    kind = kind_of()
    engines = [fake_engine(kind) for _ in range(20)]
    batch = EngineBatch(gpu, 1)

    def run():
        batch.run(engines, 0, 1, lambda *measured: None)

    run()
    run()
    assert FakeBatch.made == [engines]
    before, engines[5] = list(engines), fake_engine(kind)  # after a rollback, with another rate
    batch.run(engines[5:6], 0, 1, lambda *measured: None)
    assert engines[5].calls == [("alone", 0, 1)]
    run()
    assert FakeBatch.made == [before, engines]
    batch.close()
