"""Model files of tables and classifiers: damage is reported, and no claim of a file is trusted."""

import pytest
import small_classifiers
import test_table_task
from damaged_models import complaint_about, require_damages_of_training_named
from small_classifiers import SMALL

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
        ("table", {"inputs": ["a", "a"]}, "columns"),
        ("table", {"inputs": ["a", "b"]}, "a scaling of 2 columns"),
        ("table", {"record": 3}, "a record that is a int"),
        ("table", {"input_scaling": {"centre": [0.0], "spread": [0.0]}}, "spread of a scaling"),
        ("table", {"input_scaling": {"centre": [float("inf")], "spread": [1.0]}}, "centre of a"),
        ("table", {"input_scaling": {"centre": [10**400], "spread": [1.0]}}, "OverflowError"),
        ("table", {"network": {"widths": [10**6] * 3}}, "are too few for Dense"),
        ("table", {"network": {"widths": [10**18]}}, "expected a list of at most 1,000 widths"),
        ("table", {"network": {"widths": [1] * 1001}}, "expected a list of at most 1,000 widths"),
        (
            "table",
            {"network": {"widths": [9]}},
            "expected a network of a table that this version can read",
        ),
        ("table", {"network": {"widths": [8], "colour": 1}}, "unknown ['colour']"),
        ("classifier", {"format": 2}, "format 2; expected format 1; update neuralfield"),
        ("classifier", {"kind": "table"}, "kind 'table'"),
        ("classifier", {"classes": 300}, "300 classes"),
        ("classifier", {"classes": 4}, "expected a classifier that this version can read"),
        ("classifier", {"width": 0}, "0 x 5 pixels"),
        ("classifier", {"width": 10**9}, "pixels and 3 classes"),
        ("classifier", {"record": 3}, "a record that is a int"),
        ("classifier", {"scaling": {"centre": [0.0], "spread": [0.0]}}, "spread of a scaling"),
        ("classifier", {"network": SMALL | {"hidden": [10**9]}}, "are too few for Conv"),
        ("classifier", {"network": SMALL | {"channels": [10**9]}}, "are too few for Conv"),
        (
            "classifier",
            {"network": SMALL | {"padding": 10**9}},
            "classifier that this version can read",
        ),
        ("classifier", {"network": SMALL | {"colour": 1}}, "unknown ['colour']"),
    ],
)
def test_a_model_s_own_words_are_not_believed(trained, tmp_path, kind, changes, complaint):
    source, load = trained[kind] / "model.safetensors", KINDS[kind][1].load
    assert complaint in complaint_about(changes, source, tmp_path, load)
