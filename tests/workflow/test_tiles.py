"""Tiles of large images (here of a tiny one): a network each, rendered as one image."""

import csv
import json
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from processes import output_of, wait_until
from workspace import ROOT, Workspace, without_kernels

from config.configuration import Problems, read_settings
from neuralfield.images import write_bands
from neuralfield.images.metrics import psnr_db, ssim
from neuralfield.rendering.render import render
from neuralfield.system.device import select_device
from neuralfield.tasks.image.mosaic import load_trained

TILES = {"path": "slope.png", "tiles": {"size": 36, "overlap": 8, "per_job": 2}}
NAMES = ("0_0", "0_1", "1_0", "1_1")


@pytest.fixture(scope="module")
def tiled(tmp_path_factory) -> Workspace:
    """Return a workspace with an image in 2 x 2 tiles, two per job; one job was killed while it
    trained its second tile, resumed, and then repeated."""
    workspace = Workspace(tmp_path_factory.mktemp("tiled"))
    x, y = np.arange(64), np.arange(48)[:, None]
    gradient = np.stack([x * 4 + 0 * y, 0 * x + y * 5, 250 - 2 * x - 2 * y], axis=2)
    Image.fromarray(gradient.astype(np.uint8)).save(workspace.path("slope.png"))
    siren = {"type": "siren", "width": 16, "hidden_layers": 1, "first_omega_0": 5}
    workspace.settings |= {"images": {"slope": TILES}, "fields": {"siren": siren}}
    workspace.settings["training"] |= {
        "steps": 1000,
        "supervision": "point",
        "checkpoint_interval_s": 0.1,
        "learning_rate": 0.005,
    }
    workspace.settings["render"] = {"sizes": [320]}
    workspace.settings["timelapse"]["formats"] = ["mp4"]
    tile = "results/slope/siren/tiles/0_1"
    kill_a_training(workspace, tile)
    workspace.unlock()
    messages = workspace.succeed(f"{tile}.json")
    assert "slope / siren / 0_0: restoring the results" in messages
    assert "slope / siren / 0_1: resuming from the state saved after step" in messages
    for name in ("0_0", "0_1"):
        folder = workspace.path(f"results/slope/siren/tiles/{name}")
        shutil.copy(folder / "model.safetensors", workspace.path(f"killed_{name}.safetensors"))
        shutil.rmtree(folder / ".kept")
    lose_a_model(workspace, tile)
    workspace.succeed()
    return workspace


def lose_a_model(workspace: Workspace, tile: str) -> None:
    """Remove the model of a tile, and the lists of tiles, as the message on a missing file says."""
    workspace.path(f"{tile}/model.safetensors").unlink()
    for path in workspace.path(tile).parent.glob("*.json"):
        path.unlink()


def kill_a_training(workspace: Workspace, folder: str) -> None:
    process = workspace.start(f"{folder}.json")
    wait_until(lambda: list(workspace.path(folder).glob(".state/**/state_*")), process)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    workspace.unlock()
    assert not workspace.path(f"{folder}/model.safetensors").exists()
    assert not workspace.path(f"{folder}.json").exists()


@pytest.mark.slow
def test_everything_is_where_it_is_for_other_images(tiled):
    for name in (
        *("overview.png", "picture.json", "siren/mosaic.json", "siren/render_320.png"),
        *("siren/metrics.json", "siren/history.csv", "siren/training.json", "siren/timelapse.mp4"),
        "siren/view.html",
        *("siren/pyramid/index.html", "siren/pyramid/image.dzi"),
        *("siren/comparison/redraw.png", "siren/checkpoints/step_00001000.json"),
        "pixels.npy",
        *(f"siren/tiles/{tile}/model.safetensors" for tile in NAMES),
    ):
        assert tiled.path(f"results/slope/{name}").stat().st_size > 0, name
    assert tiled.path("results/report.html").exists()
    assert not list(tiled.path("results").rglob(".state"))
    assert tiled.planned() == {}


@pytest.mark.slow
def test_tiles_of_a_job_that_was_killed_end_with_the_same_bytes(tiled):
    for name in ("0_0", "0_1"):
        again = tiled.path(f"results/slope/siren/tiles/{name}/model.safetensors")
        assert tiled.path(f"killed_{name}.safetensors").read_bytes() == again.read_bytes()


