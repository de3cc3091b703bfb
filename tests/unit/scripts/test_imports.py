"""Scripts import only modules that they need, because every job is a process and loads them."""

import json
import os
import sys

import pytest
from paths import ROOT
from processes import output_of

SCRIPTS = sorted(path.stem for path in (ROOT / "scripts").glob("*.py"))

HEAVY = (
    *("av", "cupy", "jinja2", "jsonschema", "matplotlib", "numba", "pandas", "requests", "scipy"),
    *("skimage", "sklearn", "snakemake.cli", "torch", "tqdm", "neuralfield.engines.cuda"),
)

NEEDED = {
    "code_image": ["numba", "scipy"],
    "plot_classifier": ["matplotlib"],
    "plot_table": ["matplotlib"],
    "pyramid": ["jinja2"],
    "report": ["jinja2", "matplotlib"],
    "report_classifiers": ["jinja2", "matplotlib"],
    "report_tables": ["jinja2", "matplotlib"],
    "timelapse": ["av"],
    "view": ["jinja2"],
}
"""The heavy modules that each script needs at its start."""

# a single process imports what nearly all scripts need, and forks a child that imports each script
FOUND = """
import json, os, runpy, sys
import csv, concurrent.futures, decimal, difflib, ipaddress, logging, random, subprocess, tempfile
import numpy, PIL.Image, safetensors.numpy, threadpoolctl
folder, heavy, scripts = sys.argv[1], *map(json.loads, sys.argv[2:])
sys.path.insert(0, folder)
for script in scripts:
    if not os.fork():
        runpy.run_path(f"{folder}/{script}.py", run_name="imported")
        print(json.dumps([script, [name for name in heavy if name in sys.modules]]), flush=True)
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def imported():
    """Return the heavy modules that each script imports."""
    arguments = [os.fspath(ROOT / "scripts"), json.dumps(HEAVY), json.dumps(SCRIPTS)]
    command = [sys.executable, "-c", FOUND, *arguments]
    return dict(map(json.loads, output_of(command).splitlines()))


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_imports_no_heavy_module_that_it_does_not_need(script, imported):
    assert imported[script] == sorted(NEEDED.get(script, []))


def test_the_list_names_scripts_that_exist():
    assert set(NEEDED) <= set(SCRIPTS)
