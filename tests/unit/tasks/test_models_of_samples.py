"""Tables and classifiers: trainings recover as those of fields do, and model files are checked."""

import pytest
import small_classifiers
import test_fit
import test_table_task
from damaged_models import complaint_about, require_damages_of_training_named
from small_classifiers import SMALL
from test_fit import require_same_bytes_after_a_kill

from neuralfield.system.device import available_cores
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.table.table_model import TableModel

KINDS = {
    "table": (test_table_task, TableModel, "inputs", "widths"),
    "classifier": (small_classifiers, ClassifierModel, "classes", "hidden"),
}
"""For each kind: the module that makes and trains a task, the model, one of its attributes, and
the setting of its widths."""


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the folders of finished trainings, by the kind of network."""
    folders = {kind: tmp_path_factory.mktemp(kind) for kind in KINDS}
    for kind, (made, *_) in KINDS.items():
        made.train(made.make_task(), folders[kind])
    return folders


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_larger_than_memory_is_refused_before_it_is_made(kind):
    made, _, _, widths = KINDS[kind]
    task = made.make_task(network={widths: (10**9, 10**9)})
    with pytest.raises(NeuralfieldError, match=f"network: {widths}: needs about"):
        task.fresh_network()


EVERYTHING = {"optimizer": "muon", "gradient_clip_norm": 0.5, "keep_best": True, "steps": 60}


def make_task(kind, data=None, network=None, **training):
    if kind == "table":
        return test_table_task.make_task(data, network, training)
    return small_classifiers.make_task(data, network, **training)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", [3, 30])
def test_killed_and_resumed_it_ends_with_the_same_bytes(tmp_path, kind, row):
    require_same_bytes_after_a_kill(make_task(kind, **EVERYTHING), tmp_path, row)


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_threads_does_not_change_a_byte_and_the_seed_does(
    tmp_path, monkeypatch, kind
):
    for block in (
        "table.table_objective.BLOCK_ROWS",
        "classifier.classifier_objective.BLOCK_IMAGES",
    ):
        monkeypatch.setattr(f"neuralfield.tasks.{block}", {"cpu": 7})
    threads = min(2, available_cores())
    for name, seed, count in (("a", 0, 1), ("b", 0, threads), ("c", 1, 1)):
        task = make_task(kind, random_seed=seed, batch_samples=0)
        test_fit.train(task, tmp_path / name, threads=count)
    a, b, c = (test_fit.sha256(tmp_path / name / "model.safetensors") for name in "abc")
    assert a == b != c


@pytest.mark.parametrize("kind", KINDS)
def test_other_data_do_not_go_on_from_the_state_of_these(tmp_path, kind):
    other = test_table_task.curve(81) if kind == "table" else small_classifiers.bars(seed=2)
    test_fit.train(make_task(kind), tmp_path, checkpoint_interval_s=0)
    messages = test_fit.train(make_task(kind, other), tmp_path)
    assert any("starting at step 0" in line for line in messages)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("kind", "network", "rate"),
    [("table", {"activation": "relu"}, 3.0), ("classifier", {"hidden": (), "dropout": 0.0}, 30.0)],
)
def test_a_training_that_diverges_goes_back_once(tmp_path, kind, network, rate):
    training = {"optimizer": "sgd", "learning_rate": rate, "schedule": "constant", "steps": 200}
    messages = test_fit.train(make_task(kind, None, network, **training), tmp_path)
    assert any("returning to step" in line for line in messages)
    model = KINDS[kind][1].load(tmp_path / "model.safetensors")
    assert model.metadata["rolled_back_to_step"] is not None


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_model_is_named(trained, tmp_path, kind):
    _, model, fact, _ = KINDS[kind]
    require_damages_of_training_named(trained[kind], tmp_path, model.load, fact)


@pytest.mark.parametrize(
    ("kind", "changes", "complaint"),
    [
        ("table", {"format": 2}, "format 2; expected format 1; update neuralfield"),
        ("table", {"kind": "image"}, "kind 'image'"),
        ("table", {"inputs": []}, "columns"),
        ("table", {"inputs": ["a", "b"]}, "a scaling of 2 columns"),
        ("table", {"record": 3}, "a record that is a int"),
        ("table", {"input_scaling": {"centre": [0.0], "spread": [0.0]}}, "spread of a scaling"),
        ("table", {"input_scaling": {"centre": [10**400], "spread": [1.0]}}, "OverflowError"),
        ("table", {"network": {"widths": [10**6] * 3}}, "are too few for Dense"),
        ("table", {"network": {"widths": [8], "colour": 1}}, "unknown ['colour']"),
        ("classifier", {"kind": "table"}, "kind 'table'"),
        ("classifier", {"classes": 300}, "300 classes"),
        ("classifier", {"classes": 4}, "expected a classifier that this version can read"),
        ("classifier", {"width": 10**9}, "pixels and 3 classes"),
        ("classifier", {"network": SMALL | {"hidden": [10**9]}}, "are too few for Conv"),
    ],
)
def test_a_model_s_own_words_are_not_believed(trained, tmp_path, kind, changes, complaint):
    source, load = trained[kind] / "model.safetensors", KINDS[kind][1].load
    assert complaint in complaint_about(changes, source, tmp_path, load)
