"""Batches: networks of sweeps that one job trains, and the ledger of their assignment to batches.

The files of a batch's networks are outputs of the batch's rule. A batch therefore has to stay the
same from one start of Snakemake to the next, even if networks are added to a sweep or removed from
it; otherwise finished networks would be trained again. The job of a batch writes the batch to the
ledger before it trains anything. Every process that reads the Snakefile, also for a job on a
cluster, takes the batches from the ledger and forms the same new ones of all other networks.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from config.configuration import ImageNetwork
from config.sweeps import Sweep
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import InputError
from neuralfield.system.files import read_whole
from neuralfield.system.provenance import json_digest
from neuralfield.tasks.training_settings import BUDGETS, MAKES_NO_DIFFERENCE

LEDGER = Path("results/batches.jsonl")

_LARGEST_BYTES = 256 << 20

_NAME = re.compile(r"[0-9a-f]{10}")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""The allowed forms of parts of a line that become parts of the names of files."""

VARIED = (
    *("random_seed", "learning_rate", "minimum_learning_rate"),
    *("schedule", "warmup_steps", "epoch_offset"),
)
"""Settings that may differ within a batch, besides the image: they change values that are passed to
a step, but neither the shapes of its arrays nor the steps after which something is recorded."""

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
    line: Mapping[str, Any]
    """The batch's line in the ledger, which its job writes."""


def read_ledger(path: Path = LEDGER) -> dict[str, list[Entry]]:
    """Read the networks of each batch, in the order of the lines; empty if there is no file.

    The last line is ignored if it has no end, because the job that was writing it was killed.
    """
    found: dict[str, list[Entry]] = {}
    try:
        content = read_whole(path, _LARGEST_BYTES)
        for line in content[: content.rfind(b"\n") + 1].splitlines():
            row = json.loads(line)
            entries = [(ImageNetwork(image, field), digest) for image, field, digest in row["runs"]]
            forms = [(_NAME, row["batch"]), *((_IMAGE, run.image) for run, _ in entries)]
            for form, text in forms:
                if not form.fullmatch(text):
                    raise ValueError(f"{json.dumps(text)[:80]} is not a name")
            found[row["batch"]] = entries
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        problem = f"is damaged ({type(error).__name__}: {error})"
        remedy = "remove it: existing networks are kept, or trained again with the same settings"
        raise InputError(str(path), problem, "a line for each batch", remedy) from error
    return found


def arrange(
    sweeps: Iterable[Sweep],
    fields: Mapping[str, Any],
    images: Mapping[str, Any],
    tiled: Collection[str],
    ledger: Mapping[str, list[Entry]],
    is_made: Callable[[ImageNetwork], bool],
) -> list[Batch]:
    """Return the batches of all sweeps; `images` and `fields` are those of the config.

    A run stays in the batch of the ledger as long as its settings are the same. The other runs are
    put into new batches, except those that were made in a job of their own. Images in tiles, which
    are named in `tiled`, are large and are not batched.
    """
    place = {entry: name for name, entries in ledger.items() for entry in entries}
    were_batched = {run for run, _ in place}
    lines = dict(ledger)
    kinds: dict[str, list[ImageNetwork]] = defaultdict(list)
    limits = _limits_of(sweeps, fields, tiled)
    entries = {run: _entry(run, fields) for run in limits}
    for run, limit in limits.items():
        is_new = entries[run] not in place and limit > 1
        if is_new and (run in were_batched or not is_made(run)):
            kinds[_kind(run, fields, images)].append(run)
    for runs in kinds.values():
        while runs:
            size = limits[runs[0]]
            together, runs = [entries[run] for run in runs[:size]], runs[size:]
            if len(together) > 1:  # a run that is left over is trained in a job of its own
                name = json_digest(together)[:10]
                lines[name] = together
                place |= dict.fromkeys(together, name)
    batched: dict[str, list[ImageNetwork]] = defaultdict(list)
    for run in limits:
        if entries[run] in place:
            batched[place[entries[run]]].append(run)
    return [_batch(name, tuple(runs), lines[name]) for name, runs in batched.items()]


def _batch(name: str, runs: tuple[ImageNetwork, ...], entries: list[Entry]) -> Batch:
    images = tuple(dict.fromkeys(run.image for run, _ in entries))
    line = {"batch": name, "runs": [[run.image, run.field, digest] for run, digest in entries]}
    return Batch(name, runs, images, line)


def _limits_of(
    sweeps: Iterable[Sweep], fields: Mapping[str, Any], tiled: Collection[str]
) -> dict[ImageNetwork, int]:
    """Return the maximum number of runs in the batch of each run of a sweep.

    Trainings with a budget are not batched, because their numbers of steps differ, nor is coding.
    """
    limits: dict[ImageNetwork, int] = {}
    for sweep in sweeps:
        for run in sweep.runs:
            is_coded = fields[run.field]["type"] == "latents"
            has_budget = any(name in fields[run.field]["training"] for name in BUDGETS)
            if not (run.image in tiled or has_budget or is_coded):
                limits[run] = max(limits.get(run, 1), sweep.batch)
    return limits


def _entry(run: ImageNetwork, fields: Mapping[str, Any]) -> Entry:
    return run, json_digest(_without_settings(fields[run.field], MAKES_NO_DIFFERENCE))[:16]


def _kind(run: ImageNetwork, fields: Mapping[str, Any], images: Mapping[str, Any]) -> str:
    """Return a digest that is equal for runs that may be in one batch.

    The digest covers the size and the channels of the training image as far as the settings and the
    file's header determine them; with ``mode: auto`` the channels are not known before the pixels
    are read.
    """
    image = images[run.image]
    source: Any = image["path"]
    with suppress(InputError):
        source = image_size(image["path"])
    training_image = (source, image.get("size"), image["mode"])
    return json_digest((training_image, _without_settings(fields[run.field], VARIED)))


def _without_settings(settings: Mapping[str, Any], keys: Collection[str]) -> dict[str, Any]:
    """Return the settings of a network without some settings of its training."""
    training = {key: v for key, v in settings["training"].items() if key not in keys}
    return {**settings, "training": training}
