"""Results of a finished training survive their deletion: they are restored with the same bytes."""

import errno
import os
import shutil

import pytest
from failing_files import (
    KILLED,
    FailingFiles,
    failing_with,
    files_in,
    in_a_child,
    killed_after,
    killed_before,
)
from test_fit import CPU, make_task

from neuralfield.system.copies import Copies
from neuralfield.system.errors import NeuralfieldError
from neuralfield.training.fit import fit
from neuralfield.training.loop import Training
from neuralfield.training.results import outputs_in

ONE = {"result": "one", "more/step_1": "1"}
TWO = {"result": "two", "more/step_1": "1"}


class Trained:
    """A training in a separate folder."""

    def __init__(self, folder, task=None, **training):
        self.folder, self.task = folder, task or make_task(**training)
        self.steps, self.messages = [], []
        self.outputs = outputs_in(folder)
        self.training = Training(
            task=self.task,
            folder=folder,
            device=CPU,
            stores_copies=True,
            say=self.messages.append,
            progress=lambda row: self.steps.append(row["step"]),
        )

    def again(self):
        """Repeat the training in a later process, after its outputs were deleted."""
        self.delete_outputs()
        later = Trained(self.folder, self.task)
        later.fit()
        return later

    def fit(self):
        fit([self.training])

    def delete_outputs(self):
        shutil.rmtree(
            self.folder / ".state", ignore_errors=True
        )  # as after a run that has succeeded
        for path in self.outputs.values():
            for file in path.iterdir() if path.is_dir() else [path]:
                file.unlink(missing_ok=True)

    @property
    def files(self):
        return {name: b for name, b in files_in(self.folder).items() if not name.startswith(".")}


@pytest.fixture
def trained(tmp_path):
    training = Trained(tmp_path / "training")
    training.fit()
    return training


def test_deleted_results_come_back_with_the_same_bytes_and_without_a_step(trained):
    before = trained.files
    later = trained.again()
    assert later.files == before, "seconds in history.csv and training.json too"
    assert trained.steps and not later.steps
    assert len(later.messages) == 1 and "no training is needed" in later.messages[0]


def test_kept_checkpoints_take_no_space(trained):
    assert all(path.stat().st_nlink > 1 for path in trained.outputs["checkpoints"].iterdir())


@pytest.mark.parametrize("name", ["model", "history", "record"])
def test_single_files_that_are_damaged_in_place_come_back_without_a_step(trained, name):
    before = trained.files
    for training in (trained, trained.again()):
        with training.outputs[name].open("r+b") as file:
            file.write(b"damaged")
        later = training.again()
        assert not later.steps and later.files == before


def test_they_are_copies_where_links_fail(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "link", refuse)
    trained = Trained(tmp_path)
    trained.fit()
    before = trained.files
    assert {path.stat().st_nlink for path in trained.outputs["checkpoints"].iterdir()} == {1}
    assert trained.again().files == before


def test_a_training_goes_on_without_where_nothing_can_be_kept(tmp_path):
    (tmp_path / ".kept").write_text("a file in the folder's place")
    trained = Trained(tmp_path)
    trained.fit()
    assert trained.outputs["model"].exists()
    assert any("no copies are stored" in line for line in trained.messages)


def test_results_that_were_damaged_in_place_are_trained_anew(trained):
    whole = trained.outputs["model"].read_bytes()
    snapshot = trained.outputs["checkpoints"] / "step_00000000.safetensors"
    with snapshot.open("r+b") as file:
        first = file.read(1)
        file.seek(0)
        file.write(bytes([first[0] ^ 1]))
    later = trained.again()
    assert later.steps and "does not match its checksum" in later.messages[0]
    assert later.outputs["model"].read_bytes() == whole
    assert not later.again().steps, "what is kept is whole again"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"format": 2}', b"\xff{"])
def test_a_damaged_list_is_not_believed(trained, content):
    (listed,) = (trained.folder / ".kept").glob("*.ledger")
    listed.write_bytes(content)
    later = trained.again()
    assert later.steps and "copies are damaged" in later.messages[0]


def test_other_settings_are_trained_and_replace_what_is_kept_when_they_are_done(trained):
    before = trained.files
    trained.delete_outputs()
    failing = Trained(trained.folder, learning_rate=1e30)
    with pytest.raises(NeuralfieldError):
        failing.fit()
    assert trained.again().files == before, "a failing training has cost nothing"
    other = Trained(trained.folder, learning_rate=1e-3)
    other.fit()
    assert other.steps
    assert trained.again().steps, "one training is kept, the last one"


def test_a_batch_trains_only_those_that_are_not_kept(tmp_path):
    batch = [Trained(tmp_path / str(seed), random_seed=seed) for seed in range(3)]
    batch[1].fit()
    before = batch[1].files
    batch[1].delete_outputs()
    batch[1].steps.clear()
    fit([one.training for one in batch])
    assert [bool(one.steps) for one in batch] == [True, False, True]
    assert batch[1].files == before
    assert all(one.outputs["record"].exists() for one in batch)


def publish(folder, contents):
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_text(content)


def restored(folder):
    """Restore the kept results, and return them by name."""
    outputs = {"result": folder / "back/result", "more": folder / "back/more"}
    assert Copies(folder / ".kept", "it", "made from", print).restore(outputs)
    return {name: content.decode() for name, content in files_in(folder / "back").items()}


# a kill after a call is almost a kill before the next one
@pytest.mark.parametrize(
    "happening",
    [
        killed_before,
        pytest.param(killed_after, marks=pytest.mark.slow),
        failing_with(errno.ENOSPC),
    ],
)
def test_whatever_happens_while_results_are_kept_the_old_or_the_new_ones_are_there(
    tmp_path, happening
):
    def keep(folder, contents):
        publish(folder, contents)
        outputs = {"result": folder / "result", "more": folder / "more"}
        Copies(folder / ".kept", "it", "made from", lambda line: None).store(outputs)

    keep(tmp_path / "count", ONE)
    with FailingFiles()() as counted:
        keep(tmp_path / "count", TWO)
    found = []
    for number in range(len(counted.calls)):
        folder = tmp_path / str(number)
        keep(folder, ONE)
        publish(folder, TWO)

        def work(folder=folder, number=number):
            with FailingFiles(number, happening)():
                keep(folder, TWO)

        assert in_a_child(work) in (0, 1, KILLED)
        found.append(restored(folder))
        assert found[-1] in (ONE, TWO)
    assert found[-1] == TWO
    keep(tmp_path / "0", TWO)
    assert restored(tmp_path / "0") == TWO
