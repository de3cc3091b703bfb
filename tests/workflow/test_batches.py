"""Networks of sweeps are put into batches, and stay there."""

import json

import pytest
from PIL import Image
from workspace import SETTINGS

from config.configuration import ImageNetwork, read_settings
from config.sweeps import all_fields, expand
from jobs.batches import Ledger, append, arrange, limits_of, read_ledger, settled
from neuralfield.system.errors import InputError


class SweepOfTwoImages:
    """A sweep over two images as the workflow plans it; `made` are the networks that exist.

    Parameters
    ----------
    path : Path
        Path of the ledger.
    """

    def __init__(self, path) -> None:
        self.path = path
        self.made: set[ImageNetwork] = set()
        self.training: dict = {}
        self.vary: dict = {"random_seed": [0, 1, 2]}
        self.images = {
            name: {"path": f"{name}.png", "size": 16, "fields": []} for name in ("a", "b")
        }
        self.batch = 3

    def next_start(self, *, write=True) -> list[set[str]]:
        """Plan the next start; return the runs of each batch, like ``a 0``, without single runs."""
        sweep = {"fields": ["siren"], "vary": self.vary, "batch": self.batch}
        config = SETTINGS | {"images": self.images, "sweeps": {"s": sweep}}
        config["training"] = SETTINGS["training"] | self.training
        settings = read_settings(config)
        swept = expand(settings)
        fields = all_fields(swept, settings)
        ledger = read_ledger(self.path)
        limits = limits_of(swept, fields, tiled=())
        new = arrange(limits, fields, settings["images"], ledger, self.made.__contains__)
        if write:
            append(self.path, new, ledger)
        self.batches = settled(limits, fields, ledger | new)
        return [{short(run) for run in batch.runs} for batch in self.batches]

    def make(self, *names) -> None:
        """Mark networks as made, given their short names; by default all of the batches."""
        runs = [run for batch in self.batches for run in batch.runs]
        self.made |= {run for run in runs if not names or short(run) in names}


def short(run):
    return f"{run.image} {run.field.partition('+')[2].replace('random_seed=', '')}"


@pytest.fixture
def plan(tmp_path, monkeypatch) -> SweepOfTwoImages:
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        Image.new("L", (30, 20)).save(f"{name}.png")
    Image.new("L", (20, 20)).save("tiny.png")
    return SweepOfTwoImages(tmp_path / "results/batches.jsonl")


def test_runs_that_differ_in_image_seed_and_rates_are_together(plan):
    plan.vary = {"random_seed": [0], "learning_rate": [1e-3, 3e-3], "warmup_steps": [0, 2]}
    plan.batch = 16
    assert [len(runs) for runs in plan.next_start()] == [8]


@pytest.mark.parametrize(
    "vary",
    [
        {"width": [4, 6]},
        {"steps": [2, 3]},
        {"optimizer": ["adam", "sgd"]},
        {"output": ["linear", "sigmoid"]},
    ],
)
def test_runs_that_compute_something_else_are_not(plan, vary):
    plan.vary, plan.batch = {"random_seed": [0, 1]} | vary, 16
    assert [len(runs) for runs in plan.next_start()] == [4, 4]


def test_images_of_other_sizes_and_trainings_with_a_budget_are_not(plan):
    plan.images["b"]["size"] = 12
    assert plan.next_start() == [{"a 0", "a 1", "a 2"}, {"b 0", "b 1", "b 2"}]
    for alone in ({"budget": 60}, {"cpu_budget": 60}):
        plan.training = alone
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
    plan.made = {ImageNetwork("a", "siren+random_seed=0"), ImageNetwork("a", "siren+random_seed=1")}
    plan.batch = 4
    assert plan.next_start() == [{"a 2", "b 0", "b 1", "b 2"}]
    plan.make()
    plan.training = {"steps": 5}
    assert plan.next_start() == [{"a 0", "a 1", "a 2", "b 0"}, {"b 1", "b 2"}]


def test_what_is_missing_of_a_batch_is_made_without_the_others(plan):
    plan.next_start()
    plan.make()
    plan.made -= {
        ImageNetwork("a", "siren+random_seed=0"),
        ImageNetwork("b", "siren+random_seed=1"),
    }
    assert plan.next_start() == [{"a 0", "b 1"}, {"a 1", "a 2"}, {"b 0", "b 2"}]
    unfinished = plan.next_start()
    assert plan.next_start() == unfinished


def test_a_batch_that_has_failed_stays_together(plan):
    first = plan.next_start()
    plan.make("b 0", "b 1", "b 2")
    assert plan.next_start() == first


def test_two_at_once_do_not_put_the_same_run_into_two_batches(plan):
    plan.next_start(write=False)
    entry = (ImageNetwork("a", "siren+random_seed=0"), "0" * 16)
    other = (ImageNetwork("b", "siren+random_seed=0"), "0" * 16)
    one, two = "1" * 10, "2" * 10
    append(plan.path, {one: [entry, other]}, Ledger())
    append(plan.path, {one: [entry, other]}, Ledger())  # repeating an entry adds nothing
    assert len(plan.path.read_text().splitlines()) == 1
    with pytest.raises(InputError, match="run the same command again"):
        append(plan.path, {two: [entry]}, Ledger())
    append(plan.path, {two: [entry]}, read_ledger(plan.path))  # the first batch is known
    assert read_ledger(plan.path).place == {entry: two, other: one}


def test_a_line_that_was_cut_off_is_written_again(plan):
    plan.next_start()
    whole = plan.path.read_bytes()
    plan.path.write_bytes(whole[:-10])
    assert len(plan.next_start()) == 2
    assert plan.path.read_bytes() == whole


@pytest.mark.parametrize(
    "change",
    [
        {"batch": "../../../../x"},
        {"runs": [["../../x", "siren", "0" * 16]]},
        {"runs": [["a", "../siren", "0" * 16]]},
        {"runs": [["a", "siren+width=../../4", "0" * 16]]},
        {"runs": ["abc"]},
    ],
    ids=str,
)
def test_names_that_lead_elsewhere_are_refused(plan, change):
    line = {"batch": "0123456789", "runs": [["a", "siren+rate=-1.5e-3", "0" * 16]]}
    plan.path.parent.mkdir()
    plan.path.write_text(json.dumps(line) + "\n")
    assert list(read_ledger(plan.path).images) == ["0123456789"]
    plan.path.write_text(json.dumps(line | change) + "\n")
    with pytest.raises(InputError, match=r"batches\.jsonl: is damaged .*; remove it"):
        read_ledger(plan.path)
    plan.path.unlink()  # as the message advises
    assert plan.next_start() and read_ledger(plan.path).lines
