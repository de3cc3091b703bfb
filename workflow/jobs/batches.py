"""Batches: networks of sweeps that one job trains, and the ledger of their assignment to batches.

The files of a batch's networks are outputs of the batch's rule. A batch therefore has to stay the
same from one start of Snakemake to the next, even if networks are added to a sweep or removed from
it; otherwise finished networks would be trained again. The ledger is stored beside the results, so
that it is removed or copied with them. Jobs on a cluster, which read the Snakefile again, find the
same batches in the ledger.
"""

import fcntl
import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from config.configuration import ImageNetwork
from config.sweeps import Sweep
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import InputError
from neuralfield.system.files import storage_errors
from neuralfield.system.provenance import json_digest
from neuralfield.tasks.training_settings import BUDGETS, MAKES_NO_DIFFERENCE

LEDGER = Path("results/batches.jsonl")

_LARGEST_BYTES = 256 << 20

_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}"
_LINE = {
    "batch": re.compile(r"(?:[0-9a-f]{10})?"),
    "image": re.compile(_NAME),
    "field": re.compile(_NAME + r"(?:\+[A-Za-z0-9_]+=[A-Za-z0-9_.-]+)*"),
    "digest": re.compile(r"[0-9a-f]{16}"),
}
"""The allowed forms of the parts of a line. Other forms are refused, because names of files and
folders are made of these parts."""

VARIED = (
    *("random_seed", "learning_rate", "minimum_learning_rate"),
    *("schedule", "warmup_steps", "epoch_offset"),
)
"""Settings that may differ within a batch, besides the image: they change values that are passed to
a step, but neither the shapes of its arrays nor the steps after which something is recorded."""

ALONE = ""
"""The batch name of a network that is trained in a job of its own."""

Entry = tuple[ImageNetwork, str]
"""A run and the digest of its settings."""


@dataclass(frozen=True)
class Batch:
    """Networks that one job trains."""

    name: str  # ten hexadecimal digits: a digest of its networks and their settings
    runs: tuple[ImageNetwork, ...]  # the networks that the current config asks for
    images: tuple[str, ...]
    """Images of all networks that were ever put into the batch. The inputs of the batch's job stay
    the same if the config no longer asks for some networks, so that nothing is made again."""


@dataclass(frozen=True)
class Ledger:
    """The lines of the ledger in order: a batch, or `ALONE`, and the runs that were put into it."""

    lines: tuple[tuple[str, tuple[Entry, ...]], ...] = ()

    def __or__(self, batches: Mapping[str, Sequence[Entry]]) -> "Ledger":
        return Ledger((*self.lines, *((name, tuple(runs)) for name, runs in batches.items())))

    @cached_property
    def place(self) -> dict[Entry, str]:
        """The batch that each run was last put into, or `ALONE`."""
        return {entry: name for name, entries in self.lines for entry in entries}

    @cached_property
    def images(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(dict.fromkeys(run.image for run, _ in e)) for name, e in self.lines}


