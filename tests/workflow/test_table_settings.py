"""The section `tables` of the config: what is filled in, and what is refused."""

import pytest
from complaints import changed, complaints, read

from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.training_settings import HOW_AND_WHERE, SampleTraining


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        ("path", "no.csv", "tables.rows.path: no.csv: no such file; expected the path of a CSV"),
        ("inputs", ["a", "a"], "tables.rows.inputs: [a, a]; expected a list of one or more"),
        ("inputs", [True], "tables.rows.inputs.0: true; expected the name of a column; in quotes"),
        ("targets", ["a"], "tables.rows.targets: a, which is also an input; expected columns"),
        ("truth", ["a", "c"], "tables.rows.truth: 2 columns; expected a column for each target: 1"),
        ("network.activation", "tan", "; did you mean tanh?"),
        ("sizes", [[8], [8]], "tables.rows.sizes: [[8], [8]]; expected a list of different widths"),
        ("sizes", [[32, 32]], "tables.rows.sizes: [32, 32], the widths of the network itself"),
        ("training.batch_pixels", 9, "training.batch_pixels: unknown key; expected one of device"),
        ("training.warmup_steps", 2001, "rows.training.warmup_steps: 2001; expected at most steps"),
        (
            "training.loss",
            "binary_cross_entropy",
            "tables.rows.network.output: linear; expected sigmoid, whose values are probabilities",
        ),
    ],
)
def test_complaint_of_a_table(written, path, value, complaint):
    written["tables"] = {"rows": {"path": "rows.csv", "inputs": ["a"], "targets": ["b"]}}
    assert read(written)["tables"]["rows"]["network"]["widths"] == [32, 32]
    changed(written, f"tables.rows.{path}", value)
    assert complaint in "\n".join(complaints(written))


def test_columns_may_have_names_like_numbers(written):
    written["tables"] = {"years": {"path": "rows.csv", "inputs": ["2024"], "targets": ["1e3"]}}
    table = read(written)["tables"]["years"]
    assert (table["inputs"], table["targets"]) == (["2024"], ["1e3"])


def test_schema_and_tables_agree(written):
    """The keys and defaults of a table's network and training are those of the package."""
    written["tables"] = {"rows": {"path": "rows.csv", "inputs": ["a"], "targets": ["b"]}}
    table = read(written)["tables"]["rows"]
    network = table["network"] | {"widths": tuple(table["network"]["widths"])}
    assert network == vars(Dense())
    training = {k: v for k, v in table["training"].items() if k not in HOW_AND_WHERE}
    assert SampleTraining.from_mapping(training) == SampleTraining()
    off = {"gradient_clip_norm", "keep_best", "epsilon"}
    assert set(training) | off == set(vars(SampleTraining()))
