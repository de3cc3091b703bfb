"""Checks of an untrusted config.yaml before Snakemake, which would run code in it, reads it."""

import json
import sys

import pytest
import yaml
from workspace import SETTINGS, Workspace, run_in

from config.config_file import require_given_once, require_harmless, require_keys_once
from jobs.startup import UserError

MULTIPLIED = "\n".join(
    ["a0: &a0 {x: 1, y: 2}", *(f"a{n}: &a{n} {{x: *a{n - 1}, y: *a{n - 1}}}" for n in range(1, 40))]
)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("__use_yte__: true\n?print(1): 2\n", "would run code"),
        (MULTIPLIED, "more than 100,000 values"),
        ("a: &a [*a]\n", "refers to itself"),
        ("a: " + "[" * 3000 + "]" * 3000, "more than 50 levels"),
        ("a: !!python/object/apply:os.system [id]\n", "line 1: could not determine a constructor"),
        ("a: " + "9" * 5000, "a word or number of 5,000 characters"),
        ("a: " + "x" * (1 << 20), "not a regular file of at most 1 MiB"),
        (
            "images:\n  cub: {path: a.png}\n  cub: {path: b.png}\n",
            "config.yaml: images.cub occurs twice (lines 2 and 3); expected each key and name",
        ),
    ],
)
def test_what_would_do_harm_is_refused(tmp_path, text, found):
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(UserError) as caught:
        require_harmless(tmp_path / "config.yaml")
    messages = str(caught.value)
    assert found in messages and "expected" in messages and "\n" not in messages


def test_files_of_the_command_line_are_looked_at_too(tmp_path):
    (tmp_path / "mine.yaml").write_text("fields:\n  a: {type: siren}\n  a: {type: mlp}\n")
    with pytest.raises(UserError, match=r"mine.yaml: fields.a occurs twice \(lines 2 and 3\)"):
        require_keys_once(tmp_path / "mine.yaml")


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        (["--config", "image=a.png", "image=b.png"], "--config: image is set twice; expected each"),
        (["-C", "image=a.png", "-n", "--config", "size=400"], "--config: given 2 times, but only"),
        (["--config", "training={steps: 5, steps: 6}"], "--config: training.steps occurs twice"),
    ],
)
def test_what_the_command_line_says_twice_is_refused(arguments, found):
    with pytest.raises(UserError) as caught:
        require_given_once(arguments)
    messages = str(caught.value)
    assert found in messages and "; expected " in messages and "\n" not in messages


def test_what_the_command_line_says_once_is_taken():
    require_given_once(["--config", "image=a=b.png", "training={steps: 5}", "-n", "results/a=1"])
    require_given_once(["--configfile", "a.yaml", "--config", "image={[", "--", "image=1"])


@pytest.mark.parametrize("text", [yaml.safe_dump(SETTINGS), json.dumps(SETTINGS, indent=2)])
def test_yaml_and_json_are_taken(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    require_harmless(tmp_path / "config.yaml")


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
