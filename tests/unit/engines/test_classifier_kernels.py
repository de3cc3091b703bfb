"""Kernels for classifiers on GPUs, as far as they can be tested without a GPU."""

from functools import partial
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from small_classifiers import bars, make_task
from test_engines import GPU, GpuWithNumpy, engine_for

from neuralfield.engines.cuda.classifier import classifier_engine
from neuralfield.engines.cuda.classifier.classifier_pass import head_constants, unsupported_reason
from neuralfield.engines.cuda.classifier.classifier_plan import classifier_plan
from neuralfield.engines.cuda.classifier.sampling import brightness_table, image_sampling_constants
from neuralfield.engines.cuda.convolution.convolution_plan import ConvolutionShape, kernel_plans
from neuralfield.nn import ops
from neuralfield.system.device import Device, select_device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective
from neuralfield.tasks.classifier.labelled import LabelledImages, network_inputs
from neuralfield.training.trainer import Trainer

CPU = select_device("cpu")
MNIST = LabelledImages("labels", np.zeros((30, 28, 28), np.uint8), np.arange(30) % 10)


def objective_of(labelled=None, network=None, **training):
    """Return the objective of a task, as its trainer makes it."""
    trainer = Trainer(make_task(labelled, network, **training), CPU, "tape", 1, print)
    trainer.close()
    assert isinstance(trainer.objective, ClassifierObjective)
    return trainer.objective


LENET = {"channels": (10, 20), "kernel": 5, "padding": 0, "hidden": (64,), "dropout": 0.5}


def test_a_classifier_is_read_off_its_stages():
    plan = classifier_plan(objective_of(MNIST, LENET, batch_samples=12))
    assert not isinstance(plan, str)
    first, last = plan.convolutions
    assert first == ConvolutionShape(1, 28, 28, 10, 5, 0, 2, is_last=False)
    assert last == ConvolutionShape(10, 12, 12, 20, 5, 0, 2, is_last=True)
    assert (plan.sizes, plan.dropout, plan.batch, plan.pixels) == ((320, 64, 10), 0.5, 12, 784)
    # each layer's part begins at a multiple of four numbers, which can be loaded at once
    assert plan.part_offsets == [0, 321 * 64, 321 * 64 + 652]


@pytest.mark.parametrize(
    ("where", "stage", "named"),
    [
        (1, partial(ops.mean_axis, axis=1), "the operation mean_axis in its place"),
        (2, ops.tanh, "the operation tanh in its place"),
        (3, ops.sine, "the operation sine in its place"),
        (5, ops.tanh, "the operation tanh in its place"),
        (-1, ops.relu, "the operation relu in its place"),
    ],
)
def test_another_row_of_operations_is_named_and_goes_to_the_tape(where, stage, named):
    objective = objective_of()
    objective.network.operations[where] = stage
    assert classifier_plan(objective) == named
    engine, messages = engine_for(objective)
    assert engine.name == "tape"
    assert messages == [f"the cuda engine does not cover {named}; training with the tape engine"]


@pytest.mark.parametrize(
    ("network", "side", "reason"),
    [
        ({"kernel": 17, "padding": 8}, 20, "a kernel wider than 15"),
        ({"pool": 6}, 20, "windows of pooling wider than 5"),
        ({"hidden": (12_000,)}, 6, "linear layers of 12,"),
        ({"channels": (4, 4)}, 1_200, "their rows do not fit into a block of threads"),
    ],
)
def test_what_has_no_room_on_the_chip_goes_to_the_tape(network, side, reason):
    images = np.zeros((3, side, side), np.uint8)
    objective = objective_of(LabelledImages("labels", images, np.arange(3)), network)
    engine, messages = engine_for(objective)
    assert engine.name == "tape"
    assert len(messages) == 1 and reason in messages[0]


@pytest.mark.parametrize(
    ("gpu", "precision", "reason"),
    [
        (CPU, "auto", "the cuda engine needs a GPU"),
        (GPU, "float64", "the cuda engine computes in mixed precision or float32, not in float64"),
        (
            Device("gpu", "a GPU", GpuWithNumpy("70")),  # pyright: ignore[reportArgumentType]
            "auto",
            "the cuda engine needs compute capability 7.5, this GPU has 7.0",
        ),
    ],
)
def test_where_the_engine_cannot_work_it_says_why(gpu, precision, reason):
    objective = objective_of(precision="float64" if precision == "float64" else "float32")
    assert classifier_engine.unsupported_reason(objective, precision, gpu) == reason
    with pytest.raises(ConfigError, match=reason):
        engine_for(objective, "cuda", precision, gpu)


def test_muon_goes_to_the_tape():
    engine, messages = engine_for(objective_of(optimizer="muon", gradient_clip_norm=0.5))
    assert engine.name == "tape"
    what = "the optimizer Muon for classifiers"
    assert messages == [f"the cuda engine does not cover {what}; training with the tape engine"]


def test_a_processor_trains_on_the_tape_and_says_nothing_of_it():
    engine, messages = engine_for(objective_of(), device=CPU)
    assert (engine.name, messages) == ("tape", [])


