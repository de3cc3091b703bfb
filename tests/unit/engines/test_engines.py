"""The engine is chosen, and the trainer drives it."""

import importlib.util
import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import small_classifiers
import test_fit
from make_objective import make_objective

from neuralfield.engines import EngineBatch, make_engine
from neuralfield.engines.cpu.cpu_engine import CpuEngine
from neuralfield.engines.cuda import field_engine as cuda_engine
from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.fused.padded_network import PaddedNetwork
from neuralfield.engines.kernel_plan import batch_plan, network_plan
from neuralfield.engines.tape import TapeEngine
from neuralfield.fields import ImageShape, Siren, build_field
from neuralfield.fields.coordinate_network import Identity
from neuralfield.nn.layers import Activation
from neuralfield.system.device import Device, select_device
from neuralfield.system.errors import ConfigError
from neuralfield.system.interruption import StopSignals
from neuralfield.tasks.image.image_model import Model
from neuralfield.training.loop import ActiveTraining, Training, train_all
from neuralfield.training.state import StateFolder
from neuralfield.training.trainer import Trainer

CPU = select_device("cpu")


class GpuWithNumpy(SimpleNamespace):
    """A stand-in for CuPy on a GPU of some compute capability."""

    def __init__(self, capability):
        runtime = SimpleNamespace(memGetInfo=lambda: (1 << 40, 1 << 40))
        device = SimpleNamespace(compute_capability=capability)
        super().__init__(
            cuda=SimpleNamespace(Device=lambda: device, runtime=runtime),
            get_default_memory_pool=lambda: SimpleNamespace(free_bytes=lambda: 0),
        )

    def __getattr__(self, name):
        return getattr(np, name)


GPU = Device("gpu", "a GPU", GpuWithNumpy("90"))  # pyright: ignore[reportArgumentType]


def engine_for(objective, request="auto", precision="auto", device=GPU):
    messages = []
    engine = make_engine(request, precision, objective, device, 1, messages.append)
    engine.close()
    return engine, messages


def take_engine(request, precision, device=CPU, **settings):
    dtype = "float64" if precision == "float64" else "float32"
    return engine_for(make_objective(dtype=dtype, **settings), request, precision, device)


@pytest.mark.parametrize("precision", ["auto", "float32"])
def test_a_processor_trains_with_the_cpu_engine_and_says_nothing_of_it(precision):
    engine, messages = take_engine("auto", precision)
    assert (engine.name, engine.precision, messages) == ("cpu", "float32", [])


@pytest.mark.parametrize("request_", ["auto", "cpu", "tape"])
def test_mixed_precision_on_a_processor_is_float32_and_is_reported(request_):
    engine, messages = take_engine(request_, "mixed")
    assert (engine.name, engine.precision) == ("tape" if request_ == "tape" else "cpu", "float32")
    assert messages == ["only the cuda engine has mixed precision; training in float32"]


def test_cuda_without_a_gpu_is_refused_with_what_to_do():
    with pytest.raises(ConfigError) as caught:
        take_engine("cuda", "auto")
    assert str(caught.value) == (
        "training.engine: cuda, but the cuda engine needs a GPU; expected auto or tape;"
        " set training.engine: auto, which uses cuda where possible"
    )


@pytest.mark.parametrize(
    ("capability", "precision", "reason"),
    [
        ("70", "auto", "the cuda engine needs compute capability 7.5, this GPU has 7.0"),
        ("90", "float64", "the cuda engine computes in mixed precision or float32, not in float64"),
    ],
)
def test_what_the_cuda_engine_does_not_cover_goes_to_the_tape(capability, precision, reason):
    gpu = Device("gpu", "a GPU", GpuWithNumpy(capability))  # pyright: ignore[reportArgumentType]
    engine, messages = take_engine("auto", precision, gpu)
    assert engine.name == "tape"
    assert messages == [f"{reason}; training with the tape engine"]
    with pytest.raises(ConfigError, match=reason):
        take_engine("cuda", precision, gpu)


