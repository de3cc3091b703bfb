"""docs/fields.md, the schema and the networks say the same of every key."""

import dataclasses
import re

import pytest
import yaml
from workspace import ROOT

from neuralfield.fields import FIELDS

PAGE = (ROOT / "docs/fields.md").read_text()
SCHEMA = yaml.safe_load((ROOT / "workflow/config/config.schema.yaml").read_text())["$defs"]
SECTIONS = dict(re.findall(r"^## (\w[\w ]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def rows(section: str) -> dict[str, str]:
    """Defaults by key, as the page says them."""
    found = re.findall(r"^\| `(\w+)` \|[^|]*\|[^|]*\| `?([^|`]*)`? \|", section, re.MULTILINE)
    return dict(found)


@pytest.mark.parametrize("kind", FIELDS)
def test_page_schema_and_settings_agree(kind: str):
    said = {key: yaml.safe_load(default) for key, default in rows(SECTIONS[kind]).items()}
    schema = {
        key: rule["default"]
        for key, rule in SCHEMA[kind]["properties"].items()
        if "default" in rule
    }
    settings = {
        field.name: list(field.default) if isinstance(field.default, tuple) else field.default
        for field in dataclasses.fields(FIELDS[kind])
    }
    assert said == schema == settings | {"output": "auto"}


@pytest.mark.parametrize("kind", FIELDS)
def test_page_gives_the_learning_rate_of_the_field(kind: str):
    table = SECTIONS["Learning rates"]
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", table, re.MULTILINE)
    assert float(row.split("|")[2]) == FIELDS[kind]().suggested_learning_rate


def test_page_gives_the_settings_of_the_training_as_the_schema_does():
    said, schema = rows(SECTIONS["Training closer"]), SCHEMA["training"]["properties"]
    assert said["optimizer"] == schema["optimizer"]["default"]
    assert said["learning_rate"] == schema["learning_rate"]["default"]
    assert "default" not in schema["gradient_clip_norm"] and said["gradient_clip_norm"] == "none"
    assert "default" not in schema["keep_best"] and said["keep_best"] == "false"
