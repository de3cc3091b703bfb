"""The tutorials are notebooks that run without errors; the gallery shows what its config makes."""

import os
import re
import sys

import pytest
import yaml
from processes import output_of
from workspace import ROOT, clean_environment

TUTORIALS = sorted((ROOT / "docs/tutorials").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_runs(path, tmp_path):
    environment = clean_environment() | {
        "PYTHONPATH": os.fspath(ROOT / "scripts"),
        "MPLBACKEND": "agg",
        "TMPDIR": os.fspath(tmp_path),
    }
    output_of([sys.executable, path], cwd=tmp_path, env=environment)


def test_the_gallery_shows_what_its_config_makes():
    page = (ROOT / "docs/gallery.md").read_text(encoding="utf-8")
    config = yaml.safe_load((ROOT / "docs/gallery.yaml").read_text(encoding="utf-8"))
    networks = {
        (name, field) for name, image in config["images"].items() for field in image["fields"]
    }
    shown = {*re.findall(r'src="gallery/(\w+)/(\w+)/', page)}
    assert shown == networks
    assert {*re.findall(r"\{(\w+)/(\w+)/(?:redraw|filter)\}", page)} == networks
