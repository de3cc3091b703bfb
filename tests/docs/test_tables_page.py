"""docs/tables.md: its example runs as written, and its keys agree with the schema."""

import math
import os
import re
import subprocess
import sys

import pytest
import yaml
from workspace import ROOT, Workspace, clean_environment

from config.schema import read_schema

PAGE = (ROOT / "docs/tables.md").read_text()
SCHEMA = read_schema()["$defs"]
EXAMPLE = PAGE.split("## A table of your own in one minute")[1].split("\n## ")[0]


def blocks(language: str, text: str = EXAMPLE) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def rows(heading: str) -> dict[str, str]:
    """Return the defaults in a table of the page, by key."""
    table = PAGE.split(f"| {heading} |")[1].split("\n\n")[0]
    found = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) ?\|$", table, re.MULTILINE)
    return {key: default.strip().strip("`") for key, default in found}


@pytest.mark.slow
def test_the_example_works_as_written(tmp_path):
    for name in ("Snakefile", "workflow", "scripts", "profiles"):
        (tmp_path / name).symlink_to(ROOT / name)
    workspace = Workspace(tmp_path)
    (own,) = blocks("yaml")
    workspace.settings |= yaml.safe_load(own)
    workspace.command()  # writes config.yaml
    path = f"{os.fspath(os.path.dirname(sys.executable))}{os.pathsep}{os.environ['PATH']}"  # noqa: PTH120
    environment = clean_environment() | {"PATH": path}
    for command in blocks("sh"):
        done = subprocess.run(
            command,
            shell=True,
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout
    folder = tmp_path / "results/tables/tides"
    for name in re.findall(r"^\| `([\w.]+)`", EXAMPLE, re.MULTILINE):
        assert (folder / name).exists(), name
    (program,) = blocks("python")
    asked = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(ROOT / "scripts")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert asked.returncode == 0, asked.stderr
    answers = [float(text) for text in re.findall(r"-?\d+\.\d+", asked.stdout)]
    tide_m = [2 + 1.3 * math.sin(2 * hour / 3.95) for hour in (3.25, 12.8)]
    assert answers == pytest.approx(tide_m, abs=0.1)


def test_the_keys_of_a_table_are_those_of_the_schema():
    messages, rules = rows("key of a table"), SCHEMA["table"]["properties"]
    assert set(messages) == set(rules)
    for key in ("scale_inputs", "scale_targets"):
        assert messages[key] == rules[key]["default"]
    assert float(messages["held_out_share"]) == rules["held_out_share"]["default"]


def test_the_keys_of_its_network_are_those_of_the_schema():
    messages = {key: yaml.safe_load(default) for key, default in rows("key of `network`").items()}
    assert messages == {key: rule["default"] for key, rule in SCHEMA["dense"]["properties"].items()}


def test_what_is_different_of_its_training_is_what_the_schema_says():
    messages = {key: yaml.safe_load(default) for key, default in rows("key of `training`").items()}
    usual, own = (SCHEMA[name]["properties"] for name in ("training", "table_training"))

    def default(key: str):
        rule = own[key]
        return rule.get("default", usual.get(key, {}).get("default"))

    different = {
        key for key in own if key not in usual or default(key) != usual[key].get("default")
    }
    assert messages == {key: default(key) for key in different}
    missing = {"engine", "budget", "cpu_budget"}
    missing |= {"batch_pixels", "supervision", "footprint_points", "detail_share"}
    missing |= {"residual", "residual_scale"}
    assert set(usual) - set(own) == missing
