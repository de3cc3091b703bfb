"""Snippets of the pages run, or are read by their parsers.

Python runs with fewer steps. Settings pass the workflow's own checks. Commands, including those
inside sentences, are read by the parsers of their programs; `test_readme.py` and
`test_tables_page.py` run the commands of their pages.
"""

import argparse
import ast
import importlib.util
import os
import re
import runpy
import shlex
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from paths import ROOT
from PIL import Image
from snakemake.cli import get_argument_parser, parse_config
from snakemake.utils import update_config
from snippets import PAGES, Snippet, named_commands, simple_commands, snippets
from workspace import succeed_in

import neuralfield as nf
from config import sweeps
from config.configuration import read_settings
from config.named_files import find_file, find_folder
from config.sources import Sources
from neuralfield.command.parsers import parse
from neuralfield.tasks.classifier.labelled import HELD_OUT, TRAINING

EXCEPTIONS = {
    ("docs/classifier.md", "operations: list[Operation]"): "test_classifier_page.py compares it",
    ("docs/snakemake.md", "snakedeploy deploy-workflow"): "test_deployment.py runs it",
    ("docs/snakemake.md", "use rule * from neuralfield"): "tests/workflow/test_module.py runs it",
    ("docs/architecture.md", "--fields NAME"): "NAME is a field that the reader adds",
}
"""Reasons why snippets are not tested here, by the page and a part of the snippet."""

SMALLER = {
    r"steps=\d+": "steps=3",
    r"size=256": "size=32, width=8",
    r'preset="fast"': 'preset="fast", steps=3',
    r"\b(?:1024|2048)\b": "96",
}
"""Replacements that reduce the time of a page's Python to about a second."""

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
RULES = "".join(
    path.read_text() for path in (ROOT / "workflow/Snakefile", *ROOT.glob("workflow/rules/*"))
)
NEEDS = (ROOT / "workflow/jobs/needs.py").read_text()
RULE_NAMES = frozenset(re.findall(r"^ *(?:rule|use rule \w+ as) (\w+)\b", RULES, re.MULTILINE))
_MADE = "".join(re.findall(r"^ *output:\n((?: {8}.*\n)+)", RULES, re.MULTILINE))
OUTPUTS = [re.split(r"\{+[^{}]*\}+", name) for name in re.findall(r'"(results/[^"]+)"', _MADE)]
IS_OUTPUT = re.compile("|".join("[^/]+".join(map(re.escape, parts)) for parts in OUTPUTS))


def write_siren(folder: Path) -> None:
    """Write the weights of a SIREN as if another program had fitted it."""
    sizes = {"0": (8, 2), "1": (8, 8), "2": (1, 8)}
    layers = {f"net.{n}.linear.weight": np.ones(size) for n, size in sizes.items()}
    layers |= {f"net.{n}.linear.bias": np.ones(size[0]) for n, size in sizes.items()}
    np.savez(folder / "siren.npz", allow_pickle=False, **layers)


def write_classifier(folder: Path) -> None:
    """Write a network for the digits that are shipped with the workflow."""
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    made = folder / "results/classifiers/digits"
    made.mkdir(parents=True)
    labels = np.arange(40) % 10
    network = nf.ImageClassifier(channels=(2,), kernel=3, padding=1, steps=2)
    network.fit(images, labels).save(made / "model.safetensors")


def write_table(folder: Path) -> None:
    """Write a network for a table with one column of inputs and one of targets."""
    made = folder / "results/tables/tides"
    made.mkdir(parents=True)
    hours = np.arange(20.0)[:, None]
    nf.TableRegressor(widths=(4,), steps=2).fit(hours, hours[:, 0]).save(made / "model.safetensors")


NEEDED = {
    "docs/library.md": write_siren,
    "docs/classifier.md": write_classifier,
    "docs/tables.md": write_table,
}


def require_valid(settings: dict[str, Any]) -> None:
    """Create files that settings name, and check the settings on top of the shipped config.yaml."""
    own = {"own": {"path": settings["image"]}} if "image" in settings else {}
    for image in [*settings.get("images", {}).values(), *own.values()]:
        if not find_file(image["path"]):
            Image.new("L", (1200, 900)).save(image["path"])
    for table in settings.get("tables", {}).values():
        if not find_file(table["path"]):
            Path(table["path"]).touch()
    for classifier in settings.get("classifiers", {}).values():
        if not find_folder(folder := classifier["path"]):
            Path(folder).mkdir()
            for name in classifier.get("checksums", [*TRAINING, *HELD_OUT]):
                Path(folder, name).touch()
    written = yaml.safe_load((ROOT / "config.yaml").read_text(encoding="utf-8"))
    update_config(written, settings)
    sweeps.expand(read_settings(written, Sources(given=settings)))


def check_yaml(snippet: Snippet) -> None:
    settings = yaml.safe_load(snippet.text)
    require_valid(settings.get("pictures", settings))  # a module's settings


class Parsed(Exception):
    """The arguments have been read: it has the parser and the arguments that were not parsed."""


def snakemake(arguments: list[str]) -> None:
    options = _snakemake_parser().parse_args(arguments)
    assert not options.workflow_profile or (ROOT / options.workflow_profile).is_dir()
    if options.config:
        require_valid(parse_config(options.config))
    for target in options.targets:
        assert target in RULE_NAMES or IS_OUTPUT.fullmatch(target), f"no rule makes {target}"
    assert {*options.groups} <= RULE_NAMES
    assert {*options.group_components} <= {*options.groups.values()}
    for resource in options.resources:
        assert f'"{resource}":' in NEEDS, f"no rule asks for {resource}"


@cache
def _snakemake_parser() -> argparse.ArgumentParser:
    return get_argument_parser()


