"""Sweeps with `batch` in the real workflow: fewer jobs make the same files, none of them twice."""

import hashlib
import json
import re
import shutil

import pandas as pd
import pytest
from job_requests import read_jobs
from workspace import Workspace, succeed_in, without_kernels

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2)


def make_workspace(folder, batch) -> Workspace:
    workspace = Workspace(folder)
    workspace.draw("noise.png", seed=1)
    workspace.settings["images"] = {
        "tiny": {"path": "tiny.png", "size": 16, "fields": []},
        "noise": {"path": "noise.png", "size": 16, "fields": []},
    }
    workspace.settings["fields"] = {"siren": without_kernels()}
    vary = {"random_seed": list(SEEDS[:2]), "learning_rate": [0.001, 0.002]}
    workspace.settings["sweeps"] = {"s": {"fields": ["siren"], "vary": vary, "batch": batch}}
    return workspace


def networks(seeds=SEEDS[:2]):
    return [
        f"results/{image}/siren+learning_rate={rate}+random_seed={seed}/model.safetensors"
        for image in ("tiny", "noise")
        for seed in seeds
        for rate in (0.001, 0.002)
    ]


def contents(workspace) -> dict[str, str]:
    """Return checksums of all files of networks; the seconds of histories are ignored."""
    found = {}
    for path in workspace.path("results").glob("*/siren*/**/*"):
        name = str(path.relative_to(workspace.folder))
        if path.suffix == ".safetensors":
            found[name] = hashlib.sha256(path.read_bytes()).hexdigest()
        elif path.name == "history.csv":
            found[name] = pd.read_csv(path).drop(columns="seconds").to_csv()
    return found


@pytest.fixture(scope="module")
def together(tmp_path_factory) -> Workspace:
    workspace = make_workspace(tmp_path_factory.mktemp("together"), batch=16)
    planned = workspace.planned(*networks())
    assert not workspace.path("results").exists(), "a dry run writes nothing"
    (rule,) = [rule for rule in planned if rule.startswith("train")]
    assert re.fullmatch(r"train_batch_[0-9a-f]{10}", rule) and planned[rule] == 1
    # it stops at the limit after saving its states, and is resumed without a limit
    workspace.settings["training"] |= {"time_limit_s": 0.01, "time_margin_s": 0}
    stopped = workspace.run(*networks())
    assert stopped.returncode != 0 and "time limit: saved after step 1;" in stopped.stdout
    del workspace.settings["training"]["time_limit_s"]
    messages = workspace.succeed(*networks())
    assert messages.count("resuming from the state saved after step 1") == len(networks())
    return workspace


@pytest.fixture(autouse=True)
def keep_settings(request):
    """Restore the settings that a test changes."""
    if "together" not in request.fixturenames:
        yield
        return
    together = request.getfixturevalue("together")
    with together.settings_kept():
        yield


def test_all_files_are_those_of_networks_that_were_trained_alone(together, tmp_path):
    alone = make_workspace(tmp_path, batch=1)
    alone.succeed(*networks(seeds=[1]))
    expected = contents(alone)
    assert len(expected) == 4 * (4 + 1 + 1), "snapshots, history and network"
    found = contents(together)
    assert {name: found[name] for name in expected} == expected
    assert not (tmp_path / "results/batches.jsonl").exists()


def test_nothing_is_made_twice_nor_when_values_are_taken_out(together):
    assert together.planned(*networks()) == {}
    together.settings["sweeps"]["s"]["vary"]["random_seed"] = [1]
    del together.settings["images"]["noise"]
    assert together.planned(*networks([1])[:2]) == {}


def test_another_seed_and_a_file_that_is_missing_are_all_that_is_made(together):
    together.settings["sweeps"]["s"]["vary"]["random_seed"] = list(SEEDS)
    before = contents(together)
    shutil.rmtree(together.path(networks()[0]).parent)
    ledger = together.path("results/batches.jsonl")
    text = ledger.read_text()
    assert list(together.planned(*networks(SEEDS)).values()) == [1, 1]
    assert ledger.read_text() == text, "a dry run writes nothing"
    messages = together.succeed(*networks(SEEDS))
    assert messages.count("no training is needed") == len(networks()) - 1
    after = contents(together)
    assert {name: after[name] for name in before} == before
    assert len(after) == 1.5 * len(before)
    assert ledger.read_text().startswith(text)
    assert len(ledger.read_text().splitlines()) == 2
    assert together.planned(*networks(SEEDS)) == {}


def test_a_job_that_reads_the_snakefile_elsewhere_finds_its_batch(tmp_path):
    """Run the job as on a cluster, where a new Snakemake process runs a single rule."""
    workspace = make_workspace(tmp_path, batch=4)
    workspace.succeed("results/tiny/pixels.csv", "results/noise/pixels.csv")
    messages = workspace.succeed("--dry-run", "--verbose", *networks())
    rules = set(re.findall(r"train_batch_[0-9a-f]{10}", messages))
    assert len(rules) == 2 and not workspace.path("results/batches.jsonl").exists()
    for rule in rules:  # the second one reads what the first has written
        command = workspace.command("--target-jobs", f"{rule}:", "--allowed-rules", rule)
        as_a_job = ["--mode", "remote", "--nolock", "--no-hooks", "--force"]
        succeed_in(tmp_path, [*command, *as_a_job])
    assert all(workspace.path(name).exists() for name in networks())
    lines = map(json.loads, workspace.path("results/batches.jsonl").read_text().splitlines())
    assert {f"train_batch_{line['batch']}" for line in lines} == rules
    assert workspace.planned(*networks()) == {}


def test_jobs_of_batches_are_compared_with_their_estimates_in_one_line(together):
    jobs = [job for job in read_jobs(together.path("logs")) if job.rule.startswith("train")]
    assert {job.rule for job in jobs} == {"train_batch"}
    assert all(job.is_within for job in jobs), jobs
