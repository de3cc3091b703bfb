"""The examples in docstrings of the package's interface run as written."""

import doctest
import importlib
import pkgutil

import pytest

import neuralfield
import neuralfield.api

NAMES = [
    "neuralfield",
    *(f"neuralfield.api.{m.name}" for m in pkgutil.iter_modules(neuralfield.api.__path__)),
]
NEED_OTHERS = {"neuralfield.api.to_onnx": "onnx", "neuralfield.api.to_torch": "torch"}
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("name", NAMES)
def test_examples_run(name):
    if name in NEED_OTHERS:
        pytest.importorskip(NEED_OTHERS[name])
    assert doctest.testmod(importlib.import_module(name), optionflags=FLAGS).failed == 0


def test_what_is_exported_is_documented_and_has_an_example():
    finder = doctest.DocTestFinder()
    for name in set(neuralfield.__all__) - {"__version__", "NeuralfieldError", "ImageField"}:
        exported = getattr(neuralfield, name)
        assert any(test.examples for test in finder.find(exported, name)), name
