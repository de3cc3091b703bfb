"""The target `tables` in the real workflow: from a section of the config to a page."""

import csv
import json
import os

import numpy as np
import pytest
from test_mistakes import fails_saying
from workspace import Workspace

from neuralfield.tasks.table.table_model import TableModel

pytestmark = pytest.mark.slow

ROWS = {
    "either": "a,b,either\n0,0,0\n0,1,1\n1,0,1\n1,1,1\n",
    "slope": "x,y,y_true\n" + "".join(f"{n},{3 * n + n % 2},{3 * n}\n" for n in range(12)),
}


def add_tables(workspace: Workspace) -> None:
    """Add two tiny tables, one of them with two sizes of networks."""
    for name, text in ROWS.items():
        workspace.path(f"{name}.csv").write_text(text)
    short = {"steps": 30, "snapshots": 3}
    workspace.settings["tables"] = {
        "either": {
            "path": "either.csv",
            "inputs": ["a", "b"],
            "targets": ["either"],
            "network": {"widths": [3], "output": "sigmoid"},
            "sizes": [[]],
            "training": short | {"loss": "binary_cross_entropy"},
        },
        "slope": {
            "path": "slope.csv",
            "about": "A <b>line</b> & $more",
            "inputs": ["x"],
            "targets": ["y"],
            "truth": ["y_true"],
            "network": {"widths": []},
            "held_out_share": 0.25,
            "training": short,
        },
    }


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """Return a workspace in which only the tables have been made."""
    workspace = Workspace(tmp_path_factory.mktemp("trained"))
    add_tables(workspace)
    workspace.succeed("tables")
    assert not workspace.path("results/report.html").exists()
    return workspace


@pytest.fixture(autouse=True)
def keep_settings(trained: Workspace):
    """Restore the settings that a test changes."""
    with trained.settings_kept():
        yield


def test_every_file_is_made_and_no_image(trained):
    made = {os.fspath(p.relative_to(trained.folder)) for p in trained.path("results").rglob("*")}
    for folder in ("either", "slope", "either/sizes/none"):
        for name in (
            *("model.safetensors", "history.csv", "training.json", "metrics.json"),
            *("predictions.csv", "checkpoints/step_00000030.safetensors"),
        ):
            assert f"results/tables/{folder}/{name}" in made, name
    assert {"results/tables/either/plot.png", "results/tables/slope/plot.png"} <= made
    assert not [name for name in made if ".state" in name or "tiny" in name]
    assert "results/report.html" not in made


def test_the_page_has_what_was_measured(trained):
    page = trained.path("results/tables/report.html").read_text()
    slope = json.loads(trained.path("results/tables/slope/metrics.json").read_text())
    assert (slope["rows"], slope["held_out_rows"], slope["parameters"]) == (12, 3, 2)
    for words in (
        "2 tables",
        "Either",
        "Slope",
        "Rows held out",
        "least squares",
        "Bits per parameter",
    ):
        assert words in page, words
    assert f"{slope['rmse']:.4g}" in page and f"{slope['rmse_to_truth']:.4g}" in page
    assert "A &lt;b&gt;line&lt;/b&gt; &amp; $more" in page
    assert page.count("<svg") == 4
    assert "http://" not in page.replace("http://www.w3.org/", ""), "needs no network"


def test_the_network_answers_as_its_predictions_say(trained):
    model = TableModel.load(trained.path("results/tables/either/model.safetensors"))
    with trained.path("results/tables/either/predictions.csv").open() as file:
        rows = list(csv.DictReader(file))
    values = [[float(row["a"]), float(row["b"])] for row in rows]
    answers = model.predict(np.array(values))[:, 0]
    messages = [float(row["predicted_either"]) for row in rows]
    np.testing.assert_allclose(answers, messages, rtol=1e-6)


def test_nothing_is_made_twice(trained):
    assert trained.planned("tables") == {}


def test_images_do_without_tables(trained):
    assert not [rule for rule in trained.planned() if "table" in rule]


def test_another_table_runs_only_what_is_new(trained):
    trained.settings["tables"]["third"] = trained.settings["tables"]["slope"] | {"about": "new"}
    assert trained.planned("tables") == {
        **{"train_table": 1, "evaluate_table": 1, "plot_table": 1, "report_tables": 1, "tables": 1},
    }


def test_another_size_runs_only_what_is_new(trained):
    trained.settings["tables"]["either"]["sizes"] = [[], [2, 2]]
    planned = trained.planned("tables")
    assert (planned["train_table"], planned["evaluate_table"]) == (1, 1)


def test_words_and_cores_train_nothing(trained):
    trained.settings["tables"]["slope"]["about"] = "something else"
    trained.settings["tables"]["slope"]["training"] |= {"threads": 2, "checkpoint_interval_s": 5}
    assert set(trained.planned("tables")) == {"report_tables", "tables"}


def test_a_mistake_in_the_config_is_reported_before_anything_runs(trained):
    trained.settings["tables"]["slope"]["inputs"] = "x"
    trained.settings["tables"]["slope"]["netwrk"] = {}
    fails_saying(
        trained,
        "config.yaml: tables.slope.inputs: 'x'; expected a list of one or more different names",
        "config.yaml: tables.slope.netwrk: unknown key;",
        "did you mean network?",
        arguments=("tables",),
    )


def test_a_column_that_is_not_there_is_reported_by_the_job(trained):
    trained.settings["tables"]["slope"]["targets"] = ["z"]
    fails_saying(
        trained,
        "train_table slope: slope.csv: has no column z; its columns are: x, y, y_true",
        arguments=("tables",),
    )


def test_without_tables_the_target_says_so(workspace):
    done = workspace.run("tables")
    assert done.returncode != 0
    assert "config.yaml: tables: missing; expected at least one table" in done.stdout