def read_ledger(path: Path = LEDGER) -> Ledger:
    """Read the ledger; it is empty if there is no file."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        return _read(file)
    return Ledger()


def append(path: Path, batches: Mapping[str, Sequence[Entry]], known: Ledger) -> None:
    """Append new batches to the ledger file; `known` is the ledger that they were arranged from.

    An `InputError` is raised, and nothing is written, if another process has put one of the runs
    into another batch in the meantime.
    """
    if not batches:
        return
    with storage_errors(path, "cannot be written"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            with suppress(OSError):  # without file locks, whole lines are still appended
                fcntl.flock(file, fcntl.LOCK_EX)
            present = _read(file)
            text = ""
            for name, entries in batches.items():
                places = {entry: present.place.get(entry) for entry in entries}
                if any(places[e] not in (name, known.place.get(e)) for e in entries):
                    found = "another Snakemake process has put the same networks into other batches"
                    remedy = "run the same command again"
                    raise InputError(str(path), found, "one process at a time", remedy)
                if set(places.values()) != {name}:
                    runs = [[run.image, run.field, digest] for run, digest in entries]
                    text += json.dumps({"batch": name, "runs": runs}) + "\n"
            file.seek(0)
            file.truncate(_whole_lines(file.read()))
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())


def settled(runs: Iterable[ImageNetwork], fields: Mapping[str, Any], ledger: Ledger) -> list[Batch]:
    """Return the batches of runs recorded in the ledger, without runs that it does not have."""
    batched: dict[str, list[ImageNetwork]] = defaultdict(list)
    for run in runs if ledger.lines else ():
        place = ledger.place.get(_entry(run, fields), ALONE)
        if place != ALONE:
            batched[place].append(run)
    return [Batch(name, tuple(runs), ledger.images[name]) for name, runs in batched.items()]


def arrange(
    limits: Mapping[ImageNetwork, int],
    fields: Mapping[str, Any],
    images: Mapping[str, Any],
    ledger: Ledger,
    is_made: Callable[[ImageNetwork], bool],
) -> dict[str, list[Entry]]:
    """Put runs without a batch into new batches, and return the lines to add to the ledger.

    A run keeps its batch as long as its settings are the same, with two exceptions. A run without
    results loses its batch if other runs of the batch have results, because only this run has to be
    trained; and a run without results that was alone may be put into a batch. `limits` has the
    maximum number of runs in the batch of each run.
    """
    if not ledger.lines and max(limits.values(), default=1) == 1:
        return {}
    entries = {run: _entry(run, fields) for run in limits}
    were_batched = {run for run, _ in ledger.place}
    with_results = {ledger.place.get(entry) for run, entry in entries.items() if is_made(run)}
    placed: dict[str, list[Entry]] = {}
    homeless: dict[str, list[ImageNetwork]] = defaultdict(list)
    for run, entry in entries.items():
        place = ledger.place.get(entry)
        if place is None:
            if limits[run] == 1:
                continue
            if is_made(run) and run not in were_batched:
                placed.setdefault(ALONE, []).append(entry)
                continue
        elif is_made(run) or (place != ALONE and place not in with_results):
            continue
        homeless[_kind(run, fields, images)].append(run)
    for runs in homeless.values():
        while runs:
            size = limits[runs[0]]
            together, runs = [entries[run] for run in runs[:size]], runs[size:]
            name = json_digest(together)[:10] if len(together) > 1 else ALONE
            placed.setdefault(name, []).extend(together)
    moved = {
        name: [entry for entry in entries if ledger.place.get(entry) != name]
        for name, entries in placed.items()
    }
    return {name: placed[name] for name, entries in moved.items() if entries}


def limits_of(
    sweeps: Iterable[Sweep], fields: Mapping[str, Any], tiled: Collection[str]
) -> dict[ImageNetwork, int]:
    """Return the maximum number of runs in the batch of each run of a sweep.

    Images in tiles, which are named in `tiled`, are large and are not batched. Trainings with a
    budget are not batched either, because their numbers of steps differ.
    """
    limits: dict[ImageNetwork, int] = {}
    for sweep in sweeps:
        for run in sweep.runs:
            training = fields[run.field]["training"]
            if not (run.image in tiled or any(name in training for name in BUDGETS)):
                limits[run] = max(limits.get(run, 1), sweep.batch)
    return limits


def _entry(run: ImageNetwork, fields: Mapping[str, Any]) -> Entry:
    return run, json_digest(without_settings(fields[run.field], MAKES_NO_DIFFERENCE))[:16]


def _kind(run: ImageNetwork, fields: Mapping[str, Any], images: Mapping[str, Any]) -> str:
    """Return a digest that is equal for runs that may be in one batch.

    The digest covers the size and the channels of the training image as far as the settings and the
    file's header determine them; with ``mode: auto`` the channels are not known before the pixels
    are read.
    """
    image = images[run.image]
    try:
        source: Any = image_size(image["path"])
    except InputError:
        source = image["path"]
    training_image = (source, image.get("size"), image["mode"])
    return json_digest((training_image, without_settings(fields[run.field], VARIED)))


def without_settings(settings: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return the settings of a network without some settings of its training."""
    training = {key: v for key, v in settings["training"].items() if key not in keys}
    return {**settings, "training": training}


def _read(file: BinaryIO) -> Ledger:
    file.seek(0)
    content = file.read(_LARGEST_BYTES + 1)
    lines = []
    try:
        if len(content) > _LARGEST_BYTES:
            raise ValueError(f"it has more than {_LARGEST_BYTES >> 20} MiB")
        for line in content[: _whole_lines(content)].splitlines():
            row = json.loads(line)
            runs = ((_of_form("image", i), _of_form("field", f), d) for i, f, d in row["runs"])
            entries = (
                (ImageNetwork(image, field), _of_form("digest", d)) for image, field, d in runs
            )
            lines.append((_of_form("batch", row["batch"]), tuple(entries)))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"is damaged ({type(error).__name__}: {error})"
        remedy = "remove it: existing networks are kept, or trained again with the same settings"
        raise InputError(str(file.name), found, "a line for each batch", remedy) from error
    return Ledger(tuple(lines))


def _of_form(kind: str, text: Any) -> str:
    """Return a part of a line that was read, and raise `ValueError` if its form is not allowed."""
    if not isinstance(text, str) or not _LINE[kind].fullmatch(text):
        raise ValueError(f"{json.dumps(text)[:80]} is not the {kind} of a batch's line")
    return text


def _whole_lines(content: bytes) -> int:
    """Return the bytes up to the last line end: a killed process may leave an incomplete line."""
    return content.rfind(b"\n") + 1
