"""docs/fields.md and the dataclasses of settings agree on every key."""

import re
from typing import Any

import pytest
import yaml
from workspace import ROOT

from neuralfield.fields import FIELDS
from neuralfield.system.settings import settings_of
from neuralfield.tasks.training_settings import ImageTraining

PAGE = (ROOT / "docs/fields.md").read_text()
SECTIONS = dict(re.findall(r"^## (\w[\w ]*)\n(.*?)(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL))


def rows(section: str) -> dict[str, tuple[str, Any]]:
    """Return the unit and default by key according to the page; "none" is None."""
    found = re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \| `?([^|`]*)`? \|", section, re.MULTILINE)
    return {
        key: (unit.replace("-", ""), None if default == "none" else yaml.safe_load(default))
        for key, unit, default in found
    }


def declared(cls: type) -> dict[str, tuple[str, Any]]:
    """Return the unit and default by key, as written in config files."""
    return {
        key: (setting.unit, _written(setting.config_default or setting.default))
        for key, setting in settings_of(cls).items()
    }


def _written(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.mark.parametrize("kind", FIELDS)
def test_page_and_settings_agree(kind: str):
    assert rows(SECTIONS[kind]) == declared(FIELDS[kind])


@pytest.mark.parametrize("kind", FIELDS)
def test_page_gives_the_learning_rate_of_the_field(kind: str):
    table = SECTIONS["Learning rates"]
    (row,) = re.findall(rf"^\| `{kind}` \|.*$", table, re.MULTILINE)
    assert float(row.split("|")[2]) == FIELDS[kind]().suggested_learning_rate


def test_page_gives_settings_of_the_training():
    messages, settings = rows(SECTIONS["Training closer"]), declared(ImageTraining)
    assert messages and messages == {key: settings[key] for key in messages}
