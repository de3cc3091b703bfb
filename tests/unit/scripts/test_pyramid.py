"""Zoomable pyramids and large TIFF files equal the render, whatever its size."""

import io
from pathlib import Path

import numpy as np
import pytest
from measuring.chromium import BrowserPage
from PIL import Image

import pyramid
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images import read_image_bands
from neuralfield.images.image import CHANNELS
from neuralfield.images.kind import Kind
from neuralfield.rendering.levels import to_levels
from neuralfield.rendering.pyramid import OVERLAP_PX, TILE_PX
from neuralfield.rendering.render import render
from neuralfield.system.device import HOST
from neuralfield.tasks.image.image_model import Model

WIDTH, HEIGHT = 600, 400


def make_model(folder: Path, mode: str = "rgb") -> Path:
    shape, settings = (
        ImageShape(30, 20, CHANNELS[mode]),
        field_settings({"type": "siren", "width": 32}),
    )
    path = folder / "model.safetensors"
    Model(settings, shape, mode, build_field(settings, shape, 0).arrays).write(path)
    return path


def rendered(model: Path, bit_depth: int) -> np.ndarray:
    return to_levels(render(Model.load(model), WIDTH, HEIGHT, device=HOST), bit_depth)


def finest(folder: Path) -> np.ndarray:
    """Join the tiles of the finest level."""
    level = max((folder / "image_files").iterdir(), key=lambda path: int(path.name))
    whole: np.ndarray | None = None
    for path in level.iterdir():
        column, row = map(int, path.stem.split("_"))
        with Image.open(path) as tile:
            levels = np.asarray(tile)
        if whole is None:
            whole = np.zeros((HEIGHT, WIDTH, *levels.shape[2:]), np.uint8)
        left, top = (side * TILE_PX - (side > 0) * OVERLAP_PX for side in (column, row))
        whole[top : top + levels.shape[0], left : left + levels.shape[1]] = levels
    assert whole is not None
    return whole.reshape(HEIGHT, WIDTH, -1)


@pytest.mark.parametrize("mode", ["grey", "rgb", "rgba"])
def test_a_pyramid_is_the_render(tmp_path, mode):
    model, folder = make_model(tmp_path, mode), tmp_path / "pyramid"
    drawn = {"kind": Kind.LINE_ART, "size": WIDTH, "device": "cpu"}
    pyramid.main(model, image="cub", field="siren", pyramid=folder, **drawn)
    np.testing.assert_array_equal(finest(folder), rendered(model, 8))
    assert 'Width="600"' in (folder / "image.dzi").read_text()
    assert {path.name for path in folder.iterdir()} == {"image.dzi", "image_files", "index.html"}


@pytest.mark.parametrize("kind", Kind)
def test_only_photographs_are_stored_with_loss(tmp_path, kind):
    model, folder = make_model(tmp_path), tmp_path / "pyramid"
    pyramid.main(model, image="cub", field="siren", pyramid=folder, device="cpu", kind=kind)
    suffixes = {path.suffix for path in folder.glob("image_files/*/*")}
    assert suffixes == {".jpg" if kind == Kind.PHOTOGRAPH else ".png"}


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_a_tiff_is_the_render(tmp_path, bit_depth):
    model, tiff = make_model(tmp_path), tmp_path / "render.tif"
    options = {"size": WIDTH, "bit_depth": bit_depth, "device": "cpu"}
    pyramid.main(model, image="cub", field="siren", tiff=tiff, **options)
    assert tiff.read_bytes()[:4] == b"II+\0"  # BigTIFF
    bands = [band.pixels for band in read_image_bands(tiff, "rgb")]
    np.testing.assert_array_equal(np.concatenate(bands), rendered(model, bit_depth))
    assert {path.name for path in tmp_path.iterdir()} == {"model.safetensors", "render.tif"}


def test_its_page_zooms_without_internet(page: BrowserPage, tmp_path):
    model, folder = make_model(tmp_path), tmp_path / "pyramid"
    drawn = {"kind": Kind.LINE_ART, "size": WIDTH, "device": "cpu"}
    pyramid.main(model, image="<b>cub</b>", field="siren", pyramid=folder, **drawn)
    text = (folder / "index.html").read_text()
    assert "http" not in text.replace("http-equiv", "") and "<b>" not in text
    page.look(WIDTH, HEIGHT)
    page.open(folder / "index.html")
    levels = rendered(model, 8).astype(int)
    for x, y, factor in ((300, 250, 1), (450, 100, 4)):
        page.run(f"viewer.zoomBy({factor}, [{x}, {y}])")
        page.run("new Promise((done) => setTimeout(done, 100))")
        page.wait("document.body.dataset.ready === '1'")
        # scripts may not read pixels of a canvas that shows images from files
        with Image.open(io.BytesIO(page.driver.get_screenshot_as_png())) as screen:
            shown = np.asarray(screen.convert("RGB"))[y, x]
        np.testing.assert_allclose(shown, levels[y, x], atol=12)
    assert page.errors() == []
