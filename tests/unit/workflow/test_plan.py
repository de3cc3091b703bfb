"""The plan of a config: the settings on which a training depends, and the files that it makes."""

from types import SimpleNamespace

import pytest
from PIL import Image
from snakemake.exceptions import WorkflowError
from workspace import SETTINGS, Workspace

from config import large_images
from config.configuration import ImageNetwork, read_settings
from config.sweeps import expand
from jobs.plan import Plan
from neuralfield.images.tiling import Tiling
from neuralfield.tasks.training_settings import MAKES_NO_DIFFERENCE


@pytest.fixture
def plan(tmp_path, monkeypatch) -> Plan:
    """Return a plan with everything possible: tiles, a sweep, tables, a classifier."""
    monkeypatch.chdir(tmp_path)
    workspace = Workspace(tmp_path)
    Image.new("L", (60, 40)).save("large.png")
    config = workspace.settings
    config["images"]["large"] = {"path": "large.png", "tiles": {"size": 32}, "fields": ["plain"]}
    config["fields"]["plain"]["training"] = {"time_limit_s": 60}
    vary = {"random_seed": [3, 4]}
    config["sweeps"] = {"seeds": {"images": ["tiny"], "fields": ["siren"], "vary": vary}}
    workspace.add_table()
    config["tables"]["slope"]["sizes"] = [[4, 2]]
    workspace.add_classifier()
    settings = read_settings(config)
    return Plan(settings, expand(settings))


NETWORKS = [
    {"image": "tiny", "field": "siren+random_seed=3"},
    {"image": "large", "field": "plain", "tile": "0_0"},
    {"network": "slope/sizes/4x2"},
    {"classifier": "bars"},
]


@pytest.mark.parametrize("names", NETWORKS)
def test_settings_of_a_training_are_those_that_count_and_the_others(plan: Plan, names):
    wildcards = SimpleNamespace(**names)
    counting = plan.training_settings(wildcards)
    others = plan.execution_settings(wildcards, [])
    assert not counting.keys() & set(MAKES_NO_DIFFERENCE)
    assert others.keys() <= set(MAKES_NO_DIFFERENCE) and "checkpoint_interval_s" in others
    assert {**counting, **others} == plan.network_of(wildcards)["training"]


def test_networks_are_found_by_the_wildcards_of_a_job(plan: Plan):
    swept = plan.network_of(SimpleNamespace(image="tiny", field="siren+random_seed=3"))
    assert swept["training"]["random_seed"] == 3
    assert swept["width"] == SETTINGS["fields"]["siren"]["width"]
    table = plan.network_of(SimpleNamespace(network="slope/sizes/4x2"))
    assert table["network"]["widths"] == [4, 2]
    assert plan.network_of(ImageNetwork("large", "plain"))["training"]["time_limit_s"] == 60
    with pytest.raises(WorkflowError, match="none: no such network"):
        plan.network_of(SimpleNamespace(image="tiny", field="none"))


def test_a_tile_is_an_image_of_its_own_size(plan: Plan):
    tile = SimpleNamespace(image="large", tile="0_1")
    width, height = plan.image_of(tile)["size"]
    assert (width, height) != (60, 40) and max(width, height) <= 60
    assert plan.image_of(SimpleNamespace(image="large"))["path"] == "large.png"


def test_each_training_of_an_image_has_its_files(plan: Plan):
    files = plan.all_products()
    assert len(files) == len(set(files))
    for name in (
        "tiny/pixels.csv",
        "tiny/siren+random_seed=3/metrics.json",
        "large/overview.png",
        "large/pixels.npy",
        "large/plain/mosaic.json",
        "large/plain/tiles/0_1.json",
        "large/plain/timelapse.gif",
        "comparison.csv",
    ):
        assert f"results/{name}" in files, name
    assert "results/large/plain/model.safetensors" not in files
    assert "results/tiny/siren+random_seed=3/render_8.png" not in files


def test_tiles_are_divided_among_jobs(plan: Plan):
    (tiling,) = (tiling for _, tiling in plan.tiled.values())
    assert {len(job.tiles) for job in plan.tile_jobs} == {1}
    plan.config["images"]["large"]["tiles"]["per_job"] = 3
    del plan.tile_jobs  # the cached ones
    jobs = list(plan.tile_jobs)
    assert [tile for job in jobs for tile in job.tiles] == list(tiling)
    assert len(jobs) == -(-tiling.count // 3) and max(len(job.tiles) for job in jobs) <= 3
    many = large_images.tile_groups(Tiling(35_000, 35_000, 1024, 32), None)
    assert len(many) == large_images.MOST_JOBS and len(set(map(len, many))) <= 2
    assert sum(map(len, many)) == large_images.MOST_LISTS
    few = large_images.tile_groups(Tiling(35_000, 35_000, 1024, 32), 400)
    sizes = [sum(map(len, job)) for job in few]
    assert len(few) == 4 and sum(sizes) == 36**2 and max(sizes) - min(sizes) <= 11


def test_tiles_share_the_budget_of_their_image(plan: Plan):
    training = plan.config["fields"]["plain"]["training"]
    count = len(plan.tiles_of("large"))
    for budget, share in ((60, 60 / count), (count / 2, 1)):
        training["budget"] = budget
        tile = SimpleNamespace(image="large", field="plain", tile="0_0")
        assert plan.training_settings(tile)["budget"] == share
        assert plan.training_settings(ImageNetwork("large", "plain"))["budget"] == budget