@pytest.mark.slow
def test_a_lost_tile_alone_is_trained_again(tiled):
    """Other tiles of its job are restored, also when another number of tiles shares a job."""
    tile = tiled.path("results/slope/siren/tiles/1_0")
    model = (tile / "model.safetensors").read_bytes()
    shutil.rmtree(tile / ".kept")
    lose_a_model(tiled, "results/slope/siren/tiles/1_0")
    with tiled.settings_kept():
        tiled.settings["images"]["slope"]["tiles"]["per_job"] = 4
        messages = tiled.succeed()
        assert "restoring the results" in messages
        log = tiled.path("logs/slope/siren/tiles_0.log").read_text()
        assert log.count("no training is needed") == 3
        assert (tile / "model.safetensors").read_bytes() == model
    assert set(tiled.planned()) == {"report"}  # it shows the settings


@pytest.mark.slow
def test_the_redraw_has_no_seam(tiled):
    with Image.open(tiled.path("results/slope/siren/render_320.png")) as image:
        rendered = np.asarray(image).astype(float)
    assert rendered.shape == (240, 320, 3)
    # five pixels of the render are one of the image; its neighbours are 4, 5 and 2 levels apart
    x, y = (np.arange(320) - 2) / 5, (np.arange(240)[:, None] - 2) / 5
    gradient = np.stack([x * 4 + 0 * y, 0 * x + y * 5, 250 - 2 * x - 2 * y], axis=2)
    assert np.abs(rendered - gradient)[8:-8, 8:-8].max() < 8
    for axis in (0, 1):
        assert np.abs(np.diff(rendered, axis=axis)).max() <= 4


@pytest.mark.slow
def test_the_numbers_are_of_the_whole_and_of_the_seams(tiled):
    numbers = json.loads(tiled.path("results/slope/siren/metrics.json").read_text())
    assert (numbers["width"], numbers["height"], numbers["tiles"]) == (64, 48, 4)
    mosaic = load_trained(tiled.path("results/slope/siren/mosaic.json"))
    rendered = render(mosaic, 64, 48, device=select_device("cpu"))
    with Image.open(tiled.path("slope.png")) as image:
        truth = np.asarray(image).astype(np.float32) / np.float32(255)
    assert numbers["psnr_db"] == pytest.approx(psnr_db(rendered, truth), abs=1e-4)
    assert numbers["ssim"] == pytest.approx(ssim(rendered, truth), abs=1e-6)
    assert numbers["seam_psnr_db"] > numbers["psnr_db"] - 1 > 40
    with tiled.path("results/summary.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert rows[0]["tiles"] == "4" and float(rows[0]["seam_psnr_db"]) == numbers["seam_psnr_db"]


@pytest.mark.slow
def test_another_field_unpacks_nothing_again(tiled):
    before = tiled.settings
    tiled.settings = json.loads(json.dumps(before))
    tiled.settings["fields"]["new"] = {"type": "mlp", "widths": [8]}
    planned = tiled.planned()
    tiled.settings = before
    assert planned["train_tiles_slope_new_0"] == planned["train_tiles_slope_new_1"] == 1
    assert planned["gather_tiles"] == 1 and "unpack" not in planned


@pytest.mark.slow
def test_tiles_in_black_and_white(workspace: Workspace):
    """Tiles of two levels, beside an image without tiles."""
    line = np.zeros((20, 40), np.uint8)
    line[8:11] = 255
    Image.fromarray(line).save(workspace.path("line.png"))
    workspace.settings["fields"] = {"siren": without_kernels()}
    tiles = {"size": 24}
    workspace.settings["images"]["line"] = {"path": "line.png", "tiles": tiles}
    targets = ("results/line/siren/metrics.json", "results/tiny/siren/model.safetensors")
    workspace.succeed(*targets)
    folder = workspace.path("results/line/siren")
    assert json.loads((folder / "metrics.json").read_text())["wrong_pixels"] is not None
    assert workspace.planned(*targets) == {}


@pytest.mark.parametrize(
    ("image", "complaint"),
    [
        ({"tiles": {"size": 36, "overlap": 13}}, "tiles.overlap: 13; expected at most 12 pixels"),
        ({"tiles": {"size": 64}}, "tiles.size: 64; expected less than the image's longer side"),
        ({"tiles": 512}, "tiles: 512; expected settings of the tiles; write {size: 1024}"),
        ({"tiles": {"size": 36}, "size": 32}, "size: 32; expected tiles without size"),
        ({"tiles": {"size": 36}, "page": True}, "page: True; expected tiles without page"),
        ({"tiles": {"size": 36, "overlap": 8}, "path": "bad.png"}, "path: bad.png is not an image"),
        (
            {"tiles": {"size": 16, "overlap": 5}, "path": "long.png"},
            "tiles.size: 16, which makes 16,364 tiles; expected at most 10,000",
        ),
    ],
)
def test_complaint(tmp_path, monkeypatch, image, complaint):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (64, 48)).save("slope.png")
    Image.new("1", (180000, 1)).save("long.png")
    Path("bad.png").write_text("no picture")
    settings = {
        "images": {"slope": {"path": "slope.png"} | image},
        "fields": {"siren": {"type": "siren"}},
    }
    with pytest.raises(Problems) as caught:
        read_settings(settings)
    (error,) = caught.value.errors
    assert f"config.yaml: images.slope.{complaint}" in str(error) and "\n" not in str(error)


