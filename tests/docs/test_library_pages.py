"""The snippets of the pages on the package run as they are written, with fewer steps."""

import re

import numpy as np
import pytest
from PIL import Image
from workspace import ROOT

import neuralfield as nf


def snippets(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def run(code, names):
    exec(compile(code, "snippet", "exec"), names)


def shortened(code):
    """The same with fewer steps, smaller networks and smaller renders."""
    code = re.sub(r"steps=\d+", "steps=3", code)
    code = re.sub(r"size=256", "size=32, width=8", code)
    code = re.sub(r'preset="fast"', 'preset="fast", steps=3', code)
    return re.sub(r"\b(1024|2048)\b", "96", code)


def line_count(code):
    return sum(bool(line.strip()) for line in code.splitlines())


def test_the_snippet_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.effect_noise((64, 48), 60).convert("RGB").save("photo.jpg")
    (code,) = snippets("README.md")
    run(shortened(code), {})
    assert Image.open("part.png").size == (96, 72)
    assert nf.load("photo.safetensors").width == 32


def test_the_library_page_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.effect_noise((64, 48), 60).convert("RGB").save("photo.jpg")
    sizes = {"0": (8, 2), "1": (8, 8), "2": (1, 8)}
    layers = {f"net.{n}.linear.weight": np.ones(size) for n, size in sizes.items()}
    layers |= {f"net.{n}.linear.bias": np.ones(size[0]) for n, size in sizes.items()}
    np.savez("siren.npz", allow_pickle=False, **layers)
    names: dict = {}
    for code in map(shortened, snippets("docs/library.md")):
        if "to_onnx" in code:
            for line in code.splitlines():
                package = "onnx" if "to_onnx" in line else "torch"
                try:
                    __import__(package)
                except ImportError:
                    continue
                run(line, names)
        else:
            run(code, names)
    assert Image.open("part.png").size == (96, 72)
    assert Image.open("large.png").size == (96, 72)


@pytest.fixture(scope="module", params=["linear", "sigmoid"])
def saved(request, tmp_path_factory):
    """A small siren that was fitted to points, whose render has no means in it."""
    y, x = np.mgrid[0:1:9j, 0:1:12j]
    image = np.stack([x, y, x * y], axis=2)
    how = {"supervision": "point", "output": request.param, "steepness": 3.0}
    field = nf.fit(image, steps=20, width=8, hidden_layers=2, first_omega_0=7, device="cpu", **how)
    path = tmp_path_factory.mktemp("saved") / "model.safetensors"
    field.save(path)
    return field, path


def test_the_reader_of_numpy(saved):
    field, path = saved
    code, _ = snippets("docs/format.md")
    assert line_count(code) <= 20
    names: dict = {}
    run(code, names)
    found = names["read_and_render"](path, 40, 30)
    np.testing.assert_allclose(found, field.render((40, 30)), atol=1e-5)


def test_the_reader_of_pytorch(saved):
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    field, path = saved
    _, code = snippets("docs/format.md")
    assert line_count(code) <= 20
    names: dict = {}
    run(code, names)
    xy = field.coordinates().astype(np.float32)
    with torch.no_grad():
        found = names["Siren"](path)(torch.from_numpy(xy.reshape(-1, 2))).numpy()
    np.testing.assert_allclose(found, field(xy).reshape(-1, 3), atol=1e-5)
