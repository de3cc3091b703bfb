"""The target `classifiers` in the real workflow: from a section of the config to a page."""

import json
import os
import re

import numpy as np
import pytest
from idx_writer import write_idx
from test_mistakes import fails_saying
from workspace import Workspace

from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.idx import read_idx
from neuralfield.tasks.table.samples import read_columns

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace in which only a classifier has been trained."""
    workspace = Workspace(tmp_path_factory.mktemp("trained"))
    workspace.add_classifier()
    workspace.settings["classifiers"]["bars"]["about"] = "Bars that <b>lie</b> & stand"
    workspace.succeed("classifiers")
    assert not workspace.path("results/report.html").exists()
    return workspace


@pytest.fixture(autouse=True)
def keep_settings(trained: Workspace):
    """Restore the settings that a test changes."""
    with trained.settings_kept():
        yield


def test_every_file_is_made_and_no_image_of_a_field(trained):
    made = {os.fspath(p.relative_to(trained.folder)) for p in trained.path("results").rglob("*")}
    for name in (
        *("model.safetensors", "history.csv", "training.json", "metrics.json", "predictions.csv"),
        *("checkpoints/step_00000040.safetensors", "confusion.png", "wrong.png", "curve.png"),
    ):
        assert f"results/classifiers/bars/{name}" in made, name
    assert not [name for name in made if ".state" in name or "tiny" in name]
    assert "results/report.html" not in made


def test_the_page_has_what_was_measured(trained):
    page = trained.path("results/classifiers/report.html").read_text()
    found = json.loads(trained.path("results/classifiers/bars/metrics.json").read_text())
    assert (found["pictures"], found["held_out_pictures"], found["classes"]) == (60, 30, 2)
    assert sum(map(sum, found["confusion"])) == 30
    words = re.sub(r"\s+", " ", page)
    assert "Of 30 held-out images" in words
    assert f"<strong>{100 * found['held_out_accuracy']:.1f}%</strong> are right" in words
    assert f"<strong>{found['held_out_wrong'] or 'none'}</strong> wrongly" in words
    assert "Bars that &lt;b&gt;lie&lt;/b&gt; &amp; stand" in page
    assert page.count("<svg") == 3
    assert "http://" not in page.replace("http://www.w3.org/", ""), "needs no network"


def test_the_network_answers_as_its_predictions_say(trained):
    model = ClassifierModel.load(trained.path("results/classifiers/bars/model.safetensors"))
    rows = read_columns(
        trained.path("results/classifiers/bars/predictions.csv"),
        ["held_out", "picture", "predicted", "probability"],
    )
    images = read_idx(trained.path("bars/t10k-images-idx3-ubyte"), 3)
    answers, own = model.probabilities(images), rows[rows[:, 0] == 1]
    np.testing.assert_array_equal(own[:, 1], np.arange(30))
    np.testing.assert_array_equal(answers.argmax(axis=1), own[:, 2])
    np.testing.assert_allclose(answers.max(axis=1), own[:, 3], rtol=1e-5)


def test_nothing_is_made_twice(trained):
    assert trained.planned("classifiers") == {}


def test_images_do_without_classifiers(trained):
    assert not [rule for rule in trained.planned() if "classifier" in rule]


def test_words_and_cores_train_nothing(trained):
    trained.settings["classifiers"]["bars"]["about"] = "something else"
    trained.settings["classifiers"]["bars"]["training"] |= {
        "threads": 2,
        "checkpoint_interval_s": 5,
    }
    assert set(trained.planned("classifiers")) == {"report_classifiers", "classifiers"}


def test_another_network_trains_again(trained):
    trained.settings["classifiers"]["bars"]["network"]["dropout"] = 0.25
    assert trained.planned("classifiers")["train_classifier"] == 1


def test_a_mistake_in_the_config_is_reported_before_anything_runs(trained):
    trained.settings["classifiers"]["bars"]["netwrk"] = {}
    trained.settings["classifiers"]["other"] = {"path": "nowhere"}
    fails_saying(
        trained,
        "config.yaml: classifiers.bars.netwrk: unknown key;",
        "did you mean network?",
        arguments=("classifiers",),
    )
    del trained.settings["classifiers"]["bars"]["netwrk"]
    fails_saying(
        trained,
        "config.yaml: classifiers.other.path: nowhere: no such folder; expected the path of a",
        arguments=("classifiers",),
    )


def test_what_is_wrong_with_the_files_is_reported_by_the_job(trained):
    labels = trained.path("bars/train-labels-idx1-ubyte")
    before = labels.read_bytes()
    write_idx(labels, np.zeros(59, np.uint8))
    try:
        fails_saying(
            trained,
            "train_classifier bars: bars/train-labels-idx1-ubyte: has 59 labels; expected 60, one"
            " for each image in bars/train-images-idx3-ubyte",
            arguments=("classifiers",),
        )
    finally:
        labels.write_bytes(before)


def test_a_wrong_checksum_is_reported_by_the_job(trained):
    name = "train-images-idx3-ubyte"
    trained.settings["classifiers"]["bars"]["checksums"] = {name: "ab" * 32}
    fails_saying(
        trained,
        f"train_classifier bars: bars/{name}: has the SHA-256 ",
        f"; expected {'ab' * 32};",
        arguments=("classifiers",),
    )


def test_without_classifiers_the_target_says_so(workspace):
    done = workspace.run("classifiers")
    assert done.returncode != 0
    assert "config.yaml: classifiers: missing; expected at least one set of images" in done.stdout
