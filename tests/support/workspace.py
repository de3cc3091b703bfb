"""A folder with a tiny image and tiny networks in which tests run the real workflow."""

import copy
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from idx_writer import write_idx
from PIL import Image
from processes import run

from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING

ROOT = Path(__file__).parents[2]

SETTINGS = {
    "images": {"tiny": {"path": "tiny.png", "size": 16}},
    "fields": {
        "siren": {"type": "siren", "width": 8, "hidden_layers": 1},
        "plain": {"type": "mlp", "widths": [8]},
    },
    "training": {
        "device": "cpu",
        "steps": 20,
        "snapshots": 4,
        "learning_rate": 0.002,
        "threads": 1,
    },
    "render": {"sizes": [8]},
    "timelapse": {"size": 16, "frames": 3, "formats": ["mp4", "gif"]},
}


def without_kernels(**training: Any) -> dict[str, Any]:
    """Return settings of a network that is trained without Numba and kernels, which would take a
    second of each job, for tests that are not about engines.
    """
    settings = {"precision": "float64", **training}
    return {"type": "siren", "width": 8, "hidden_layers": 1, "training": settings}


class Workspace:
    """A separate working directory for the workflow of this checkout.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.snakefile = ROOT / "Snakefile"
        self.settings = yaml.safe_load(yaml.safe_dump(SETTINGS))
        self.draw("tiny.png", seed=0)

    def draw(self, name: str, seed: int) -> None:
        """Make a small image of noise."""
        noise = np.random.default_rng(seed).integers(0, 256, (16, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(self.folder / name)

    def add_table(self) -> None:
        """Write a small table and add it to the settings."""
        self.path("slope.csv").write_text("x,y\n" + "".join(f"{n},{3 * n}\n" for n in range(9)))
        table = {"path": "slope.csv", "inputs": ["x"], "targets": ["y"], "training": {"steps": 20}}
        self.settings["tables"] = {"slope": table}

    def add_classifier(self) -> None:
        """Write a small set of labelled images and add it to the settings."""
        random = np.random.default_rng(0)
        self.path("bars").mkdir()
        for count, names in ((60, TRAINING), (30, HELD_OUT)):
            images = random.integers(0, 60, (count, 6, 6), dtype=np.uint8)
            labels = np.arange(count) % 2
            for image, label in zip(images, labels, strict=True):
                (image if label else image.T)[random.integers(6)] = 220
            for name, values in zip(names, (images, labels), strict=True):
                write_idx(self.path(f"bars/{name}"), values)
        network = {"channels": [4], "kernel": 3, "padding": 1, "hidden": [8]}
        training = {"steps": 40, "batch_samples": 20, "snapshots": 3, "learning_rate": 0.01}
        bars = {"path": "bars", "network": network, "training": training}
        self.settings["classifiers"] = {"bars": bars}

    @contextmanager
    def settings_kept(self) -> Iterator[None]:
        """Restore the settings at the end of the context."""
        before = copy.deepcopy(self.settings)
        yield
        self.settings = before

    def command(self, *arguments: str) -> list[str]:
        """Write config.yaml, and return the command that a user would type."""
        (self.folder / "config.yaml").write_text(yaml.safe_dump(self.settings, sort_keys=False))
        command = [sys.executable, "-m", "snakemake", "--snakefile", str(self.snakefile)]
        return [*command, "--cores", "2", *arguments]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the workflow to its end; its output is in ``stdout``."""
        return self.run_command(self.command(*arguments))

    def run_command(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        """Run a command from `command` to its end; see `run`."""
        return run_in(self.folder, command)

    def start(self, *arguments: str) -> subprocess.Popen:
        """Start the workflow in a new session, to be killed or stopped together with its jobs."""
        return subprocess.Popen(
            self.command(*arguments),
            cwd=self.folder,
            env=clean_environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def succeed(self, *arguments: str) -> str:
        """Run the workflow, check that it succeeds, and return its output."""
        return succeed_in(self.folder, self.command(*arguments))

    def unlock(self) -> None:
        """Remove the lock of a killed Snakemake, as its message says."""
        if any(self.path(".snakemake/locks").glob("*.lock")):
            self.succeed("--unlock")

    def planned(self, *arguments: str) -> dict[str, int]:
        """Count how many jobs of each rule would run now."""
        messages = self.succeed("--dry-run", "--verbose", *arguments)
        if "Nothing to be done" in messages:
            return {}
        table = re.search(r"^Job stats:\njob .*\n-.*\n((?:\w+ +\d+\n)+)", messages, re.MULTILINE)
        assert table, messages
        jobs = dict(line.split() for line in table[1].splitlines())
        return {
            rule: int(count) for rule, count in jobs.items() if rule not in ("everything", "total")
        }

    def path(self, name: str) -> Path:
        """Return the path of a file in the folder."""
        return self.folder / name


def run_in(folder: Path, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder to its end; its output is in ``stdout``."""
    return run(command, cwd=folder, env=clean_environment(), stderr=subprocess.STDOUT)


def succeed_in(folder: Path, command: list[str]) -> str:
    """Run a command in a folder, check that it succeeds, and return its output."""
    done = run_in(folder, command)
    assert done.returncode == 0, done.stdout
    return done.stdout


def clean_environment() -> dict[str, str]:
    """Return the environment of a user: without variables of parallel tests, and without SciPy.

    Only tests install SciPy; Numba imports it if it is installed, which takes a third of a second
    in each job.
    """
    hidden = ("PYTEST_", "COV_", "PYTHONPATH")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return kept | {"PYTHONPATH": str(ROOT / "tests" / "support" / "not_installed")}
