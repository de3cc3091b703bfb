"""Many models rendered as one function: equal at every size, and without seams."""

import json
from dataclasses import replace

import numpy as np
import pytest

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images.metrics import RunningMetrics, psnr_db, ssim
from neuralfield.images.tiling import Tiling
from neuralfield.rendering.render import render, render_to_png
from neuralfield.system.device import select_device
from neuralfield.system.errors import CheckpointError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import load_trained, load_trained_snapshot, save_mosaic
from neuralfield.training.joint import joint_history

CPU = select_device("cpu")
TILING = Tiling(70, 50, 32, 8)


def save_tiles(folder, tiling, set_weights, mode="grey", **record):
    """Save a plain network for each tile, with weights by `set_weights`; return the mosaic."""
    settings = field_settings({"type": "mlp", "widths": [2], "activation": "relu"})
    for seed, tile in enumerate(tiling):
        shape = ImageShape(tile.width, tile.height, 1)
        network = build_field(settings, shape, seed)
        set_weights(network, tile)
        path = folder / "tiles" / tile.name / "model.safetensors"
        Model(settings, shape, mode, network.arrays, record).write(path)
    save_mosaic(folder / "mosaic.json", tiling)
    return load_trained(folder / "mosaic.json")


def gradient(tiling):
    """Return a function that sets weights so that every tile renders its part of one ramp."""

    def set_weights(network, tile):
        first, first_bias, last, last_bias = (t.data for t in network.parameters.values())
        first[...], first_bias[...] = np.eye(2), 9  # never below zero: relu does nothing
        half = max(tile.width, tile.height) / 2
        gradients = np.array([0.7 / tiling.width, 0.2 / tiling.height]) * half
        middle = (tile.left + tile.right) / 2, (tile.top + tile.bottom) / 2
        start = 0.05 + 0.7 * middle[0] / tiling.width + 0.2 * middle[1] / tiling.height
        last[...] = 2 * gradients.reshape(last.shape)  # outputs are from -1 to 1
        last_bias[...] = 2 * (start - 9 * gradients.sum()) - 1

    return set_weights


def ramp(width, height, left=0.0, top=0.0, right=1.0, bottom=1.0):
    x = left + (right - left) * (np.arange(width) + 0.5) / width
    y = top + (bottom - top) * (np.arange(height) + 0.5) / height
    return (0.05 + 0.7 * x + 0.2 * y[:, None])[..., None]


@pytest.mark.parametrize("record", [{}, {"footprint": True}], ids=["point", "footprint"])
@pytest.mark.parametrize("size", [(70, 50), (35, 25), (7, 5), (311, 222), (1, 1)])
def test_a_gradient_has_no_seam_at_any_size(tmp_path, size, record):
    mosaic = save_tiles(tmp_path, TILING, gradient(TILING), **record)
    np.testing.assert_allclose(render(mosaic, *size, device=CPU), ramp(*size), atol=2e-5)


def test_a_part_is_the_same_part_of_the_whole(tmp_path):
    mosaic = save_tiles(tmp_path, TILING, gradient(TILING))
    box = (0.2, 0.3, 0.6, 0.95)
    rendered = render(mosaic, 90, 80, device=CPU, box=box)
    np.testing.assert_allclose(rendered, ramp(90, 80, *box), atol=2e-5)


def tile_by_tile(network, tile):
    """Give adjacent tiles different shades, which makes the hardest possible seams."""
    first, first_bias, last, last_bias = (t.data for t in network.parameters.values())
    first[...], first_bias[...], last[...] = 0, 0, 0
    last_bias[...] = (tile.row + 2 * tile.column) % 3 - 1


def test_models_that_disagree_are_blended_without_a_jump(tmp_path):
    mosaic = save_tiles(tmp_path, TILING, tile_by_tile)
    rendered = render(mosaic, 700, 500, device=CPU)[..., 0]
    steepest = np.pi / 2 / TILING.overlap_px / 10
    for axis in (0, 1):
        jumps = np.abs(np.diff(rendered, axis=axis))
        assert 0.5 * steepest < jumps.max() < 1.01 * steepest
    assert rendered.min() == 0 and rendered.max() == 1
    np.testing.assert_allclose(rendered[5::10, 5::10], rendered[4::10, 4::10], atol=2 * steepest)


def test_samples_of_uneven_pixels_are_blended_too(tmp_path):
    """The pixels need all samples, and are covered by several tiles."""
    bilevel = save_tiles(tmp_path, TILING, tile_by_tile, mode="bilevel", footprint=True)
    coarse = render(bilevel, 10, 7, device=CPU)
    fine = render(bilevel, 1000, 700, device=CPU, samples=1)
    means = fine.reshape(7, 100, 10, 100, 1).mean((1, 3))
    np.testing.assert_allclose(coarse, means, atol=0.01)


def test_threads_and_bands_change_no_bytes(tmp_path, monkeypatch):
    mosaic = save_tiles(tmp_path, TILING, lambda network, tile: None)
    render_to_png(mosaic, tmp_path / "one.png", 300, 200, device=CPU, threads=1)
    monkeypatch.setitem(render.__globals__["BAND_POINTS"], "cpu", 3000)
    render_to_png(mosaic, tmp_path / "two.png", 300, 200, device=CPU, threads=2)
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "two.png").read_bytes()


