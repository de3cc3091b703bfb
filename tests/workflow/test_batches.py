"""Networks of sweeps are put into batches, and stay there."""

import json

import pytest
from PIL import Image
from workspace import SETTINGS

from config.configuration import ImageNetwork, read_settings
from config.sweeps import all_fields, expand
from jobs.batches import arrange, read_ledger
from neuralfield.system.errors import InputError
from neuralfield.system.files import append_json_line


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

    def next_start(self) -> list[set[str]]:
        """Plan the next start; return the runs of each batch, like ``a 0``, without single runs."""
        sweep = {"fields": ["siren"], "vary": self.vary, "batch": self.batch}
        config = SETTINGS | {"images": self.images, "sweeps": {"s": sweep}}
        config["training"] = SETTINGS["training"] | self.training
        settings = read_settings(config)
        swept = expand(settings)
        fields, images = all_fields(swept, settings), settings["images"]
        ledger = read_ledger(self.path)
        self.batches = arrange(swept, fields, images, (), ledger, self.made.__contains__)
        return [{short(run) for run in batch.runs} for batch in self.batches]

    def start_jobs(self, *numbers: int) -> None:
        """Write the lines of batches, by default of all, as their jobs do when they start."""
        self.path.parent.mkdir(exist_ok=True)
        for number, batch in enumerate(self.batches):
            if not numbers or number in numbers:
                append_json_line(self.path, batch.line)

    def make(self, *names: str) -> None:
        """Train networks, given their short names; by default all of the batches."""
        self.start_jobs()
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
    plan.make()
    text = plan.path.read_text()
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


def test_networks_that_were_made_alone_stay_alone(plan):
    plan.batch = 1
    assert plan.next_start() == []
    plan.made = {ImageNetwork("a", "siren+random_seed=0"), ImageNetwork("a", "siren+random_seed=1")}
    plan.batch = 4
    assert plan.next_start() == [{"a 2", "b 0", "b 1", "b 2"}]


def test_a_batch_that_has_lost_files_or_has_failed_stays_together(plan):
    first = plan.next_start()
    plan.make("b 0", "b 2")
    assert plan.next_start() == first


def test_every_start_finds_the_same_batches_while_jobs_run(plan):
    first = plan.next_start()
    assert plan.next_start() == first and not plan.path.exists()
    plan.start_jobs(1)
    assert plan.next_start() == first
    plan.make("b 0")
    assert plan.next_start() == first


def test_a_line_is_written_once_and_one_that_was_cut_off_again(plan):
    plan.next_start()
    plan.make()
    whole = plan.path.read_bytes()
    plan.start_jobs()
    assert plan.path.read_bytes() == whole
    plan.path.write_bytes(whole[:-10])  # by a job that was killed before it trained
    plan.made.clear()
    assert len(plan.next_start()) == 2
    plan.start_jobs()
    assert plan.path.read_bytes() == whole


@pytest.mark.parametrize(
    "change",
    [
        {"batch": "../../../../x"},
        {"runs": [["../../x", "siren", "0" * 16]]},
        {"runs": [["a", "siren"]]},
        {"runs": 1},
    ],
    ids=str,
)
def test_names_that_lead_elsewhere_are_refused(plan, change):
    line = {"batch": "0123456789", "runs": [["a", "siren+rate=-1.5e-3", "0" * 16]]}
    plan.path.parent.mkdir()
    plan.path.write_text(json.dumps(line) + "\n")
    assert list(read_ledger(plan.path)) == ["0123456789"]
    plan.path.write_text(json.dumps(line | change) + "\n")
    with pytest.raises(InputError, match=r"batches\.jsonl: is damaged .*; remove it"):
        read_ledger(plan.path)
    plan.path.unlink()  # as the message advises
    assert plan.next_start()
