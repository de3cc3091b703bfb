"""The processes that are killed: a training, and Snakemake with the jobs it has started."""

import csv
import fnmatch
import hashlib
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import ClassVar

from train_and_render import CHECKPOINT_INTERVAL_S, READY

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "support"), str(HERE.parents[1] / "verification")]  # as pytest does

from check import check  # noqa: E402
from workspace import Workspace, clean_environment  # noqa: E402

from neuralfield.system.errors import InputError  # noqa: E402

LOG = "messages.txt"
NOT_COMPARED = {
    "report.html",
    "summary.csv",
    "metrics.json",
    "training.json",
    "comparison.csv",
    "comparison_by_image.csv",
    "state.safetensors",
    "batches.jsonl",
}
"""Files of which only the existence is compared: they contain times, except the ledger, which grows
when settings change. The same applies to the lists of tiles' files, which contain digests of files
with times. history.csv is compared without its seconds."""


SendSignal = Callable[[int, signal.Signals], None]


class TrainingVictim:
    """The training process of `train_and_render.py`, which is killed in one of the `ways`.

    `longest_share` is the longest time before a kill, as a share of an undisturbed run's.
    """

    name: ClassVar = "training"
    ways: ClassVar[Mapping[str, SendSignal]] = {"training": os.killpg}
    longest_share: ClassVar = 0.25

    def __init__(self, device_kind: str, steps: int) -> None:
        self.device_kind, self.steps = device_kind, steps

    def start(self, folder: Path) -> subprocess.Popen:
        """Start or resume it in a new session."""
        folder.mkdir(exist_ok=True)
        arguments = [str(folder), self.device_kind, str(self.steps)]
        return _start([sys.executable, str(HERE / "train_and_render.py"), *arguments], folder)

    def results(self, folder: Path) -> Path:
        return folder

    def states(self, folder: Path) -> list[Path]:
        return files_below(folder / ".state", "state_*_*.safetensors")

    def checkpoints(self, folder: Path) -> Path:
        """Return what appears first when the results of a training are written."""
        return folder / "checkpoints"

    def phase(self, process: subprocess.Popen, folder: Path, begun: Collection[Path]) -> str:
        """Return its activity as seen from outside; `begun` are the files being written."""
        if READY not in (folder / LOG).read_text():
            return "starting"
        if (folder / "training.json").exists():
            return "rendering"
        if self.checkpoints(folder).exists():
            return "writing results"
        steps = [int(path.stem.rsplit("_", 1)[1]) for path in self.states(folder)]
        quarter = min(4 * max(steps, default=0) // self.steps, 3) + 1
        is_snapshot = any(path.name.startswith(".step_") for path in begun)
        what = f"writing a {'snapshot' if is_snapshot else 'state'}" if begun else "between writes"
        return f"quarter {quarter} of the steps, {what}"


class Workflow:
    """Snakemake working on a tiny image; if `small` is set, on one network and its render."""

    name: ClassVar = "Snakemake"
    ways: ClassVar[Mapping[str, SendSignal]] = {
        "Snakemake with its jobs": os.killpg,
        "Snakemake alone": os.kill,
    }
    longest_share: ClassVar = 0.5

    def __init__(self, device_kind: str, steps: int, *, small: bool = False) -> None:
        self.device_kind, self.steps, self.small = device_kind, steps, small

    def start(self, folder: Path) -> subprocess.Popen:
        folder.mkdir(exist_ok=True)
        workspace = Workspace(folder)
        workspace.settings["training"] |= {
            "device": self.device_kind,
            "steps": self.steps,
            "checkpoint_interval_s": CHECKPOINT_INTERVAL_S,
        }
        workspace.settings["fields"]["coded"] = {"type": "latents"}
        targets = ["results/tiny/siren/render_8.png"] if self.small else []
        return _start_snakemake(workspace, *targets)

    def results(self, folder: Path) -> Path:
        return folder / "results"

    def states(self, folder: Path) -> list[Path]:
        found = files_below(folder / "results/tiny", "state_*_*.safetensors")
        return [path for path in found if ".state" in path.parts]

    def checkpoints(self, folder: Path) -> Path:
        return folder / "results/tiny/siren/checkpoints"

    def phase(self, process: subprocess.Popen, folder: Path, begun: Collection[Path]) -> str:
        scripts = set()
        for pid in processes_of_session(process.pid):
            scripts |= set(re.findall(r"\.snakemake/scripts/tmp\w+\.(\w+)\.py", command_of(pid)))
        jobs = f"during {', '.join(sorted(scripts))}" if scripts else "between jobs"
        return f"{jobs}, writing" if begun else jobs


Victim = TrainingVictim | Workflow


class FinishedWorkflow:
    """Snakemake working on results that exist already, of every rule unless `small` is set."""

    def __init__(self, folder: Path, *, small: bool = False) -> None:
        self.folder, self.copy = folder / "work", folder / "copy"
        self.folder.mkdir()
        self.workspace = Workspace(self.folder)
        self.workspace.settings["timelapse"] |= {"frames": 2, "formats": ["gif"]}
        self.workspace.settings["training"] |= {"checkpoint_interval_s": CHECKPOINT_INTERVAL_S}
        self.targets = ["all"]
        if small:
            del self.workspace.settings["fields"]["plain"]
        else:
            self._use_every_rule()
        self.rules: dict[str, str] = {}

    @property
    def results(self) -> Path:
        return self.folder / "results"

    def keep_copy(self) -> None:
        """Record which rules made the finished results, and copy the results for `restore`."""
        table = self.workspace.succeed(*self.targets, "--summary", "--quiet")
        lines = [line.split("\t") for line in table.splitlines() if line.startswith("results/")]
        self.rules = {line[3]: line[2] for line in lines}
        shutil.copytree(self.folder, self.copy)

    def restore(self) -> None:
        """Move the folder away, and replace it with the copy."""
        self.folder.rename(self.folder.with_name(f"broken_{time.time_ns()}"))
        shutil.copytree(self.copy, self.folder)

    def start(self, *arguments: str) -> subprocess.Popen:
        return _start_snakemake(self.workspace, *self.targets, *arguments)

    def findings(self) -> list[InputError]:
        """Return differences from the checksums of jobs."""
        return check(self.results).findings

    def running_jobs(self, session: int) -> dict[int, str]:
        """Return the rules of the jobs that run in a session, by process ID."""
        found = {}
        for pid in processes_of_session(session):
            script = re.search(r"\S+/\.snakemake/scripts/tmp\w+\.\w+\.py", command_of(pid))
            try:  # Snakemake also writes the name of the job's log into the script
                text = Path(script[0]).read_text() if script else ""
            except OSError:  # the job has just ended
                continue
            log = re.search(r"logs/[^'\\]+?\.log", text)
            if log and log[0] in self.rules:  # logs of batches of other settings are ignored
                found[pid] = self.rules[log[0]]
        return found

    def _use_every_rule(self) -> None:
        self.workspace.add_table()
        self.workspace.add_classifier()
        self.targets += ["tables", "classifiers", "edges", "results/tiny/decoded.png"]
        settings = self.workspace.settings
        settings["tables"]["slope"] |= {"network": {"widths": [2]}, "sizes": [[3]]}
        layers = [
            {"name": "a", "layer_type": "Linear", "shape": [3, 2], "weights": [0.1] * 6},
            {"name": "b", "layer_type": "Tanh"},
            {"name": "c", "layer_type": "Linear", "shape": [2, 3], "weights": [0.2] * 6},
            {"name": "d", "layer_type": "Sigmoid"},
        ]
        self.workspace.path("model.json").write_text(json.dumps({"layers": layers}))
        settings["fields"] = {
            "siren": settings["fields"]["siren"],
            "old": {"type": "imported", "path": "model.json"},
            "coded": {"type": "latents"},
        }
        settings["images"] |= {
            "tiny": {"path": "tiny.png", "size": 16, "fields": ["siren", "old", "coded"]},
            "large": {
                "path": "tiny.png",
                "tiles": {"size": 16, "overlap": 5},
                "fields": ["siren"],
            },
        }
        vary = {"random_seed": [1, 2]}
        sweep = {"images": ["tiny"], "fields": ["siren"], "vary": vary, "batch": 2}
        settings["sweeps"] = {"seeds": sweep}
        settings["render"]["crops"] = {"eye": {"box": [0.25, 0, 0.5, 1], "size": 9}}


Cause = Callable[[Workspace], AbstractContextManager[None]]
"""A context that causes results to be made again, and reverts the cause at its end."""


@contextmanager
def touched_image(workspace: Workspace) -> Iterator[None]:
    workspace.path("tiny.png").touch()
    yield


@contextmanager
def changed_image(workspace: Workspace) -> Iterator[None]:
    content = workspace.path("tiny.png").read_bytes()
    workspace.draw("tiny.png", seed=1)
    yield
    workspace.path("tiny.png").write_bytes(content)


@contextmanager
def changed_pixels(workspace: Workspace) -> Iterator[None]:
    """Change one value of the table; at the end remove the file, as the error message advises."""
    table = workspace.path("results/tiny/pixels.csv")
    if table.exists():
        lines = table.read_text().splitlines()
        position, _, value = lines[4].rpartition(",")
        lines[4] = f"{position},{0.25 if value == '0.5' else 0.5}"
        table.write_text("\n".join(lines) + "\n")
    yield
    table.unlink(missing_ok=True)


@contextmanager
def changed_setting(workspace: Workspace) -> Iterator[None]:
    with workspace.settings_kept():
        workspace.settings["training"]["steps"] += 5
        yield


FORCE_ONE, FORCE_ALL = "--forcerun RULE", "--forceall"
CAUSES: dict[str, Cause] = {
    FORCE_ONE: lambda workspace: nullcontext(),
    FORCE_ALL: lambda workspace: nullcontext(),
    "image touched": touched_image,
    "image changed": changed_image,
    "pixels.csv changed": changed_pixels,
    "setting changed": changed_setting,
}


def unfinished_files(folder: Path) -> set[Path]:
    """Return temporary files, which do not have their final names yet."""
    return set(files_below(folder, ".*.tmp"))


def files_below(folder: Path, pattern: str) -> list[Path]:
    """Return files whose names match, in a folder that other processes change meanwhile.

    `Path.glob` fails if a folder vanishes during the search; `os.walk` skips it.
    """
    return [
        Path(where, name)
        for where, _, names in os.walk(folder)
        for name in fnmatch.filter(names, pattern)
    ]


def digests(results: Path) -> dict[str, str]:
    """Return the SHA-256, by name, of every file that must be the same in all runs."""
    found = {}
    for path in sorted(results.rglob("*")):
        name = path.relative_to(results)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_dir() or hidden or path.name == LOG:
            continue
        if path.name in NOT_COMPARED or path.parent.name == "tiles":
            found[str(name)] = "it is there"
            continue
        content = path.read_bytes()
        if path.name == "history.csv":
            content = _without_seconds(content)
        found[str(name)] = hashlib.sha256(content).hexdigest()
    return found


def processes_of_session(session: int) -> list[int]:
    """Return the living processes that were started in a session, whatever their parent is now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(its_session) == session and state != "Z":
            found.append(int(folder.name))
    return found


def command_of(pid: int) -> str:
    """Return the command line of a process, or nothing if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def _start_snakemake(workspace: Workspace, *arguments: str) -> subprocess.Popen:
    workspace.unlock()
    return _start(workspace.command(*arguments), workspace.folder)


def _start(command: list[str], folder: Path) -> subprocess.Popen:
    with (folder / LOG).open("w") as log:
        environment = clean_environment()
        environment["PYTHONPATH"] += os.pathsep + os.environ.get("PYTHONPATH", "")
        return subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def _without_seconds(table: bytes) -> bytes:
    rows = list(csv.reader(io.StringIO(table.decode())))
    column = rows[0].index("seconds")
    return repr([row[:column] + row[column + 1 :] for row in rows]).encode()
