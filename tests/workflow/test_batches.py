"""Sweeps with `batch`: the same networks from fewer jobs, and only what is new is run."""

import hashlib
import json
import re
import shutil
import subprocess

import pandas as pd
import pytest
from PIL import Image
from workspace import SETTINGS, Workspace, clean_environment

from batches import ALONE, Ledger, append, arrange, limits_of, read_ledger, settled
from configuration import Run, read_settings
from neuralfield.errors import InputError
from sweeps import all_fields, expand

# ---- who goes with whom


class Plan:
    """A sweep over two pictures, as the workflow sees it; `made` are the networks that are there.

    Parameters
    ----------
    path : Path
        Of the ledger.
    """

    def __init__(self, path) -> None:
        self.path = path
        self.made: set[Run] = set()
        self.training: dict = {}
        self.vary: dict = {"random_seed": [0, 1, 2]}
        self.images = {
            name: {"path": f"{name}.png", "size": 16, "fields": []} for name in ("a", "b")
        }
        self.batch = 3

    def next_start(self, *, write=True) -> list[set[str]]:
        """Runs of each batch, like ``a 0``; those alone are left out."""
        sweep = {"fields": ["siren"], "vary": self.vary, "batch": self.batch}
        config = SETTINGS | {"images": self.images, "sweeps": {"s": sweep}}
        config["training"] = SETTINGS["training"] | self.training
        settings = read_settings(config, lambda place: "config.yaml")
        swept = expand(settings, lambda place: "config.yaml")
        fields = all_fields(swept, settings)
        ledger = read_ledger(self.path)
        limits = limits_of(swept, fields, tiled=())
        new = arrange(limits, fields, settings["images"], ledger, self.made.__contains__)
        if write:
            append(self.path, new, ledger)
        self.batches = settled(limits, fields, ledger | new)
        return [{short(run) for run in batch.runs} for batch in self.batches]

    def make(self, *names) -> None:
        """Have networks made, by their short names; all that there are by default."""
        runs = [run for batch in self.batches for run in batch.runs]
        self.made |= {run for run in runs if not names or short(run) in names}


def short(run):
    return f"{run.image} {run.field.partition('+')[2].replace('random_seed=', '')}"


@pytest.fixture
def plan(tmp_path, monkeypatch) -> Plan:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        Image.new("L", (30, 20)).save(f"{name}.png")
    Image.new("L", (20, 20)).save("tiny.png")
    return Plan(tmp_path / "results/batches.jsonl")


def test_runs_that_differ_in_picture_seed_and_rates_are_together(plan):
    plan.vary = {"random_seed": [0], "learning_rate": [1e-3, 3e-3], "warmup_steps": [0, 2]}
    plan.batch = 16
    assert [len(runs) for runs in plan.next_start()] == [8]


@pytest.mark.parametrize(
    "vary",
    [
        {"width": [4, 6]},
        {"steps": [2, 3]},
        {"batch_pixels": [10, 20]},
        {"optimizer": ["adam", "sgd"]},
        {"precision": ["float32", "float64"]},
        {"supervision": ["point", "footprint"]},
        {"loss": ["mse", "huber"]},
        {"snapshots": [2, 3]},
        {"output": ["linear", "sigmoid"]},
    ],
    ids=lambda vary: next(iter(vary)),
)
def test_runs_that_compute_something_else_are_not(plan, vary):
    plan.vary, plan.batch = {"random_seed": [0, 1]} | vary, 16
    assert [len(runs) for runs in plan.next_start()] == [4, 4]


def test_pictures_of_other_sizes_and_trainings_in_segments_are_not(plan):
    plan.images["b"]["size"] = 12
    assert plan.next_start() == [{"a 0", "a 1", "a 2"}, {"b 0", "b 1", "b 2"}]
    plan.training = {"segments": 2}
    assert plan.next_start() == []


