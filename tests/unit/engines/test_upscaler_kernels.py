"""Kernels for upscalers on GPUs, as far as they can be tested without a GPU."""

import pytest
from kernel_texts import Addressed, complaints_of_compiler, nvrtc, recorded_kernels
from test_engines import GPU, engine_for
from test_upscaler import make_task, rings

from neuralfield.engines.cuda.convolution.convolution_plan import kernel_plans
from neuralfield.engines.cuda.upscaler import upscaler_engine
from neuralfield.engines.cuda.upscaler.upscaler_engine import layer_shapes
from neuralfield.system.device import select_device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.upscaler.upscaler_objective import UpscalerObjective
from neuralfield.training.trainer import Trainer

CPU = select_device("cpu")
USUAL = {"hidden_layers": 4, "channels": 32, "crop": 32, "batch_pixels": 2048}


def objective_of(values=None, **settings):
    """Return the objective of a task, as its trainer makes it."""
    trainer = Trainer(make_task(values, **settings), CPU, "tape", 1, print)
    trainer.close()
    assert isinstance(trainer.objective, UpscalerObjective)
    return trainer.objective


def test_its_layers_have_no_padding_and_relu_but_for_the_last():
    shapes = layer_shapes(objective_of(rings(30, 22, 3), hidden_layers=2, crop=12))
    assert [(s.channels_in, s.height, s.channels_out) for s in shapes] == [
        (3, 18, 6),
        (6, 16, 6),
        (6, 14, 3),
    ]
    assert [shape.has_relu for shape in shapes] == [True, True, False]
    assert shapes[-1].sides_out == (12, 12)
    small = layer_shapes(objective_of(rings(30, 9), crop=12))
    assert small[-1].sides_out == (9, 9)


@pytest.mark.parametrize("crops", [1, 2, 4, 24])
def test_every_multiprocessor_has_work_however_few_crops_there_are(crops):
    for shape in layer_shapes(objective_of(rings(60, 50, 3), **USUAL))[1:-1]:
        plans = kernel_plans(shape, crops, 132, 99)
        assert plans is not None
        for spread in plans.values():
            blocks = spread.grid[0] * spread.grid[1] * spread.grid[2]
            assert 99 <= blocks <= 2 * 132


@pytest.mark.parametrize("settings", [{}, USUAL, {"factor": 3, "loss": "huber"}])
def test_usual_settings_are_covered(settings):
    assert upscaler_engine.unsupported_reason(objective_of(**settings), "auto", GPU) is None


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            {"precision": "float64"},
            "the cuda engine computes in mixed precision or float32, not in float64",
        ),
        (
            {"optimizer": "muon"},
            "the cuda engine does not cover the optimizer Muon for upscalers",
        ),
    ],
)
def test_what_has_no_kernels_goes_to_the_tape_and_says_why(settings, reason):
    objective = objective_of(**settings)
    precision = settings.get("precision", "auto")
    engine, messages = engine_for(objective, precision=precision)
    assert engine.name == "tape"
    assert len(messages) == 1 and messages[0].endswith(f"{reason}; training with the tape engine")
    with pytest.raises(ConfigError, match=reason):
        engine_for(objective, "cuda", precision)


def test_a_processor_trains_on_the_tape_and_says_nothing_of_it():
    engine, messages = engine_for(objective_of(), device=CPU)
    assert (engine.name, messages) == ("tape", [])


@pytest.mark.skipif(nvrtc() is None, reason="nvidia-cuda-nvrtc is not installed")
@pytest.mark.parametrize("capability", [pytest.param(75, marks=pytest.mark.slow), 120])
def test_its_kernels_compile(monkeypatch, capability):
    objective = objective_of(rings(30, 22, 3), loss="huber")
    with recorded_kernels(monkeypatch, capability) as (device, texts):
        for name, array in objective.optimizer.state.items():
            objective.optimizer.state[name] = array.view(Addressed)
        upscaler_engine.make_stages(objective, device)
    assert len(texts) == 5  # sampling, two layers, the loss and the update
    complaints = [
        complaints_of_compiler(code, options, capability) for code, options in sorted(texts)
    ]
    assert [complaint for complaint in complaints if complaint] == []
