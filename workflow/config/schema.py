"""The schema of config.yaml: config.schema.yaml and the declarations in settings dataclasses."""

import copy
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from neuralfield.fields import FIELDS
from neuralfield.system.settings import AUTO, Setting, settings_of
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.image.presets import PRESETS
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.training_settings import (
    ClassifierTraining,
    ExecutionSettings,
    ImageExecution,
    ImageTraining,
    SampleTraining,
    TableExecution,
)

SCHEMA_PATH = Path(__file__).with_name("config.schema.yaml")

_SECTIONS = {
    "training": (ImageExecution, ImageTraining),
    "dense": (Dense,),
    "table_training": (TableExecution, SampleTraining),
    "convolutional": (ConvolutionalClassifier,),
    "classifier_training": (ExecutionSettings, ClassifierTraining),
}
"""The classes whose settings are the keys of each section."""


@cache
def read_schema() -> dict[str, Any]:
    """Return the rules for config.yaml as a JSON schema; callers must not modify it."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # ten times faster
    schema = yaml.load(SCHEMA_PATH.read_text(encoding="utf-8"), loader)
    rules = schema["$defs"]
    schema["properties"]["preset"] = {"enum": [*PRESETS]}
    for name, classes in _SECTIONS.items():
        rules[name]["properties"] = _properties(*classes)
    schema["properties"]["budget"] = rules["training"]["properties"]["budget"]
    changes = "settings that override the section `training` for this network"
    training = {"$ref": "#/$defs/training", "description": changes}
    for kind, network in FIELDS.items():
        own = {"type": {"const": kind}, **_properties(network)}
        rules[kind] = {"properties": own | {"training": training}}
    for rule in (schema, *rules.values()):
        if "properties" in rule:
            rule |= {"type": "object", "additionalProperties": False}
    kinds = [*FIELDS, "imported"]
    rules["field"] |= {
        "properties": {"type": {"enum": kinds}},
        "allOf": [
            {
                "if": {"required": ["type"], "properties": {"type": {"const": kind}}},
                "then": {"$ref": f"#/$defs/{kind}"},
            }
            for kind in kinds
        ],
    }
    return schema


def _properties(*classes: type) -> dict[str, Any]:
    declared = {key: setting for cls in classes for key, setting in settings_of(cls).items()}
    return {key: _rule(setting) for key, setting in declared.items() if setting.in_config}


def _rule(setting: Setting) -> dict[str, Any]:
    if setting.kind is bool:
        rule: dict[str, Any] = {"type": "boolean"}
    elif setting.choices:
        rule = {"enum": [*([AUTO] if setting.auto else []), *setting.choices]}
    else:
        bounds = {
            "minimum": setting.minimum,
            "exclusiveMinimum": setting.above,
            "maximum": setting.config_maximum or setting.maximum,
            "exclusiveMaximum": setting.below,
            "x-unit": setting.unit or None,
        }
        rule = {"type": "integer" if setting.kind is int else "number"}
        rule |= {key: bound for key, bound in bounds.items() if bound is not None}
        if setting.expected and not setting.is_list:
            rule["x-expected"] = setting.expected
        if setting.auto:
            rule = {"anyOf": [{"const": AUTO}, rule]}
    if setting.is_list:
        rule = {"type": "array", "items": rule, "x-expected": setting.expectation}
        rule |= {"minItems": setting.shortest, "maxItems": setting.longest}
    rule["description"] = setting.help
    default = setting.default if setting.config_default is None else setting.config_default
    is_filled_in = default is not None and not setting.omit_when_off
    shown = "none" if default is None else list(default) if isinstance(default, tuple) else default
    rule["default" if is_filled_in else "x-default"] = shown
    return rule | ({"x-remedy": setting.remedy} if setting.remedy else {})


def resolved(rule: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a rule merged with the target of its ``$ref``; the rule's own keys win."""
    if "$ref" not in rule:
        return rule
    target: Any = read_schema()
    for step in rule["$ref"].removeprefix("#/").split("/"):
        target = target[step]
    return {**resolved(target), **rule}


def with_defaults(value: Any, rule: Mapping[str, Any]) -> Any:
    """Return a copy of a valid value in which missing keys have their defaults."""
    if not isinstance(value, Mapping):
        return copy.deepcopy(value)
    schema, rule = read_schema(), resolved(rule)
    if "allOf" in rule:  # a network: the rules depend on its type
        rule = schema["$defs"][value["type"]]
    filled = {}
    properties, others = rule.get("properties", {}), rule.get("additionalProperties")
    for key in [*properties, *(key for key in value if key not in properties)]:
        own = resolved(properties.get(key, others))
        if key == "training" and rule is not schema and "default" not in properties[key]:
            # the changes of one network, which are not filled with the section's defaults
            filled |= {key: copy.deepcopy(value[key])} if key in value else {}
        elif key in value:
            filled[key] = with_defaults(value[key], own)
        elif "default" in own:
            filled[key] = with_defaults(own["default"], own)
    return filled
