"""Other ways to run: a user's own image, imported weights, and kills."""

import json
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from processes import wait_until
from workspace import ROOT, Workspace, succeed_in

import neuralfield as nf


@pytest.mark.slow
def test_own_image(workspace: Workspace):
    """An image given on the command line is made under its own name, and no listed one is made."""
    del workspace.settings["fields"]["plain"]
    workspace.settings["timelapse"]["formats"] = []
    Image.new("RGB", (30, 20), "orange").save(workspace.path("My Photo.jpg"))
    workspace.succeed("--config", "image=My Photo.jpg")
    made = {path.name for path in workspace.path("results").iterdir()}
    assert made == {"my-photo", "report.html", "summary.csv"}
    facts = json.loads(workspace.path("results/my-photo/picture.json").read_text())
    assert facts["resized"]["width"] == 30


@pytest.mark.slow
def test_imports_and_crops(workspace: Workspace):
    workspace.settings["fields"] = {"old": {"type": "imported", "path": "model.json"}}
    workspace.settings["render"]["crops"] = {"eye": {"box": [0.25, 0, 0.5, 1], "size": 9}}
    layers = [
        {"name": "a", "layer_type": "Linear", "shape": [3, 2], "weights": [0.1] * 6},
        {"name": "b", "layer_type": "Tanh"},
        {"name": "c", "layer_type": "Linear", "shape": [2, 3], "weights": [0.2] * 6},
        {"name": "d", "layer_type": "Sigmoid"},
    ]
    workspace.path("model.json").write_text(json.dumps({"layers": layers}))
    made = ("metrics.json", "render_8.png", "crop_eye.png", "view.html")
    targets = [f"results/tiny/old/{name}" for name in made]
    workspace.succeed(*targets)
    results = workspace.path("results/tiny")
    assert json.loads((results / "old/metrics.json").read_text())["steps"] is None
    names = {*made, "model.safetensors", "comparison", ".kept"}
    assert {path.name for path in (results / "old").iterdir()} == names
    with Image.open(results / "old/crop_eye.png") as crop:
        assert crop.size == (3, 9)
    assert workspace.planned(*targets) == {}


@pytest.mark.slow
def test_a_time_limit_and_retries_end_with_the_same_bytes(workspace: Workspace):
    """Every attempt stops at its time limit, and Snakemake starts the next one."""
    siren = workspace.settings["fields"]["siren"]
    limit = {"time_limit_s": 0.01, "time_margin_s": 0}  # one step each
    workspace.settings["fields"] = {"whole": siren, "cut": {**siren, "training": limit}}
    workspace.settings["training"] |= {"steps": 6, "engine": "tape"}
    cut, whole = (f"results/tiny/{field}/model.safetensors" for field in ("cut", "whole"))
    messages = workspace.succeed("--retries", "6", cut, whole)
    assert re.search(
        r"train tiny cut: time limit: saved after step .*; run the same command", messages
    )
    assert "Trying to restart job" in messages
    assert re.search(r"tiny / cut: resuming from the state saved after step", messages)
    assert workspace.path(cut).read_bytes() == workspace.path(whole).read_bytes()
    del workspace.settings["fields"]["cut"]["training"]
    assert "train" not in workspace.planned(cut), "a limit makes no difference to the result"


@pytest.mark.slow
def test_the_same_command_goes_on_after_a_kill(workspace: Workspace):
    """Snakemake is killed while a training runs: its lock remains, and its job continues alone."""
    del workspace.settings["fields"]["plain"]
    workspace.settings["timelapse"]["formats"] = []
    workspace.settings["training"] |= {"steps": 4000, "checkpoint_interval_s": 0.2}
    process = workspace.start()
    wait_until(lambda: list(workspace.folder.glob("results/tiny/siren/.state/**/state_*")), process)
    os.killpg(process.pid, signal.SIGSTOP)  # pauses Snakemake and its job
    refused = workspace.run()
    assert refused.returncode != 0 and "Directory cannot be locked" in refused.stdout
    process.kill()
    os.killpg(process.pid, signal.SIGCONT)
    process.wait()
    workspace.unlock()
    workspace.succeed()
    record = json.loads(workspace.path("results/tiny/siren/training.json").read_text())
    assert record["steps"] == 4000
    assert workspace.path("results/report.html").exists()
    assert not workspace.path("results/tiny/siren/.state").exists()


def test_the_shipped_settings_and_profile_are_found(tmp_path: Path):
    """Without a config.yaml in the working directory, the one beside the Snakefile is used."""
    command = [sys.executable, "-m", "snakemake", "-s", str(ROOT / "Snakefile")]
    messages = succeed_in(tmp_path, [*command, "--cores", "2", "-n"])
    assert "Using workflow specific profile" in messages
    assert "lion_cub, siren: train, " in messages


@pytest.mark.slow
def test_an_image_in_few_bits(workspace: Workspace):
    """A coded image is decoded, shown, filmed and reported beside networks and other codecs."""
    workspace.settings["fields"] = {"small": {"type": "latents", "training": {"steps": 20}}}
    workspace.succeed("--config", "target={lambda: 1e-4}")
    folder = workspace.path("results/tiny/small")
    numbers = json.loads((folder / "metrics.json").read_text())
    content = (folder / "image.nfz").read_bytes()
    assert numbers["stored_bytes"] == len(content)
    assert numbers["bits_per_pixel"] == 8 * len(content) / (16 * 11)
    with Image.open(folder / "image.png") as image:
        assert image.size == (16, 11)
        assert (nf.decode(content).levels() == np.asarray(image)).all()
    report = workspace.path("results/report.html").read_text()
    assert "AVIF" in report
    assert "Time-lapse of small on Tiny" in report
    assert workspace.planned("--config", "target={lambda: 1e-4}") == {}
    assert "code_image" in workspace.planned("--config", "target={bytes: 300}")
