"""Checks of a config file before Snakemake reads it, which would run code in it."""

import json
import sys

import pytest
import yaml
from snakemake.exceptions import WorkflowError
from workspace import SETTINGS, Workspace, run_in

from config.config_file import config_file, problem_in, require_given_once

MULTIPLIED = "\n".join(
    ["a0: &a0 {x: 1, y: 2}", *(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40))]
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("__use_yte__: true\n?print(1): 2\n", "line 1: __use_yte__ would run code"),
        (MULTIPLIED, "more than 100,000 values"),
        ("a: &a [*a]\n", "more than 100,000 values"),
        ("a: " + "x" * (1 << 20), "not a file of at most 1 MiB"),
        (
            "images:\n  cub: {path: a.png}\n  cub: {path: b.png}\n",
            "images.cub occurs twice (lines 2 and 3); expected each key and name",
        ),
    ],
)
def test_what_would_do_harm_is_refused(tmp_path, monkeypatch, text, found):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(WorkflowError) as caught:
        config_file(tmp_path)
    assert str(caught.value).startswith(f"config.yaml: {found}") and "expected" in str(caught.value)


def test_settings_are_given_after_one_config_option():
    require_given_once(["snakemake", "--config", "image=a.png", "size=9", "-n"])
    with pytest.raises(WorkflowError, match="--config: given several times"):
        require_given_once(["snakemake", "-C", "image=a.png", "-n", "--config", "size=400"])


@pytest.mark.parametrize("text", [yaml.safe_dump(SETTINGS), json.dumps(SETTINGS, indent=2)])
def test_yaml_and_json_are_taken(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    assert not problem_in(tmp_path / "config.yaml")


@pytest.mark.slow
def test_nothing_in_it_is_run(tmp_path):
    workspace = Workspace(tmp_path)
    command = workspace.command("--dry-run")
    evil = "__use_yte__: true\nimages:\n  ?open('run', 'w').name: {path: tiny.png}\n"
    workspace.path("config.yaml").write_text(evil + "fields: {siren: {type: siren}}\n")
    assert "snakemake" in command and command[0] == sys.executable
    done = run_in(tmp_path, command)
    assert done.returncode != 0 and "would run code" in done.stdout
    assert not workspace.path("run").exists()
