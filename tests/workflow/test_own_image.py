"""An image of the user's own: its folder, and what it is trained as."""

import json
import os
import re

import numpy as np
import pytest
from PIL import Image, ImageDraw

import resize
from config.own_image import require_same_source
from entry.image_network import with_detail_share
from neuralfield.system.errors import ConfigError


def test_a_folder_is_not_taken_from_another_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("grey16.png", "grey16.tif"):
        Image.new("L", (4, 4)).save(name)
    require_same_source("grey16", "grey16.tif", [])
    require_same_source("grey16", "grey16.tif", ["./grey16.tif"])
    require_same_source("grey16", "grey16.tif", ["gone.png"])
    with pytest.raises(ConfigError) as caught:
        require_same_source("grey16", "grey16.tif", ["grey16.png"])
    assert str(caught.value) == (
        "results/grey16: holds what was made from grey16.png; expected a folder of its own for"
        " grey16.tif; add name=grey16-tif to the command, or remove results/grey16"
    )


def line_art() -> Image.Image:
    image = Image.new("L", (60, 60), 255)
    ImageDraw.Draw(image).ellipse((10, 10, 50, 50), outline=0, width=4)
    return image


def noise() -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    return Image.fromarray(values)


@pytest.mark.parametrize(
    ("make", "kind", "preset", "detail_share"),
    [(line_art, "line art", "line_art", 0.5), (noise, "a photograph", "quality", 0.0)],
)
def test_it_is_trained_as_what_it_is(tmp_path, make, kind, preset, detail_share):
    make().save(tmp_path / "image.png")
    outputs = tmp_path / "resized.png", tmp_path / "picture.json"
    lines: list[str] = []
    resize.main(tmp_path / "image.png", *outputs, size=40, report=lines.append, say_kind=True)
    (line,) = lines
    assert f"image.png: trained as {kind}, as" in line and f"preset={preset}" in line
    is_line_art = json.loads(outputs[1].read_text())["resized"]["is_line_art"]
    chosen = with_detail_share({"detail_share": "auto", "steps": 3}, is_line_art)
    assert chosen == {"detail_share": detail_share, "steps": 3}
    assert with_detail_share({"detail_share": 0.3}, is_line_art) == {"detail_share": 0.3}
    resize.main(tmp_path / "image.png", *outputs, size=40, report=lines.append)
    assert lines == [line]


@pytest.mark.slow
def test_two_files_of_one_name(workspace):
    """Also: without --cores all cores are used, and --cores still wins over the profile."""
    wanted = "results/grey16/resized.png"
    for name in ("grey16.png", "grey16.tif"):
        Image.new("L", (600, 300)).save(workspace.path(name))

    def run(*settings, cores=()):
        command = workspace.command()
        where = command.index("--cores")
        command[where : where + 2] = cores
        return workspace.run_command([*command, wanted, "--config", *settings])

    first = run("image=grey16.png")
    assert first.returncode == 0, first.stdout
    assert "grey16.png: 600 x 300 pixels, reduced to 256 x 128 for training" in first.stdout
    assert re.search(rf"Provided cores: {len(os.sched_getaffinity(0))}\b", first.stdout)
    made = workspace.path(wanted).read_bytes()
    second = run("image=grey16.tif", "size=100")
    assert second.returncode != 0 and "Traceback" not in second.stdout
    assert "add name=grey16-tif to the command" in second.stdout, second.stdout
    assert workspace.path(wanted).read_bytes() == made
    wanted = "results/grey16-tif/resized.png"
    third = run("image=grey16.tif", "size=100", "name=grey16-tif", cores=("--cores", "1"))
    assert third.returncode == 0 and "Provided cores: 1 " in third.stdout, third.stdout
    assert Image.open(workspace.path(wanted)).size == (100, 50)
