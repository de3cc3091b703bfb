"""What pages and comments say of settings is what their declarations say today."""

import re

import pytest
from paths import ROOT

from config import reference
from neuralfield.fields import FIELDS


@pytest.mark.parametrize("name", reference.DOCUMENTS)
def test_documents_are_as_the_declarations_are_today(name):
    current = (ROOT / name).read_text(encoding="utf-8")
    assert reference.updated(name) == current, "run `make reference`"


def test_the_page_has_a_section_for_every_field():
    page = (ROOT / "docs/fields.md").read_text(encoding="utf-8")
    assert set(FIELDS) <= set(re.findall(r"^## (\w+)\n(?:.*\n)+?<!-- keys of \1 -->", page, re.M))


def test_the_config_lists_the_keys_of_everything_that_has_a_name():
    headings = re.findall(r"Keys of an? (\w+):\n#   ", (ROOT / "config.yaml").read_text("utf-8"))
    assert headings == ["image", "network", "sweep", "table", "classifier"]
