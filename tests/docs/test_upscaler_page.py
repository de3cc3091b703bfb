"""docs/upscaler.md, the schema and the settings say the same of every key."""

import dataclasses

import yaml
from test_fields_page import SCHEMA, rows
from workspace import ROOT

from neuralfield.fields import Upscaler


def test_page_schema_and_settings_agree():
    page = (ROOT / "docs/upscaler.md").read_text()
    said = {key: yaml.safe_load(default) for key, default in rows(page).items()}
    properties = SCHEMA["upscaler"]["properties"]
    schema = {key: rule["default"] for key, rule in properties.items() if "default" in rule}
    settings = {field.name: field.default for field in dataclasses.fields(Upscaler)}
    assert said == schema == settings