def test_tiles_are_corrected_by_their_residuals(tmp_path):
    save_tiles(tmp_path, TILING, gradient(TILING), footprint=True)
    for tile in TILING:
        path = tmp_path / "tiles" / tile.name / "model.safetensors"
        model = Model.load(path)
        dark = np.full((tile.height, tile.width, 1), -0.05, np.float32)
        replace(model, residual=dark).write(path)
    save_mosaic(tmp_path / "mosaic.json", TILING)
    mosaic = load_trained(tmp_path / "mosaic.json")
    for size in ((70, 50), (35, 25), (140, 100)):
        assert np.abs(render(mosaic, *size, device=CPU) - (ramp(*size) - 0.05)).max() < 1e-4


def test_the_mosaic_changes_when_a_model_does(tmp_path):
    save_tiles(tmp_path, TILING, gradient(TILING))
    before = (tmp_path / "mosaic.json").read_bytes()
    save_tiles(tmp_path, TILING, gradient(TILING))
    assert (tmp_path / "mosaic.json").read_bytes() == before
    save_tiles(tmp_path, TILING, tile_by_tile)
    assert (tmp_path / "mosaic.json").read_bytes() != before


def test_a_mosaic_that_does_not_fit_its_models(tmp_path):
    save_tiles(tmp_path, TILING, tile_by_tile)
    found = json.loads((tmp_path / "mosaic.json").read_text())
    (tmp_path / "mosaic.json").write_text(json.dumps(found | {"overlap_px": 7}))
    with pytest.raises(
        CheckpointError, match=r"mosaic\.json: has a tile 0_0 of .* expected 28 x 29"
    ):
        render(load_trained(tmp_path / "mosaic.json"), 70, 50, device=CPU)
    (tmp_path / "mosaic.json").write_text("{}")
    with pytest.raises(CheckpointError, match="not a mosaic"):
        load_trained(tmp_path / "mosaic.json")


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"width": 10**15}, "6 checksums of 83333333333334 tiles"),
        ({"height": "50"}, "sizes"),
        ({"sha256": {}}, "0 checksums of 6 tiles"),
        ({"sha256": 6}, "TypeError"),
        ({"models": None}, "models None"),
        ({"format": 2}, "format 2"),
    ],
)
def test_a_mosaic_that_nobody_here_wrote(tmp_path, change, complaint):
    save_tiles(tmp_path, TILING, tile_by_tile)
    found = json.loads((tmp_path / "mosaic.json").read_text())
    (tmp_path / "mosaic.json").write_text(json.dumps(found | change))
    with pytest.raises(CheckpointError, match=complaint):
        load_trained(tmp_path / "mosaic.json")


def test_a_tile_s_model_of_another_training_is_refused(tmp_path):
    mosaic = save_tiles(tmp_path / "one", TILING, tile_by_tile)
    save_tiles(tmp_path / "other", TILING, gradient(TILING))
    name = "tiles/1_1/model.safetensors"
    (tmp_path / "other" / name).replace(tmp_path / "one" / name)
    with pytest.raises(CheckpointError, match=r"1_1/model.* belongs to another training"):
        render(mosaic, 70, 50, device=CPU)


def test_a_snapshot_of_another_step_or_training_is_refused(tmp_path):
    finished = save_tiles(tmp_path / "end", TILING, tile_by_tile, step=20, picture="a")
    save_tiles(tmp_path / "early", TILING, gradient(TILING), step=10, picture="a")
    save_tiles(tmp_path / "other", TILING, gradient(TILING), step=10, picture="b")
    early, other = (tmp_path / name / "mosaic.json" for name in ("early", "other"))
    assert load_trained_snapshot(early, 10, finished).metadata["step"] == 10
    for path, step in ((early, 11), (other, 10)):
        with pytest.raises(CheckpointError, match=r"another training|of step 10"):
            load_trained_snapshot(path, step, finished)


@pytest.mark.parametrize("rows", [1, 6, 13, 40])
@pytest.mark.parametrize(("height", "width"), [(40, 31), (7, 31), (40, 2100)])
def test_numbers_of_bands_are_those_of_the_whole(rows, height, width):
    rng = np.random.default_rng(1)
    reference = rng.random((height, width, 3), np.float32)
    image = (reference + rng.normal(0, 0.1, reference.shape)).clip(0, 1).astype(np.float32)
    seams = np.zeros((height, width), bool)
    seams[:, 12:20] = True
    running = RunningMetrics(threads=2)
    for top in range(0, height, rows):
        part = slice(top, top + rows)
        running.add(image[part], reference[part], seams[part])
    assert running.psnr_db() == pytest.approx(psnr_db(image, reference), abs=1e-6)
    at_seams = psnr_db(image[:, 12:20], reference[:, 12:20])
    assert running.seam_psnr_db() == pytest.approx(at_seams, abs=1e-6)
    assert running.ssim() == pytest.approx(ssim(image, reference), abs=1e-9)


def test_a_joint_history_has_sums_of_seconds_and_means_of_errors():
    def history(seconds, psnr_db, rollbacks):
        columns = ("step", "seconds", "loss", "psnr_db", "learning_rate", "rollbacks")
        row = (10, seconds, 0.5, psnr_db, 0.1, rollbacks)
        return {name: np.array([float(x)]) for name, x in zip(columns, row, strict=True)}

    tables = [history(1.0, 20.0, 0), history(2.0, 30.0, 1), history(3.0, np.nan, 0)]
    found = joint_history(tables, np.array([0.5, 0.25, 0.25]))
    assert found["seconds"] == 6 and found["rollbacks"] == 1 and found["step"] == 10
    assert found["psnr_db"] == pytest.approx(-10 * np.log10(0.5 * 0.01 + 0.25 * 0.001))
