"""The package's folders are layers: each imports only from itself and from layers above it."""

import ast
from pathlib import Path

import pytest

import neuralfield

PACKAGE = Path(neuralfield.__file__).parent
LAYERS = [
    *("system", "nn", "images", "coding", "fields", "tasks", "engines"),
    *("training", "rendering", "viewing", "api", "command"),
]


def imported_modules(source: str) -> set[str]:
    """Return the package's modules that a source imports anywhere, including in functions."""
    names = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in names if name.startswith("neuralfield.")}


def test_every_folder_is_a_layer():
    assert {path.parent.name for path in PACKAGE.glob("*/__init__.py")} == set(LAYERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_imports_nothing_from_the_layers_below_it(layer):
    below = LAYERS[LAYERS.index(layer) + 1 :]
    assert [
        (str(path.relative_to(PACKAGE)), name)
        for path in (PACKAGE / layer).rglob("*.py")
        for name in imported_modules(path.read_text(encoding="utf-8"))
        if name.split(".")[1] in below
    ] == []
