"""Estimates of the memory and time that a job requests."""

from contextlib import nullcontext

import pytest
from job_requests import EndedJob, table
from PIL import Image
from workspace import SETTINGS

from config.configuration import read_settings
from jobs import estimates
from neuralfield.engines.cpu.cut import MOST_SHARDS
from neuralfield.engines.cuda.portable.layer_forward import MAX_WIDTH
from neuralfield.engines.kernel_plan import NotCovered, network_plan
from neuralfield.fields import FIELDS, ImageShape, build_field, field_settings
from neuralfield.tasks.classifier.classifier_objective import BLOCK_VALUES
from neuralfield.tasks.image.image_objective import BLOCK_POINTS
from neuralfield.tasks.table.table_objective import BLOCK_ROWS

IMAGE = {"size": [768, 512]}


@pytest.fixture
def field(tmp_path, monkeypatch):
    """Return a function that makes a network with its training, as the workflow reads it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.png").touch()

    def make(training, **settings):
        described = {"type": "siren", "width": 256} | settings
        config = SETTINGS | {"fields": {"one": described}, "training": training}
        return read_settings(config)["fields"]["one"]

    return make


def test_sizes_are_those_of_the_package():
    assert estimates.MOST_SHARDS == MOST_SHARDS
    assert estimates.CUDA_WIDTH == MAX_WIDTH
    blocks = {"cpu": estimates.CPU_BLOCK_POINTS, "gpu": estimates.GPU_BLOCK_POINTS}
    assert blocks == BLOCK_POINTS == BLOCK_ROWS
    assert BLOCK_VALUES["cpu"] == estimates.CPU_BLOCK_VALUES


def test_more_threads_work_on_more_points_and_a_gpu_takes_them_all(field):
    everything, few = field({"batch_pixels": 0, "engine": "tape"}), field({"batch_pixels": 100})
    one, eight = (estimates.field_memory_mb(IMAGE, everything, 1, n, 0) for n in (1, 8))
    assert one < eight < estimates.field_memory_mb(IMAGE, everything, 8, 8, 0)
    few_mb, all_mb = (estimates.field_gpu_memory_mb(IMAGE, one, 1) for one in (few, everything))
    assert few_mb < all_mb
    on_gpu = {estimates.field_memory_mb(IMAGE, few, 1, threads, 1) for threads in (1, 8)}
    assert len(on_gpu) == 1


@pytest.mark.parametrize(
    ("training", "settings", "on_processors", "on_gpus"),
    [
        ({}, {}, "cpu", "cuda"),
        ({"engine": "cuda", "precision": "float32"}, {}, "cpu", "cuda"),
        ({"engine": "tape"}, {}, "tape", "tape"),
        ({"precision": "float64"}, {}, "tape", "tape"),
        ({}, {"width": 513}, "cpu", "tape"),
        ({}, {"type": "fourier", "frequencies": 300}, "cpu", "tape"),
        ({}, {"type": "finer"}, "cpu", "cuda"),
        ({}, {"type": "wire"}, "cpu", "cuda"),
        ({}, {"type": "wire", "width": 257}, "cpu", "tape"),
        ({}, {"type": "hashgrid", "levels": 16, "features": 4}, "cpu", "cuda"),
        ({}, {"type": "hashgrid", "levels": 32, "features": 8, "width": 513}, "cpu", "tape"),
        ({}, {"type": "cafe", "factors": 8}, "cpu", "cuda"),
        ({}, {"type": "cafe", "width": 513}, "cpu", "tape"),
        ({"optimizer": "muon"}, {}, "cpu", "cuda"),
        ({"gradient_clip_norm": 1.0}, {}, "cpu", "cuda"),
    ],
)
def test_the_engine_is_the_one_that_covers_the_training(
    field, training, settings, on_processors, on_gpus
):
    described = field(training, **settings)
    assert estimates.engine_of(described, 0) == on_processors
    assert estimates.engine_of(described, 1).partition(" ")[0] == on_gpus


@pytest.mark.parametrize("kind", FIELDS)
def test_networks_with_kernels_are_those_that_the_engines_cover(kind):
    network = build_field(field_settings({"type": kind}), ImageShape(8, 8, 1))
    expected = nullcontext() if FIELDS[kind].has_kernels else pytest.raises(NotCovered)
    with expected:
        network_plan(network)


def test_time_grows_with_the_work_and_with_the_number_of_steps(field):
    def seconds(gpus, **training):
        return estimates.field_s(IMAGE, field(training), 2, gpus)

    assert seconds(1, batch_pixels=0, steps=100_000) < seconds(0, batch_pixels=0, steps=100_000)
    small = {"batch_pixels": 1, "supervision": "point", "steps": 1_000_000}
    assert seconds(1, **small) < seconds(1, engine="tape", **small)
    longest = seconds(0, batch_pixels=0, steps=10_000_000)
    assert estimates.minutes(longest) == estimates.LONGEST_MINUTES


def test_a_budget_is_the_time_of_a_training(field):
    def seconds(gpus, **training):
        return estimates.field_s(IMAGE, field(training), 2, gpus)

    long = {"steps": 10_000_000, "batch_pixels": 0}
    assert seconds(0, budget=3600, **long) == seconds(1, budget=3600, steps=1) == 3600
    assert seconds(0, cpu_budget=3600, **long) == 3600 < seconds(1, cpu_budget=3600, **long)
    assert seconds(0, cpu_budget=1e6, steps=100) == seconds(0, steps=100)


def test_each_attempt_asks_for_more_time_but_never_for_more_than_the_limit():
    assert estimates.minutes(3600, attempt=3) == 3 * estimates.minutes(3600)
    limited = {"time_limit_s": 3000}
    assert estimates.minutes(1e6, limited, 1) == estimates.minutes(1e6, limited, 3) == 50
    assert estimates.minutes(1, {"time_limit_s": 1e6}) == estimates.STARTING_MINUTES + 1


def test_memory_follows_the_size_of_the_file(tmp_path):
    large = tmp_path / "large.png"
    Image.new("L", (4000, 3000)).save(large)
    assert estimates.image_pixels({"path": str(large)}) == 12_000_000
    assert estimates.image_pixels({"path": str(large), "size": [40, 30]}) == 1200
    unknown = estimates.image_pixels({"path": str(tmp_path / "none.png")})
    assert unknown == estimates.UNKNOWN_SIDE_PX**2


def test_the_comparison_names_rules_that_used_more_than_they_asked_for():
    within, over = EndedJob("train", 1000, 900, 600, 20), EndedJob("render", 1000, 990, 600, 20)
    assert within.is_within and not over.is_within  # 990 MiB are more than 1000 MB
    assert not EndedJob("train", 1000, 900, 600, 601).is_within
    lines = table([within, over]).splitlines()
    assert lines[1].startswith("render") and lines[1].endswith("more than asked for")
    assert lines[2].startswith("train") and "more" not in lines[2]
