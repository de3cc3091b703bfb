"""The schema of config files, and the defaults that it has for missing settings."""

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

SCHEMA_PATH = Path(__file__).parents[1] / "schemas/config.schema.yaml"

OTHER_KINDS = {
    "latents": "the image in few bits, as a file image.nfz; see docs/codec.md",
    "imported": "weights that are rendered and measured, but not trained",
}
"""Types under `fields` that are not in `neuralfield.fields.FIELDS`, in words."""

CODING_KEYS = ("steps", "random_seed", "snapshots")
"""The settings of a training that images coded in few bits have, too."""

CODING_USES = (*CODING_KEYS, "device", "threads")
"""The settings of the section `training` that images coded in few bits take."""


@cache
def read_schema() -> dict[str, Any]:
    """Return the schema, which ``make reference`` writes; callers must not modify it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster
    return yaml.load(SCHEMA_PATH.read_text(encoding="utf-8"), loader)


def resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rule merged with the target of its ``$ref``; the rule's own keys win."""
    if "$ref" not in rule:
        return rule
    target: Any = read_schema()
    for step in rule["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**resolved(target), **rule}


def with_defaults(value: Any, rule: Mapping[str, Any]) -> Any:
    """Return a copy of a valid value in which missing keys have the defaults of their own rules."""
    rule = resolved(rule)
    if not isinstance(value, Mapping) or "anyOf" in rule:  # alternatives have no defaults inside
        return copy.deepcopy(value)
    if "allOf" in rule:  # a network: the rules depend on its type
        rule = read_schema()["$defs"][value["type"]]
    filled = {}
    properties, others = rule.get("properties", {}), rule.get("additionalProperties")
    for key in [*properties, *(key for key in value if key not in properties)]:
        own = properties.get(key, others)
        if key in value or "default" in own:
            filled[key] = with_defaults(value.get(key, own.get("default")), own)
    return filled