def make(arguments: list[str]) -> None:
    makefile = (ROOT / "Makefile").read_text()
    for argument in arguments:
        name, is_variable, value = argument.partition("=")
        assert re.search(
            rf"^{name} \??=" if is_variable else rf"^{name}:", makefile, re.MULTILINE
        ), name
        if name == "ARGS" and "run" in arguments:
            snakemake(shlex.split(value))


def python(arguments: list[str]) -> None:
    if arguments[0].startswith("-"):
        return None
    program = ROOT / arguments[0]
    if "parse" not in program.read_text():
        assert not arguments[1:], f"{arguments[0]} takes no arguments"
        return None

    def parse_known_args(*given: Any) -> None:
        raise Parsed(given[0], real(*given)[1])

    real = argparse.ArgumentParser.parse_known_args
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Parsed) as caught:
        patch.setattr(argparse.ArgumentParser, "parse_known_args", parse_known_args)
        patch.setattr(sys, "argv", arguments)
        runpy.run_path(os.fspath(program), run_name="__main__")
    parser, others = caught.value.args
    if type(parser).parse_args is argparse.ArgumentParser.parse_args:
        assert not others
    else:  # it passes other arguments on to Snakemake
        snakemake(others)


def neuralfield(arguments: list[str]) -> None:
    if arguments:
        parse(arguments)


def pip(arguments: list[str]) -> None:
    assert arguments[0] == "install"
    for extras in re.findall(r"(?:\.|neuralfield)\[([\w,]+)\]", " ".join(arguments)):
        assert {*extras.split(",")} <= {*PROJECT["optional-dependencies"]}


def pytest_(arguments: list[str]) -> None:
    for name in arguments:
        assert "/" not in name or (ROOT / name).exists()


PROGRAMS = {
    "snakemake": snakemake,
    "make": make,
    "python": python,
    "neuralfield": neuralfield,
    "pip": pip,
    "pytest": pytest_,
    **dict.fromkeys(
        ("awk", "cat", "find", "git", "grep", "ncu", "nsys", "seq", "uv", "vips"),
        lambda arguments: None,
    ),
}
"""Checks of each program's arguments; the arguments of other projects are only split."""


def check_command(words: list[str]) -> None:
    while re.match(r"[A-Z_]+=", words[0]):
        del words[0]
    for word in words:
        for path in re.findall(
            r"^(?:\w+=)?((?:benchmarks|profiles|tests|workflow)/[\w./]+)$", word
        ):
            assert "NAME" in path or (ROOT / path).exists(), path
    program, *arguments = map(os.path.expandvars, words)
    assert program in PROGRAMS, f"no rule for {program}"
    try:
        PROGRAMS[program](arguments)
    except SystemExit as end:
        assert not end.code, words


def check_sh(snippet: Snippet) -> None:
    for words in simple_commands(snippet.text):
        check_command(words)


CHECKS = {"sh": check_sh, "yaml": check_yaml}
ALL = [s for page in PAGES for s in (*snippets(page), *named_commands(page, PROGRAMS))]
TESTED = [s for s in ALL if not any(s.page == page and part in s.text for page, part in EXCEPTIONS)]
COMMANDS = [words for s in TESTED if s.language == "sh" for words in simple_commands(s.text)]
WITH_PYTHON = sorted({snippet.page for snippet in TESTED if snippet.language == "python"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the working directory of a snippet, with the files of a clone that the pages name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PWD", str(tmp_path))
    (tmp_path / "workflow").symlink_to(ROOT / "workflow")
    return tmp_path


def test_every_exception_is_used_once():
    for page, part in EXCEPTIONS:
        assert sum(s.page == page and part in s.text for s in ALL) == 1, (page, part)


def test_there_is_a_rule_for_every_language():
    assert {snippet.language for snippet in TESTED} <= {"python", "text", *CHECKS}


@pytest.mark.parametrize("page", WITH_PYTHON)
def test_the_python_of_a_page_runs(page: str, folder: Path):
    Image.effect_noise((64, 48), 60).convert("RGB").save("photo.jpg")
    NEEDED.get(page, lambda folder: None)(folder)
    absent = [name for name in ("torch", "onnx") if importlib.util.find_spec(name) is None]
    names: dict[str, Any] = {}
    for snippet in TESTED:
        if snippet.page == page and snippet.language == "python":
            code = snippet.text
            for long, short in SMALLER.items():
                code = re.sub(long, short, code)
            for statement in ast.parse(code).body:
                source = ast.get_source_segment(code, statement) or ""
                if not any(re.search(rf"\b(?:to_)?{name}\b", source) for name in absent):
                    exec(compile(ast.Module([statement], []), page, "exec"), names)
    for render in folder.glob("*.png"):
        assert Image.open(render).size == (96, 72)


def place(snippet: Snippet) -> str:
    return f"{snippet.page}:{snippet.line}"


@pytest.mark.parametrize("snippet", [s for s in TESTED if s.language in CHECKS], ids=place)
def test_a_snippet_is_right(snippet: Snippet, folder: Path):
    CHECKS[snippet.language](snippet)


NOT_HERE = {"--sdm", "--configfile"}  # conda, and a file of the reader
PLANNED = {tuple(words) for words in COMMANDS if words[:2] == ["snakemake", "--cores"]}


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", sorted(w for w in PLANNED if NOT_HERE.isdisjoint(w)), ids=" ".join
)
def test_a_run_is_planned(words: tuple[str, ...], folder: Path):
    for name in ("Snakefile", "config.yaml", "profiles", "scripts"):
        (folder / name).symlink_to(ROOT / name)
    check_command([*words])  # creates the image that a reader would have
    succeed_in(folder, [sys.executable, "-m", "snakemake", "--dry-run", *words[1:]])
