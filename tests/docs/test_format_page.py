"""The readers in docs/format.md render the same as the package, and the page names all arrays."""

import re

import numpy as np
import pytest
from paths import ROOT
from safetensors.numpy import load_file
from small_fields import SMALL_FIELDS
from snippets import snippets

import neuralfield as nf

PAGE = (ROOT / "docs/format.md").read_text(encoding="utf-8")
CORRECTED = "siren, corrected"
FILES = {kind: {"type": kind, **settings} for kind, settings in SMALL_FIELDS.items()} | {
    CORRECTED: {"type": "siren", "width": 5, "hidden_layers": 1, "training": {"residual": True}},
}
READERS = [snippet.text for snippet in snippets("docs/format.md", "python")]


def reader(code, name):
    """Run a snippet of few lines, and return one of the names that it defines."""
    assert sum(bool(line.strip()) for line in code.splitlines()) <= 20
    names: dict = {}
    exec(compile(code, "snippet", "exec"), names)
    return names[name]


@pytest.fixture(scope="module", params=["linear", "sigmoid"])
def saved(request, tmp_path_factory):
    """Return a small siren with point supervision, whose render does not average samples."""
    y, x = np.mgrid[0:1:9j, 0:1:12j]
    image = np.stack([x, y, x * y], axis=2)
    how = {"supervision": "point", "output": request.param, "steepness": 3.0}
    field = nf.fit(image, steps=20, width=8, hidden_layers=2, first_omega_0=7, device="cpu", **how)
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    field.save(path)
    return field, path


@pytest.mark.parametrize("name", FILES)
def test_the_page_names_every_array(name, tmp_path):
    path = tmp_path / "model.safetensors"
    nf.fit(np.eye(8), FILES[name], steps=1, device="cpu").save(path)
    found = {re.sub(r"\.\d+\.", ".N.", array) for array in load_file(path)}
    assert ("residual" in found) == (name == CORRECTED)
    assert not [array for array in found if f"`{array}`" not in PAGE]


def test_the_reader_of_numpy(saved):
    field, path = saved
    found = reader(READERS[0], "read_and_render")(path, 40, 30)
    np.testing.assert_allclose(found, field.render((40, 30)), atol=1e-5)


def test_the_reader_of_pytorch(saved):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    field, path = saved
    xy = field.coordinates().astype(np.float32)
    with torch.no_grad():
        module = reader(READERS[1], "Siren")(path)
        found = module(torch.from_numpy(xy.reshape(-1, 2))).numpy()
    np.testing.assert_allclose(found, field(xy).reshape(-1, 3), atol=1e-5)
