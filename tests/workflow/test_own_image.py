"""Images of users: their folders, and the kinds as which they are trained."""

from pathlib import Path

import numpy as np
import pytest
from complaints import complaints, read
from PIL import Image, ImageDraw

import resize
from config.own_image import slug
from neuralfield.fields import FieldSettings
from neuralfield.images import read_facts
from neuralfield.images.image_facts import kind_in
from neuralfield.images.kind import Kind
from neuralfield.tasks.image_fit import settings_for, with_choices_for, with_output


def line_art() -> Image.Image:
    image = Image.new("L", (60, 60), 255)
    ImageDraw.Draw(image).ellipse((10, 10, 50, 50), outline=0, width=4)
    return image


def noise() -> Image.Image:
    values = np.random.default_rng(0).integers(0, 256, (60, 60, 3), dtype=np.uint8)
    return Image.fromarray(values)


def pencil() -> Image.Image:
    return line_art().point([100 + level // 2 for level in range(256)])


def page() -> Image.Image:
    """Return line art with noise below it, which has the tones of a photograph."""
    image = line_art().convert("RGB")
    image.paste(noise().resize((30, 20)), (30, 40))
    return image


@pytest.mark.parametrize(
    ("make", "kind", "preset", "detail_share", "output"),
    [
        (line_art, "line art", "line_art", 0.75, ("sigmoid", 12)),
        (pencil, "grey lines", "line_art", 0.0, ("sigmoid", 1)),
        (page, "a page of mixed kind", "quality", 0.0, ("sigmoid", 1)),
        (noise, "a photograph", "quality", 0.0, ("linear", 12)),
    ],
)
def test_it_is_trained_as_what_it_is(tmp_path, make, kind, preset, detail_share, output):
    make().save(tmp_path / "image.png")
    outputs = tmp_path / "resized.png", tmp_path / "picture.json"
    lines: list[str] = []
    resize.main(tmp_path / "image.png", *outputs, size=40, report=lines.append, say_kind=True)
    (line,) = lines
    assert f"image.png: trained as {kind}, because" in line and f"preset={preset}" in line
    found = kind_in(read_facts(outputs[1]))
    given = {"detail_share": "auto", "residual_scale": "auto", "steps": 3}
    chosen = with_choices_for(found, given)
    scale = 6 if kind in ("line art", "grey lines") else 4
    assert chosen == {"detail_share": detail_share, "residual_scale": scale, "steps": 3}
    named = {"detail_share": 0.3, "residual_scale": 2}
    assert with_choices_for(found, named) == named
    field = with_output({"output": "auto", "steepness": 12}, found, "rgb", "mse")
    assert (field["output"], field["steepness"]) == output
    named = {"output": "sigmoid", "steepness": 7}
    assert with_output(named, found, "rgb", "mse") == named
    resize.main(tmp_path / "image.png", *outputs, size=40, report=lines.append)
    assert lines == [line]


def test_a_preset_that_is_named_is_obeyed(tmp_path, written):
    """Thin grey lines are detected as a photograph; `line_art` trains them as line art."""
    noise().save("lines.png")
    settings = read(written | {"image": "lines.png", "preset": "line_art"})
    assert settings["named_preset"] == "line_art"
    field = settings["fields"]["line_art"]
    own, training = settings_for("rgb", Kind.PHOTOGRAPH, field, field.pop("training"))
    assert isinstance(own, FieldSettings) and own.output == "sigmoid"
    assert training.detail_share == 0.5
    lines: list[str] = []
    outputs = tmp_path / "resized.png", tmp_path / "picture.json"
    options = {"size": 40, "report": lines.append, "say_kind": True}
    resize.main(Path("lines.png"), *outputs, **options, named_preset="line_art")
    assert lines == ["lines.png: trained with preset=line_art, as requested"]


@pytest.mark.slow
def test_two_files_of_one_name(workspace):
    """The log of the job that read the first file says whose results the folder has."""
    wanted = "results/grey16/resized.png"
    for name in ("grey16.png", "grey16.tif"):
        Image.new("L", (600, 300)).save(workspace.path(name))
    notes = workspace.succeed(wanted, "--config", "image=grey16.png")
    assert "grey16.png: 600 x 300 pixels, reduced to 256 x 128 for training" in notes
    made = workspace.path(wanted).read_bytes()
    second = workspace.run(wanted, "--config", "image=grey16.tif", "size=100")
    assert second.returncode != 0 and "Traceback" not in second.stdout
    assert "add name=grey16-tif to the command" in second.stdout, second.stdout
    assert workspace.path(wanted).read_bytes() == made
    wanted = "results/grey16-tif/resized.png"
    workspace.succeed(wanted, "--config", "image=grey16.tif", "size=100", "name=grey16-tif")
    assert Image.open(workspace.path(wanted)).size == (100, 50)


@pytest.mark.parametrize(
    ("sides", "size"),
    [
        ((200, 300), 256),
        ((256, 200), None),
        ((20, 40), None),
        ((600, 100), 384),
        ((3000, 20), None),
        ((9000, 90), 4096),
    ],
)
def test_own_image_takes_the_place_of_the_list(written, sides, size):
    Image.new("1", sides).save("My Photo (2).png")
    written["image"] = "My Photo (2).png"
    found = read(written)
    assert list(found["images"]) == ["my-photo-2"] == [found["own_image"]]
    assert found["images"]["my-photo-2"]["path"] == "My Photo (2).png"
    assert found["images"]["my-photo-2"].get("size") == size
    assert f"My Photo (2).png: {sides[0]} x {sides[1]} pixels, " in found["notes"][0]


def test_own_image_has_a_size_and_a_name(written):
    Image.new("L", (800, 600)).save("photo.png")
    written |= {"image": "photo.png", "size": 400, "name": "second"}
    found = read(written)
    assert list(found["images"]) == ["second"] and found["images"]["second"]["size"] == 400
    assert "reduced to 400 x 300 for training; size=N chooses another" in found["notes"][0]
    written |= {"size": [30, 20], "mode": "bilevel", "threshold": 0.3}
    image = read(written)["images"]["second"]
    assert (image["size"], image["mode"], image["threshold"]) == ([30, 20], "bilevel", 0.3)
    written |= {"size": "tall", "name": "a/b"}
    messages = complaints(written)
    assert messages[0].startswith("config.yaml: name: the name 'a/b'; expected a name of 1 to 64")
    assert messages[1].startswith("config.yaml: size: 'tall'; expected a whole number")
    del written["size"]
    written |= {"tiles": {"size": 100}, "name": "tiled"}
    assert "size" not in read(written)["images"]["tiled"]


def test_slug():
    assert slug("Mein Löwe (2)") == "mein-lowe-2"
    assert slug("日本") == "picture"
    assert len(slug("x" * 300)) == 64