def test_a_batch_has_no_more_than_it_may_and_one_that_is_left_is_alone(plan):
    plan.batch = 5
    assert plan.next_start() == [{"a 0", "a 1", "a 2", "b 0", "b 1"}]


def test_nothing_is_put_elsewhere_while_settings_stay(plan):
    first = plan.next_start()
    text = plan.path.read_text()
    plan.make()
    for change in ({"batch": 1}, {"batch": 16}, {"training": {"threads": 2, "time_limit_s": 90}}):
        vars(plan).update(change)
        assert plan.next_start() == first
        assert plan.path.read_text() == text


def test_new_values_open_new_batches_and_values_taken_out_leave_them(plan):
    plan.next_start()
    plan.make()
    before = {batch.name: batch for batch in plan.batches}
    plan.vary["random_seed"] = [5, 0, 1, 2]
    assert plan.next_start() == [{"a 5", "b 5"}, {"a 0", "a 1", "a 2"}, {"b 0", "b 1", "b 2"}]
    plan.vary["random_seed"] = [1]
    del plan.images["b"]
    assert plan.next_start() == [{"a 1"}]
    (left,) = plan.batches
    assert left.images == before[left.name].images


def test_inputs_stay_when_a_picture_s_runs_are_taken_out(plan):
    plan.vary["random_seed"], plan.batch = [0], 4
    plan.next_start()
    plan.make()
    del plan.images["b"]
    plan.next_start()
    assert [batch.images for batch in plan.batches] == [("a", "b")]


def test_other_settings_open_other_batches_and_the_old_ones_come_back(plan):
    old = plan.next_start()
    names = {batch.name for batch in plan.batches}
    plan.make()
    plan.training = {"steps": 5}
    assert plan.next_start() == old
    assert not names & {batch.name for batch in plan.batches}
    plan.training = {}
    plan.next_start()
    assert {batch.name for batch in plan.batches} == names


def test_networks_that_were_made_alone_stay_alone_until_their_settings_change(plan):
    plan.batch = 1
    assert plan.next_start() == []
    assert not read_ledger(plan.path).place
    plan.made = {Run("a", "siren+random_seed=0"), Run("a", "siren+random_seed=1")}
    plan.batch = 4
    assert plan.next_start() == [{"a 2", "b 0", "b 1", "b 2"}]
    plan.make()
    plan.training = {"steps": 5}
    assert plan.next_start() == [{"a 0", "a 1", "a 2", "b 0"}, {"b 1", "b 2"}]


def test_what_is_missing_of_a_batch_is_made_without_the_others(plan):
    plan.next_start()
    plan.make()
    plan.made -= {Run("a", "siren+random_seed=0"), Run("b", "siren+random_seed=1")}
    assert plan.next_start() == [{"a 0", "b 1"}, {"a 1", "a 2"}, {"b 0", "b 2"}]
    unfinished = plan.next_start()
    assert plan.next_start() == unfinished


def test_a_batch_that_has_failed_stays_together(plan):
    first = plan.next_start()
    plan.make("b 0", "b 1", "b 2")
    assert plan.next_start() == first


def test_two_at_once_do_not_put_the_same_run_into_two_batches(plan):
    plan.next_start(write=False)
    entry = (Run("a", "siren+random_seed=0"), "0" * 16)
    other = (Run("b", "siren+random_seed=0"), "0" * 16)
    append(plan.path, {"one": [entry, other]}, Ledger())
    append(plan.path, {"one": [entry, other]}, Ledger())  # the same again is no other
    assert len(plan.path.read_text().splitlines()) == 1
    with pytest.raises(InputError, match="run the same command again"):
        append(plan.path, {"two": [entry]}, Ledger())
    append(plan.path, {"two": [entry]}, read_ledger(plan.path))  # knowing of the first
    assert read_ledger(plan.path).place == {entry: "two", other: "one"}


