"""Sweeps: lists of images x fields x settings; each combination is trained as one network."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from config.configuration import ImageNetwork
from config.schema import read_schema
from config.sources import ONE_FILE, Place, Sources, WhereIs
from config.task_settings import outside_their_limits
from config.wording import Problems, mistakes_in
from neuralfield.fields import suggested_learning_rate
from neuralfield.system.errors import ConfigError
from neuralfield.system.settings import AUTO

SEPARATOR = "+"
"""The separator between a field's name and its settings. It needs no escaping in shells, URLs, file
systems and Snakemake's targets (a comma would end a wildcard on Snakemake's own command lines), and
no name or value contains it."""

SEED = "random_seed"
"""The setting that is varied to measure random variation; it is the last one in names."""

FIXED = ("type", "training")
"""Keys of a field that a sweep cannot vary, because they change the kind of network."""

LONGEST_NAME = 180
"""Maximum length of a network's name in characters: file systems allow 255 for a folder, and logs
are named by image and field."""

MOST_RUNS = 10_000
"""Maximum number of runs of a sweep: Snakemake plans this many in a minute or two, with 0.6 GB of
memory."""

Values = tuple[tuple[str, Any], ...]
"""Pairs of settings and values, sorted by name, with the seed last."""


@dataclass(frozen=True)
class SweepNetwork:
    """A field of the config, given by name, with some of its settings replaced."""

    base: str
    values: Values

    @property
    def name(self) -> str:
        """The name of the network and of its folder: ``siren+width=64+random_seed=1``."""
        return SEPARATOR.join([self.base, *(f"{key}={spelled(v)}" for key, v in self.values)])

    @property
    def combination(self) -> str:
        """The name without the seed, which is the same for runs that differ only in their seed."""
        settings = tuple((key, value) for key, value in self.values if key != SEED)
        return SweepNetwork(self.base, settings).name


@dataclass(frozen=True)
class Sweep:
    """All networks of one sweep."""

    name: str
    networks: dict[str, SweepNetwork]  # by their names
    runs: list[ImageNetwork]  # the pairs of an image and a network fitted to it
    # whether renders and time-lapses of the networks are made
    render: bool
    timelapse: bool
    batch: int  # how many of its runs may be trained in one job


def expand(settings: Mapping[str, Any], sources: Sources = ONE_FILE) -> list[Sweep]:
    """Return the networks and runs of every sweep.

    The name of a combination depends only on the combination: two sweeps that contain it share one
    network, and adding a value to a list does not change existing combinations.
    """
    sweeps: list[Sweep] = []
    errors: list[ConfigError] = []
    for name, written in settings["sweeps"].items():
        sweep = _without_prefixes(written)
        found = list(_mistakes(name, sweep, settings, sources.where))
        if len(sweep["vary"]) < len(written["vary"]):
            where = sources.where(("sweeps", name, "vary"))
            expected = "each setting once, with training. before its name or without"
            found.append(ConfigError(where, "a setting occurs twice", expected))
        if not found:
            sweeps.append(_expanded(name, sweep, settings))
            found = list(_refusals(sweeps[-1], settings, sources.where))
        errors += found
    if errors:
        raise Problems(errors)
    return sweeps


def _without_prefixes(sweep: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sweep with the names of settings of the training without the prefix ``training.``.

    They stay unambiguous, because no network has a setting with the name of a training setting.
    """

    def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
        return {key.removeprefix("training."): value for key, value in settings.items()}

    entries = {key: [plain(entry) for entry in sweep[key]] for key in ("exclude", "include")}
    return {**sweep, "vary": plain(sweep["vary"]), **entries}


def all_runs(sweeps: Iterable[Sweep]) -> list[ImageNetwork]:
    """Return the runs of all sweeps without duplicates."""
    return list(dict.fromkeys(run for sweep in sweeps for run in sweep.runs))