@pytest.mark.parametrize("device", [CPU, GPU], ids=["cpu", "gpu"])
def test_a_classifier_is_trained_on_the_tape_without_a_note(device):
    trainer = Trainer(small_classifiers.make_task(), CPU, "tape", 1, print)
    trainer.close()
    for precision in ("auto", "float32"):
        engine, messages = engine_for(trainer.objective, "auto", precision, device)
        assert (engine.name, engine.precision, messages) == ("tape", "float32", [])
    for engine in ("cpu", "cuda"):
        with pytest.raises(ConfigError, match=f"the {engine} engine trains only fields"):
            engine_for(trainer.objective, engine, "auto", device)


def without_numba(monkeypatch):
    find_spec = importlib.util.find_spec
    hidden = lambda name, *rest: None if name == "numba" else find_spec(name, *rest)  # noqa: E731
    monkeypatch.setattr(importlib.util, "find_spec", hidden)


@pytest.mark.parametrize(
    ("precision", "prepare", "reason"),
    [
        ("float64", None, "the cpu engine computes in float32, not in float64"),
        ("auto", without_numba, "the kernels for processors need Numba, which is not installed"),
    ],
)
def test_what_the_cpu_engine_does_not_cover_goes_to_the_tape(
    precision, prepare, reason, monkeypatch
):
    if prepare:
        prepare(monkeypatch)
    engine, messages = take_engine("auto", precision)
    assert (engine.name, messages) == ("tape", [f"{reason}; training with the tape engine"])
    with pytest.raises(ConfigError, match=reason):
        take_engine("cpu", precision)


@pytest.mark.parametrize(("kind", "width"), [("siren", 513), ("wire", 257), ("cafe", 513)])
def test_a_network_without_kernels_goes_to_the_tape(kind, width):
    engine, messages = take_engine("auto", "auto", GPU, field={"type": kind, "width": width})
    assert engine.name == "tape"
    reason = "there are no kernels for a layer wider than 512"
    assert messages == [f"{reason}; training with the tape engine"]


@pytest.mark.parametrize(
    "settings",
    [
        {"field": {"type": "finer"}},
        {"field": {"type": "wire"}},
        {"field": {"type": "wire", "width": 200}, "optimizer": "muon"},
        {"field": {"type": "gauss"}},
        {"field": {"type": "cafe"}},
        {"field": {"type": "cafe", "factors": 8, "chebyshev_degree": 207, "width": 512}},
        {"optimizer": "muon"},
        {"optimizer": "muon", "gradient_clip_norm": 1.0},
        {"optimizer": "sgd", "gradient_clip_norm": 1.0},
    ],
)
def test_a_gpu_has_kernels_for_fields_and_optimizers(settings):
    objective = make_objective(**settings)
    recorded_engine.require_kernels(objective, "auto", GPU)
    plans = network_plan(objective.network), batch_plan(objective)
    cuda_engine._choose_pass(*plans, "auto", 90)


CUBIC = SimpleNamespace(name="cubic", steepness=1.0)


class Unknown(Identity):
    """A part of a network for which no kernel exists."""

    name = "Unknown"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda p: setattr(p.network, "encoding", Unknown()), "the encoding Unknown"),
        (lambda p: p.network.activations.__setitem__(1, Activation("gelu")), "the activation gelu"),
        (lambda p: setattr(p.network, "output", CUBIC), "the output cubic"),
        (lambda p: replace(p, loss="hinge"), "the loss hinge"),
        (lambda p: replace(p, optimizer=Unknown()), "the optimizer Unknown"),
        (lambda p: replace(p, schedule=SimpleNamespace(name="linear")), "the schedule linear"),
    ],
)
def test_what_kernels_have_no_code_for_is_named(change, named):
    objective = make_objective()
    changed = change(objective) or objective
    for device in (CPU, GPU):
        engine, messages = engine_for(changed, "auto", "auto", device)
        if device is CPU and "schedule" in named:  # which is computed on the host
            assert (engine.name, messages) == ("cpu", [])
        else:
            reason = f"there are no kernels for {named}; training with the tape engine"
            assert (engine.name, messages) == ("tape", [reason])


@pytest.mark.parametrize("make", [TapeEngine, CpuEngine])
@pytest.mark.parametrize("points", [1, 4, 5])
def test_steps_in_one_call_are_the_steps_one_by_one(points, make):
    together, apart = (
        make(make_objective(batch_pixels=50, points=points), CPU, 1) for _ in range(2)
    )
    together.run(3, 5)
    for step in range(3, 8):
        apart.run(step, 1)
    np.testing.assert_array_equal(together.totals, apart.totals)
    assert (together.totals > 0).all()
    for name, array in together.objective.network.arrays.items():
        np.testing.assert_array_equal(apart.objective.network.arrays[name], array)