def test_a_line_that_was_cut_off_is_written_again(plan):
    plan.next_start()
    whole = plan.path.read_bytes()
    plan.path.write_bytes(whole[:-10])
    assert len(plan.next_start()) == 2
    assert plan.path.read_bytes() == whole


def test_a_damaged_ledger_is_named(plan):
    plan.path.parent.mkdir()
    plan.path.write_text("not json\n")
    with pytest.raises(InputError, match=r"batches\.jsonl: is damaged .*; remove it"):
        read_ledger(plan.path)


def test_alone_is_no_batch():
    entry = (Run("a", "siren"), "0" * 16)
    assert settled([], {}, Ledger() | {ALONE: [entry]}) == []


# ---- the real workflow

SEEDS = (0, 1, 2)


def make_workspace(folder, batch) -> Workspace:
    workspace = Workspace(folder)
    workspace.draw("noise.png", seed=1)
    workspace.settings["images"] = {
        "tiny": {"path": "tiny.png", "size": 16, "fields": []},
        "noise": {"path": "noise.png", "size": 16, "fields": []},
    }
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
    """Of all files of networks; histories without the seconds."""
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
    # it leaves with its states saved, and goes on without a limit
    workspace.settings["training"] |= {"time_limit_s": 0.01, "time_margin_s": 0}
    stopped = workspace.run(*networks())
    assert stopped.returncode != 0 and "time limit: saved after step 1;" in stopped.stdout
    del workspace.settings["training"]["time_limit_s"]
    said = workspace.succeed(*networks(), "--set-resources", "train_batch:mem_mb=4321")
    assert said.count("going on from the state saved after step 1") == len(networks())
    return workspace


@pytest.fixture(autouse=True)
def keep_settings(request):
    """Take back what a test changes."""
    if "together" not in request.fixturenames:
        yield
        return
    together = request.getfixturevalue("together")
    before = json.dumps(together.settings)
    yield
    together.settings = json.loads(before)


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
    assert list(together.planned(*networks(SEEDS)).values()) == [1]
    assert ledger.read_text() == text, "a dry run writes nothing"
    together.succeed(*networks(SEEDS))
    after = contents(together)
    assert {name: after[name] for name in before} == before
    assert len(after) == 1.5 * len(before)
    assert ledger.read_text().startswith(text)
    members = json.loads(ledger.read_text().splitlines()[-1])["runs"]
    assert len(members) == 5, "the new seed's, and the missing one"
    assert together.planned(*networks(SEEDS)) == {}


def test_a_job_that_reads_the_snakefile_elsewhere_finds_its_batch(tmp_path):
    """As on a cluster, where a process is started for a rule."""
    workspace = make_workspace(tmp_path, batch=16)
    workspace.succeed("results/tiny/pixels.csv", "results/noise/pixels.csv")
    (line,) = workspace.path("results/batches.jsonl").read_text().splitlines()
    rule = f"train_batch_{json.loads(line)['batch']}"
    command = workspace.command("--target-jobs", f"{rule}:", "--allowed-rules", rule)
    as_a_job = ["--mode", "remote", "--nolock", "--no-hooks", "--force"]
    done = subprocess.run(
        [*command, *as_a_job],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert all(workspace.path(name).exists() for name in networks())
    assert workspace.path("results/batches.jsonl").read_text() == f"{line}\n"


def test_the_limit_of_a_batch_is_checked(together):
    together.settings["sweeps"]["s"]["batch"] = 0
    said = together.run("--dry-run").stdout
    assert "sweeps.s.batch: 0; expected a whole number from 1 to 256" in said


def test_jobs_of_batches_are_compared_with_their_estimates_in_one_line(together):
    from compare_estimates import read_jobs

    jobs = [job for job in read_jobs(together.path("logs")) if job.rule.startswith("train")]
    assert {job.rule for job in jobs} == {"train_batch"}
    assert all(job.is_within for job in jobs), jobs
    assert jobs[0].asked_mb == 4321, "--set-resources names all batches at once"