def test_all_that_the_shipped_settings_need_is_covered():
    for settings in (LENET, {"kernel": 3, "padding": 1}, {"channels": (), "hidden": ()}):
        assert (
            classifier_engine.unsupported_reason(objective_of(MNIST, settings), "auto", GPU) is None
        )


SHAPES = [
    ConvolutionShape(into, high, wide, out, kernel, padding, pool, is_last=False)
    for (into, out), (high, wide), (kernel, padding), pool in product(
        [(1, 10), (3, 7), (10, 20), (64, 130)],
        [(8, 8), (28, 28), (31, 150), (13, 300)],
        [(1, 0), (3, 1), (5, 0), (5, 4), (11, 2)],
        [1, 2, 3, 5],
    )
    if min(high, wide) + 2 * padding - kernel + 1 >= pool
]


def _own(plan, prefix):
    names = {name.removeprefix(prefix): number for name, number in plan.constants.items()}
    return SimpleNamespace(**{name.lower(): number for name, number in names.items()})


@pytest.mark.parametrize("batch", [1, 7, 600])
def test_tiles_cover_everything_and_have_room(batch):
    """For all shapes: an output without a thread would be missing in the result."""
    for shape in SHAPES:
        high, wide = shape.sides_out
        plans = kernel_plans(shape, batch, 132)
        assert plans is not None
        for plan in plans.values():
            assert plan.threads <= 512 and 0 < plan.shared_bytes <= 64 << 10
        forward = _own(plans["FORWARD"], "FORWARD_")
        tiles = -(-wide // forward.tile)
        units = forward.groups * forward.images * forward.band * tiles
        assert forward.threads == forward.split * units
        grid = plans["FORWARD"].grid
        assert grid[0] * forward.images >= batch and grid[1] * forward.band >= high
        assert grid[2] * forward.groups * forward.group >= shape.channels_out
        last_column = (tiles - 1) * forward.tile * shape.pool + forward.tile * shape.pool
        assert forward.stride >= last_column + shape.kernel - 1 and forward.stride % 4 == 0

        backward, grid = _own(plans["BACKWARD"], "BACKWARD_"), plans["BACKWARD"].grid
        assert grid[0] * backward.images >= batch and grid[1] * backward.band >= shape.height
        assert grid[2] * backward.groups * backward.group >= shape.channels_in
        assert backward.tiles * backward.tile >= shape.width
        assert backward.tiles == 1 or backward.tile % 4 == 0
        margin = shape.kernel - 1 - shape.padding
        for first_line in range(0, shape.height, backward.band):
            first_row = max(0, first_line - margin) // shape.pool
            last_place = min(high * shape.pool - 1, first_line + backward.band - 1 + shape.padding)
            assert last_place < (first_row + backward.rows) * shape.pool
        assert backward.stride >= margin + wide * shape.pool

        gradient, grid = _own(plans["GRADIENT"], "GRADIENT_"), plans["GRADIENT"].grid
        assert gradient.bands * gradient.band >= high
        assert gradient.tiles * gradient.tile >= wide * shape.pool
        assert gradient.image_lines >= gradient.band * shape.pool + shape.kernel - 1
        assert gradient.image_stride >= gradient.tiles * gradient.tile + shape.kernel - 1
        assert grid[1] * gradient.staged >= shape.channels_in
        assert grid[2] * gradient.groups * gradient.group >= shape.channels_out
        assert 1 <= grid[0] <= batch * gradient.bands


def test_bytes_become_the_same_numbers_as_on_the_tape():
    objective = objective_of()
    expected = network_inputs(objective.labelled.images, objective.scaling, "float32")[..., 0]
    found = brightness_table(objective)[objective.labelled.images]
    np.testing.assert_array_equal(found, expected)
    assert found.dtype == np.float32


def test_kernels_have_the_constants_of_sampling_and_dropout():
    objective = objective_of(batch_samples=24, random_seed=2**40 + 5)
    plan = classifier_plan(objective)
    assert not isinstance(plan, str)
    sampling = image_sampling_constants(objective, plan)
    assert (sampling["SAMPLES"], sampling["IS_EVERYTHING"], sampling["BATCH"]) == (60, 0, 24)
    assert sampling["SEED"] == f"{2**40 + 5}ull"
    head = head_constants(plan, 4, objective.random_seed)
    assert (head["HAS_DROPOUT"], head["THRESHOLD"]) == (1, f"{2**30}u")
    assert head["KEPT_FACTOR"] == pytest.approx(4 / 3)
    everything = objective_of(bars(30), batch_samples=0)
    plan = classifier_plan(everything)
    assert not isinstance(plan, str) and plan.batch == 30
    assert image_sampling_constants(everything, plan)["IS_EVERYTHING"] == 1


def test_one_block_s_memory_decides_how_wide_linear_layers_may_be():
    plans = [classifier_plan(objective_of(network={"hidden": (n,)})) for n in (2_000, 12_000)]
    assert [isinstance(plan, str) for plan in plans] == [False, False]
    reasons = [unsupported_reason(plan) for plan in plans if not isinstance(plan, str)]
    assert reasons[0] is None and "linear layers of" in str(reasons[1])