def all_fields(sweeps: Iterable[Sweep], settings: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the settings of all networks of sweeps, by name."""
    networks = {name: network for sweep in sweeps for name, network in sweep.networks.items()}
    return {name: field_settings(network, settings) for name, network in networks.items()}


def field_settings(network: SweepNetwork, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return all settings of a network and of its training, in the schema's order."""
    base, rules = settings["fields"][network.base], read_schema()["$defs"]
    training_keys = rules["training"]["properties"]
    own = {key: value for key, value in network.values if key not in training_keys}
    training = base["training"] | {k: v for k, v in network.values if k in training_keys}
    field = base | own
    chosen = dict(network.values).get("learning_rate")
    is_automatic = network.base in settings["automatic_learning_rates"]
    if chosen == AUTO or (chosen is None and is_automatic):
        training |= {"learning_rate": suggested_learning_rate(field)}
    training = {key: training[key] for key in training_keys if key in training}
    field |= {"training": training}
    known = rules[base["type"]]["properties"]
    return {key: field[key] for key in known if key in field}


def labels(
    runs: Iterable[ImageNetwork], sweeps: Sequence[Sweep], fields: Mapping[str, Mapping[str, Any]]
) -> list[dict[str, str]]:
    """Return the columns that tables group each run by: sweeps, network without seed, settings.

    `fields` has the settings of all networks, including those of sweeps. Each setting that any
    sweep varies is a column; it is empty for a run whose network does not have the setting. The
    list is empty if there are no sweeps.
    """
    networks = {name: network for sweep in sweeps for name, network in sweep.networks.items()}
    varied = sorted({key for network in networks.values() for key, _ in network.values} - {SEED})
    sweeps_of: dict[ImageNetwork, list[str]] = {}
    for sweep in sweeps:
        for run in sweep.runs:
            sweeps_of.setdefault(run, []).append(sweep.name)

    def of(run: ImageNetwork) -> dict[str, str]:
        network = networks.get(run.field, SweepNetwork(run.field, ()))
        own = fields[run.field] | fields[run.field].get("training", {})
        return {
            "sweep": " ".join(sweeps_of.get(run, ())),
            "base_field": network.base,
            "combination": network.combination,
            **{f"setting_{key}": spelled(own[key]) if key in own else "" for key in varied},
        }

    return [of(run) for run in runs] if sweeps else []


def spelled(value: Any) -> str:
    """Return the unique spelling of a value in names: 1e-5; 64x64 of [64, 64]; bpp1 of {bpp: 1}."""
    if isinstance(value, Mapping):
        return "".join(f"{key}{spelled(own)}" for key, own in value.items())
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return "x".join(map(spelled, value))
    if isinstance(value, float):
        digits, _, exponent = repr(value).partition("e")
        return f"{digits}e{int(exponent)}" if exponent else digits
    return str(value)


def _plain(value: Any) -> Any:
    """Return an integer for a float with an integral value: 30 for 30.0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _canonical(values: Mapping[str, Any]) -> Values:
    plain = {key: _plain(value) for key, value in values.items()}
    return tuple(sorted(plain.items(), key=lambda item: (item[0] == SEED, item[0])))


def _combinations(
    sweep: Mapping[str, Any], images: Sequence[str], fixed: Mapping[str, Any]
) -> Iterator[tuple[str, SweepNetwork]]:
    """Yield the product of the sweep's lists, with the values in `fixed` instead of their lists."""
    fixed = dict(fixed)
    images = [fixed.pop("image")] if "image" in fixed else images
    fields = [fixed.pop("field")] if "field" in fixed else sweep["fields"]
    lists = {key: values for key, values in sweep["vary"].items() if key not in fixed}
    for image, field, values in product(images, fields, product(*lists.values())):
        yield image, SweepNetwork(field, _canonical(dict(zip(lists, values, strict=True)) | fixed))


def _expanded(name: str, sweep: Mapping[str, Any], settings: Mapping[str, Any]) -> Sweep:
    images = sweep.get("images", list(settings["images"]))
    found = [
        (image, network)
        for image, network in _combinations(sweep, images, {})
        if not any(_matches(image, network, entry) for entry in sweep["exclude"])
    ]
    for entry in sweep["include"]:
        found += _combinations(sweep, images, entry)
    networks = {network.name: network for _, network in found}
    runs = list(dict.fromkeys(ImageNetwork(image, network.name) for image, network in found))
    return Sweep(name, networks, runs, sweep["render"], sweep["timelapse"], sweep["batch"])


def _matches(image: str, network: SweepNetwork, entry: Mapping[str, Any]) -> bool:
    own = {"image": image, "field": network.base, **dict(network.values)}
    return all(own[key] == value for key, value in entry.items())


def _mistakes(
    name: str, sweep: Mapping[str, Any], settings: Mapping[str, Any], where_is: WhereIs
) -> Iterator[ConfigError]:
    """Yield errors of invalid names and values; the schema has checked the shapes of the lists."""
    place: Place = ("sweeps", name)
    kinds = {name: field["type"] for name, field in settings["fields"].items()}
    fitted = [name for name, kind in kinds.items() if kind != "imported"]
    known = {"image": list(settings["images"]), "field": fitted}
    images = sweep.get("images", known["image"])
    count = len(images) * len(sweep["fields"]) * math.prod(map(len, sweep["vary"].values()))
    if count > MOST_RUNS:
        found, expected = f"{count:,} runs", f"at most {MOST_RUNS:,}"
        yield ConfigError(where_is(place), found, expected, "shorten its lists")
        return
    named = {
        kind: {"enum": names, "x-expected": f"one of the {kind}s to fit: {', '.join(names)}"}
        for kind, names in known.items()
    }
    lists = {f"{kind}s": {"items": rule} for kind, rule in named.items()}
    yield from mistakes_in(sweep, {"properties": lists}, where_is, place)
    varied = {"image": images, "field": sweep["fields"], **sweep["vary"]}
    values = {key: {"enum": values} for key, values in varied.items()}
    values = {"properties": values, "additionalProperties": False}
    for index, entry in enumerate(sweep["exclude"]):
        yield from mistakes_in(entry, values, where_is, (*place, "exclude", index))
    bases = [field for field in sweep["fields"] if field in known["field"]]
    for base in bases:
        rules = _rules_of(base, settings)
        lists = {key: {"items": rule} for key, rule in rules["properties"].items()}
        lists = rules | {"properties": lists}
        yield from mistakes_in(sweep["vary"], lists, where_is, (*place, "vary"))
    for index, entry in enumerate(sweep["include"]):
        for base in [entry["field"]] if entry.get("field") in known["field"] else bases:
            rules = _rules_of(base, settings)
            rules["properties"] |= named
            yield from mistakes_in(entry, rules, where_is, (*place, "include", index))


def _rules_of(base: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rule for the settings of a network and of its training that a sweep may vary."""
    known, kind = read_schema()["$defs"], settings["fields"][base]["type"]
    training = known["changes_of_coding" if kind == "latents" else "training"]["properties"]
    own = {key: rule for key, rule in known[kind]["properties"].items() if key not in FIXED}
    return {
        "properties": training | own,
        "additionalProperties": False,
        "x-keys": f"a setting of {base}, which is a {kind} network, or of its training",
    }


def _refusals(
    sweep: Sweep, settings: Mapping[str, Any], where_is: WhereIs
) -> Iterator[ConfigError]:
    """Yield an error for each reason why combinations of individually valid values are invalid."""
    where = where_is(("sweeps", sweep.name))
    if not sweep.runs:
        yield ConfigError(where, "no combination left", "a combination that no exclude matches")
    reasons: dict[tuple[str, str], tuple[str, ConfigError]] = {}
    for name, network in sweep.networks.items():
        if len(name) > LONGEST_NAME:
            expected = f"at most {LONGEST_NAME} characters, as it becomes the name of a folder"
            yield ConfigError(where, f"the name {name}", expected, "vary fewer settings at once")
            return
        field = field_settings(network, settings)
        if field["type"] == "latents":
            continue
        for error in outside_their_limits(field["training"], lambda key, _: key):
            reasons.setdefault((error.where, error.expected), (name, error))
    for (key, expected), (name, error) in reasons.items():
        remedy = "exclude such combinations, or change the lists"
        yield ConfigError(where, f"{key} of {name}: {error.found}", expected, remedy)