class CountingEngine:
    """An engine that takes no steps, and records the steps that it is asked to take."""

    name, variant, precision = "counting", "", "float32"

    def __init__(self, most_steps):
        self.most_steps, self.calls = most_steps, []
        self.totals = np.zeros(2)

    def run(self, first_step, count):
        self.calls.append((first_step, count))
        self.totals += count

    def memory_report(self):
        return {}

    def close(self):
        pass


def make_trainer(engine, **training):
    trainer = Trainer(test_fit.make_task(**training), CPU, "auto", 1, print)
    trainer.engine.close()
    trainer.engine = engine
    return trainer


def advance(trainer, folder):
    """Train alone, and return the rows of the history."""
    rows = []
    how = {"progress": rows.append, "checkpoint_interval_s": math.inf}
    training = Training(task=trainer.task, folder=folder, device=CPU, **how)
    active = ActiveTraining(training, trainer, StateFolder(folder, "0" * 16, print))
    train_all([active], EngineBatch(CPU, 1), StopSignals())
    return rows


def test_calls_end_at_rows_snapshots_and_the_limit(tmp_path):
    engine = CountingEngine(most_steps=1 << 20)
    trainer = make_trainer(engine, steps=77_777, snapshots=30)
    rows = advance(trainer, tmp_path)
    assert trainer.steps_taken == 77_777
    assert [first for first, _ in engine.calls[1:]] == list(
        np.cumsum([n for _, n in engine.calls])
    )[:-1]
    ends = {first + count for first, count in engine.calls}
    assert {step for step in trainer.snapshot_steps if step > 0} <= ends
    assert len(trainer.history) == len(rows)
    assert [row["loss"] for row in rows] == pytest.approx([1] * len(rows))
    assert len(engine.calls) < 260, "rows, snapshots and a few more"


def test_a_slow_step_is_taken_alone(tmp_path, monkeypatch):
    clock = iter(np.arange(0, 1e6, 0.15))  # each call takes 0.15 s, whatever it does
    monkeypatch.setattr("neuralfield.training.loop.time.perf_counter", lambda: next(clock))
    engine = CountingEngine(most_steps=64)
    advance(make_trainer(engine, steps=1000, snapshots=2), tmp_path)
    assert {count for _, count in engine.calls} == {1}


def test_the_record_and_the_model_tell_the_precision_that_was_used(tmp_path):
    test_fit.train(test_fit.make_task(precision="mixed"), tmp_path)
    record = json.loads((tmp_path / "training.json").read_text())
    assert record["precision"] == "float32"
    assert Model.load(tmp_path / "model.safetensors").metadata["precision"] == "float32"


def test_a_training_of_a_pass_that_is_no_more_starts_afresh(tmp_path, monkeypatch):
    """A state's name depends on the pass, so that states of a removed pass are not used."""
    task = test_fit.make_task()

    def stop(row):
        if row["step"] > 3:  # states of earlier steps have been saved
            raise test_fit.Stopped

    with monkeypatch.context() as patch:
        patch.setattr(CpuEngine, "variant", "hopper-product")
        with pytest.raises(test_fit.Stopped):
            test_fit.train(task, tmp_path / "old", progress=stop, checkpoint_interval_s=0)
    assert list((tmp_path / "old/.state").glob("state_*"))
    messages = test_fit.train(task, tmp_path / "old")
    assert messages == [
        "settings or data have changed since the state was saved; starting at step 0"
    ]
    test_fit.train(task, tmp_path / "new")
    digests = {test_fit.sha256(tmp_path / name / "model.safetensors") for name in ("old", "new")}
    assert len(digests) == 1


def test_a_whole_number_of_a_config_is_a_float_for_the_compiler():
    network = build_field(Siren(width=16, first_omega_0=20, omega_0=30), ImageShape(4, 4, 1))
    constants = PaddedNetwork(network_plan(network), {64: 4}).constants(
        1, wgmma=False, backward=True
    )
    assert constants["FREQUENCIES"] == ["20.0f", "30.0f", "30.0f", "30.0f"]
