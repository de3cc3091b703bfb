"""The schema of config files, made of sections.yaml and the declarations in settings dataclasses.

``make reference`` writes it to workflow/schemas, where the workflow reads it without importing all
that can be configured, and where snakedeploy, editors and `snakemake.utils.validate` find it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from config.schema import CODING_KEYS, OTHER_KINDS
from neuralfield.fields import FIELDS
from neuralfield.system.settings import AUTO, Setting, settings_of
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.image.presets import PRESETS
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.training_settings import (
    BUDGETS,
    ClassifierTraining,
    ExecutionSettings,
    ImageExecution,
    ImageTraining,
    SampleTraining,
    TableExecution,
)

_SECTIONS = {
    "training": (ImageExecution, ImageTraining),
    "dense": (Dense,),
    "table_training": (TableExecution, SampleTraining),
    "convolutional": (ConvolutionalClassifier,),
    "classifier_training": (ExecutionSettings, ClassifierTraining),
}
"""The classes whose settings are the keys of each section."""


def schema_text(networks: Mapping[str, Any]) -> str:
    """Return the text of the schema; `networks` are the default of ``fields``."""
    dumper = type("Dumper", (yaml.SafeDumper,), {"ignore_aliases": lambda *_: True})
    text = yaml.dump(
        _schema(networks),
        Dumper=dumper,
        sort_keys=False,
        allow_unicode=True,
        width=110,
        default_flow_style=None,
    )
    return (
        f"# Written by `make reference`, see workflow/config/declarations.py; do not edit.\n{text}"
    )


def _schema(networks: Mapping[str, Any]) -> dict[str, Any]:
    schema = yaml.safe_load(Path(__file__).with_name("sections.yaml").read_text(encoding="utf-8"))
    top, rules = schema["properties"], schema["$defs"]
    for name, classes in _SECTIONS.items():
        declared = {key: setting for cls in classes for key, setting in settings_of(cls).items()}
        rules[name]["properties"] = _properties(declared)
    rules["changes_of_training"] = {
        "properties": _references("training", rules["training"]["properties"]),
        "x-expected": rules["training"]["x-expected"],
    }
    changes = "settings that override the section `training` for this network"
    training = {"$ref": "#/$defs/changes_of_training", "description": changes}
    for kind, network in FIELDS.items():
        own = {"type": {"const": kind}, **_properties(settings_of(network))}
        rules[kind] = {"properties": own | {"training": training}}
    rules["changes_of_coding"]["properties"] = _references("training", CODING_KEYS)
    top["preset"] = {"enum": [*PRESETS]}
    top["fields"]["default"] = networks
    beside_image = [key for key in rules["image"]["properties"] if key not in ("path", "fields")]
    top |= _references("image", beside_image) | _references("training", ["budget"])
    for rule in (schema, *rules.values()):
        if "properties" in rule:
            rule |= {"type": "object", "additionalProperties": False}
    kinds = [*FIELDS, *OTHER_KINDS]
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


def _references(name: str, keys: Any) -> dict[str, Any]:
    """Return rules for keys that refer to those of a section; defaults are left to the section."""
    return {key: {"$ref": f"#/$defs/{name}/properties/{key}"} for key in keys}


def _properties(declared: Mapping[str, Setting]) -> dict[str, Any]:
    return {key: _rule(key, setting) for key, setting in declared.items() if setting.in_config}


def _rule(key: str, setting: Setting) -> dict[str, Any]:
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
        if key in BUDGETS:  # times are converted to seconds before they are checked
            time = {"type": "string", "pattern": r"^\d+(\.\d+)?[smh]$"}
            rule = {"anyOf": [rule, time], "x-expected": setting.expected}
    if setting.is_list:
        rule = {"type": "array", "items": rule, "x-expected": setting.expectation}
        rule |= {"minItems": setting.shortest, "maxItems": setting.longest}
    rule["description"] = setting.help
    default = setting.default if setting.config_default is None else setting.config_default
    is_filled_in = default is not None and not setting.omit_when_off
    shown = "none" if default is None else list(default) if isinstance(default, tuple) else default
    rule["default" if is_filled_in else "x-default"] = shown
    others = {
        "x-remedy": setting.remedy,
        "x-limited-by": setting.limited_by,  # another setting that it may not exceed
        # another setting, and its values with which this one has an effect
        "x-only-with": {name: [*values] for name, values in setting.only_with.items()},
    }
    return rule | {name: value for name, value in others.items() if value}
