import os

import pytest
from PIL import Image

import render
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.system.copies import FOLDER_NAME
from neuralfield.tasks.image.image_model import Model

WHOLE, LEFT = [0, 0, 1, 1], [0, 0, 0.5, 1]


def write_network(path, seed=0):
    settings = field_settings({"type": "siren", "hidden_layers": 1, "width": 8})
    shape = ImageShape(12, 8, 3)
    arrays = build_field(settings, shape, random_seed=seed).arrays
    Model(settings, shape, "rgb", arrays, {"step": 1, "footprint": True}).write(path)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return a folder with a network, and a function that renders and returns the new files."""
    made, render_to_png = [], render.render_to_png

    def noted(network, path, *arguments, **options):
        made.append(path.name)
        render_to_png(network, path, *arguments, **options)

    monkeypatch.setattr(render, "render_to_png", noted)
    write_network(tmp_path / "model.safetensors")

    def rendered(sizes, **options):
        made.clear()
        paths = [tmp_path / f"{name}.png" for name in sizes]
        parts = [{"size": size, "box": box} for size, box in sizes.values()]
        render.main(tmp_path / "model.safetensors", paths, parts=parts, device="cpu", **options)
        return list(made)

    return tmp_path, rendered


def test_all_sizes_and_parts_are_rendered_in_one_call(folder):
    path, rendered = folder
    made = rendered({"a": (9, WHOLE), "b": (24, WHOLE), "c": (10, LEFT)})
    assert made == ["a.png", "b.png", "c.png"]
    sizes = [Image.open(path / f"{name}.png").size for name in "abc"]
    assert sizes == [(9, 6), (24, 16), (8, 10)]


def test_a_size_that_is_added_is_rendered_alone(folder):
    path, rendered = folder
    rendered({"a": (9, WHOLE)})
    before = (path / "a.png").read_bytes()
    os.utime(path / "a.png", (1, 1))
    (path / "a.png").unlink()  # as Snakemake does before each job
    assert rendered({"a": (9, WHOLE), "b": (24, WHOLE)}) == ["b.png"]
    assert (path / "a.png").read_bytes() == before
    assert (path / "a.png").stat().st_mtime > 1, "it would look older than the network"


@pytest.mark.parametrize("change", ["network", "size", "samples", "version", "damage"])
def test_a_render_of_something_else_is_made_again(folder, change):
    path, rendered = folder
    rendered({"a": (9, WHOLE)})
    size, options = 9, {}
    if change == "network":
        write_network(path / "model.safetensors", seed=1)
    elif change == "size":
        size = 10
    elif change == "samples":
        options = {"samples": 2}
    elif change == "version":
        options = {"version": "another"}
    else:
        content = (path / "a.png").read_bytes()
        (path / "a.png").write_bytes(content[:-20] + b"\0" + content[-19:])
    assert rendered({"a": (size, WHOLE)}, **options) == ["a.png"]


@pytest.mark.parametrize("content", ["", "[]"])
def test_a_damaged_ledger_means_rendering_again(folder, content):
    path, rendered = folder
    rendered({"a": (9, WHOLE)})
    (path / FOLDER_NAME / "a.png.ledger").write_text(content)
    assert rendered({"a": (9, WHOLE)}) == ["a.png"]
    assert rendered({"a": (9, WHOLE)}) == []
