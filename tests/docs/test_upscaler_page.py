"""docs/upscaler.md and the settings agree on every key."""

import json
import re

from test_fields_page import declared, rows
from workspace import ROOT

from neuralfield.fields import Upscaler


def test_page_and_settings_agree():
    assert rows((ROOT / "docs/upscaler.md").read_text()) == declared(Upscaler)


def test_what_fields_reach_is_what_the_readme_and_the_manifest_say():
    readme, page = ((ROOT / name).read_text() for name in ("README.md", "docs/upscaler.md"))
    (manifest,) = (ROOT / "verification/manifest").glob("cpu_cpu_float32_*.json")
    files = json.loads(manifest.read_text())["files"]
    for image in ("lion_cub_grey", "savannah"):
        row = re.search(rf"^\| `{image}`, .*$", page, re.MULTILINE)
        assert row
        numbers = re.findall(r"`(siren\w*)` \**([\d.]+)", row[0])
        assert numbers
        for field, number in numbers:
            measured = files[f"{image}/{field}/metrics.json"]["numbers"]["upscale_psnr_db"]
            assert number == f"{measured:.2f}"
            assert re.search(rf"^\| `{image}` \| `{field}` .*\*\*{number} dB", readme, re.MULTILINE)