def test_only_images_that_are_read_as_a_whole_have_a_limit(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image = Image.new("RGB", (64, 48))
    image.save("slope.png")
    image.save("turned.jpg", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\1\1\x12\0\3\0\0\0\1\0\6\0\0\0\0\0\0")
    settings = {"fields": {"siren": {"type": "siren"}}, "max_megapixels": 0.001}
    read_settings(settings | {"images": {"slope": TILES}})
    turned = settings | {"images": {"slope": TILES | {"path": "turned.jpg"}}}
    with pytest.raises(Problems, match=r"not stored row by row.*at most 0.001 million"):
        read_settings(turned)


def test_imported_weights_have_no_tiles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (64, 48)).save("slope.png")
    Path("model.json").write_text("{}")
    fields = {"old": {"type": "imported", "path": "model.json"}}
    with pytest.raises(Problems, match="'old' is of type imported; expected only fields"):
        read_settings({"images": {"slope": TILES}, "fields": fields})


MEASURED = r"""
import re, sys
sys.path.insert(0, "scripts")
from dataclasses import asdict
from pathlib import Path
import overview, unpack
from neuralfield.images import read_facts
from neuralfield.images.tiling import Tiling
from neuralfield.tasks.image_fit import read_tile_task
folder, width, height = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
files = [folder / name for name in ("pixels.npy", "picture.json")]
tiling = Tiling(width, height, 256, 8)
unpack.main(folder / "large.png", *files, tiling=asdict(tiling))
overview.main(*files, folder / "overview.png", max_megapixels=0.1)
settings = {"loss": "mse", "steps": 1}
read_tile_task(files[0], read_facts(files[1]), tiling.tile(1, 1), {"type": "siren"}, settings)
# not getrusage, which counts the memory of the process that this one was forked from
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""


def peak_mb(folder: Path, width: int, height: int) -> float:
    folder.mkdir()
    rows = np.zeros((100, width, 3), np.uint8)
    rows[..., 0] = np.arange(width) % 256

    def bands() -> Iterator[np.ndarray]:
        for top in range(0, height, 100):
            rows[..., 1] = top // 100
            yield rows[: height - top]

    write_bands(folder / "large.png", bands(), width, height, 8)
    command = [sys.executable, "-c", MEASURED, str(folder), str(width), str(height)]
    return int(output_of(command, cwd=ROOT)) / 1024


@pytest.mark.slow
def test_no_job_holds_a_large_image(tmp_path):
    """An image of 36 megapixels takes 108 MB as stored, and several times that as floats; a job
    holds a number of rows that does not depend on the height.
    """
    small_mb = peak_mb(tmp_path / "small", 6000, 600)
    large_mb = peak_mb(tmp_path / "large", 6000, 6000)
    assert large_mb - small_mb < 100  # 31 to 66, depending on how far libvips reads ahead
