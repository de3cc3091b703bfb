import json
import math

import numpy as np
import pytest

from evaluate import main
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images import ImageData, read_image, resize_image, write_image
from neuralfield.images.metrics import IDENTICAL_DB, gmsd, psnr_db
from neuralfield.rendering.render import render
from neuralfield.system.device import select_device
from neuralfield.tasks.image.image_model import Model

RECORD = {
    "steps": 100,
    "train_seconds": 1.5,
    "step_microseconds": 15000.0,
    "device": "a processor",
    "engine": "tape",
    "precision": "float32",
    "random_seed": 3,
    "rollback": None,
    "versions": {"numpy": "2"},
    "notes": [],
}


def smooth_image(width, height, mode="rgb", bit_depth=8):
    x, y = np.meshgrid(np.linspace(0, 7, width), np.linspace(0, 5, height))
    channels = {"bilevel": 1, "grey": 1, "rgb": 3, "rgba": 4}[mode]
    frequencies = [0.5 + 0.4 * np.sin(x * (c + 1) + y) for c in range(channels)]
    return ImageData.from_values(np.stack(frequencies, axis=2), mode, bit_depth)


def evaluate(folder, source, size, *, model_size=None, residual=None, **options):
    resized = resize_image(source, size)
    write_image(folder / "source.png", source)
    write_image(folder / "resized.png", resized)
    width, height = model_size or (resized.width, resized.height)
    settings = field_settings({"type": "siren", "hidden_layers": 1, "width": 8})
    shape = ImageShape(width, height, source.channels)
    model = folder / "model.safetensors"
    arrays = build_field(settings, shape).arrays
    Model(settings, shape, source.mode, arrays, {"step": 100}, residual).write(model)
    (folder / "training.json").write_text(json.dumps(RECORD))
    main(
        Model.load(model),
        model,
        folder / "resized.png",
        folder / "source.png",
        options.pop("record", folder / "training.json"),
        folder / "metrics.json",
        folder / "comparison",
        device="cpu",
        **options,
    )
    return json.loads((folder / "metrics.json").read_text())


def test_a_larger_source_is_compared_at_its_own_size(tmp_path):
    source = smooth_image(60, 40)
    numbers = evaluate(tmp_path, source, 20)
    images = {path.stem: read_image(path) for path in (tmp_path / "comparison").iterdir()}
    assert sorted(images) == [
        "back_projection",
        "bicubic",
        "lanczos",
        "redraw",
        "source",
        "two_tone",
    ]
    assert {(p.width, p.height, p.mode) for p in images.values()} == {(60, 40, "rgb")}
    assert (numbers["width"], numbers["height"]) == (20, 13)
    assert (numbers["upscale_width"], numbers["upscale_height"]) == (60, 40)
    for key, name in (
        ("upscale_psnr_db", "redraw"),
        ("upscale_lanczos_psnr_db", "lanczos"),
        ("upscale_bicubic_psnr_db", "bicubic"),
        ("upscale_back_projection_psnr_db", "back_projection"),
    ):
        expected = psnr_db(images[name].values(), source.values())
        assert numbers[key] == pytest.approx(expected)
        expected = gmsd(images[name].values(), source.values())
        assert numbers[key.replace("psnr_db", "gmsd")] == pytest.approx(expected)
    assert numbers["upscale_best_filter"] == "back_projection"
    assert numbers["upscale_back_projection_psnr_db"] > numbers["upscale_lanczos_psnr_db"]
    # A smooth image is enlarged well by any filter, and not by untrained weights.
    assert numbers["upscale_lanczos_psnr_db"] > 25 > numbers["upscale_psnr_db"]


def test_what_the_network_has_without_its_correction_is_measured(tmp_path):
    source = smooth_image(60, 40)
    residual = np.full((26, 40, 3), 0.05, np.float32)
    corrected = evaluate(tmp_path, source, 20, residual=residual)
    alone = evaluate(tmp_path, source, 20)
    uncorrected_db = corrected["upscale_uncorrected_psnr_db"]
    assert uncorrected_db == alone["upscale_psnr_db"] != corrected["upscale_psnr_db"]
    assert corrected["residual_values"] == 26 * 40 * 3
    more_bytes = corrected["stored_bytes"] - alone["stored_bytes"]
    assert (more_bytes, alone["stored_bytes"]) == (2 * 26 * 40 * 3, 2 * alone["parameters"])
    assert alone["bits_per_pixel"] == 8 * alone["stored_bytes"] / (alone["width"] * alone["height"])
    assert alone["upscale_uncorrected_psnr_db"] is alone["residual_values"] is None
    assert evaluate(tmp_path, resize_image(source, 20), None, residual=residual)["residual_values"]


def test_the_training_size_is_measured_on_unrounded_values(tmp_path):
    numbers = evaluate(tmp_path, smooth_image(30, 20), 15)
    rendered = render(
        Model.load(tmp_path / "model.safetensors"), 15, 10, device=select_device("cpu")
    )
    trained = read_image(tmp_path / "resized.png", mode="rgb").values()
    assert numbers["psnr_db"] == pytest.approx(psnr_db(rendered, trained))
    assert numbers["wrong_pixels"] is None


def test_a_source_of_the_training_size_leaves_the_redraw_alone(tmp_path):
    numbers = evaluate(tmp_path, smooth_image(20, 16), None)
    assert [path.name for path in (tmp_path / "comparison").iterdir()] == ["redraw.png"]
    assert all(numbers[key] is None for key in numbers if key.startswith("upscale_"))


def test_a_page_is_compared_as_it_was_cropped(tmp_path):
    page = np.full((300, 400, 1), 255, np.uint8)
    page[100:160:4, 200:320] = 0
    page[100:160:4, 202:320:5] = 255
    cropped = ImageData(page[88:172, 188:332].copy(), "grey", 8)
    found = evaluate(tmp_path, ImageData(page, "grey", 8), 40, page={"crop": True})
    assert found["upscale_width"] == pytest.approx(cropped.width, abs=4)
    assert found["upscale_height"] == pytest.approx(cropped.height, abs=4)


def test_a_huge_source_is_reduced_first(tmp_path):
    numbers = evaluate(tmp_path, smooth_image(60, 40), 10, max_megapixels=600e-6)
    assert (numbers["upscale_width"], numbers["upscale_height"]) == (30, 20)


@pytest.mark.parametrize("size", [20, None])
def test_a_black_and_white_source_counts_wrong_pixels(tmp_path, size):
    numbers = evaluate(tmp_path, smooth_image(40, 40, "bilevel", 1), size)
    pixels = numbers["width"] * numbers["height"]
    assert 0 < numbers["wrong_pixels"] < pixels
    assert read_image(tmp_path / "comparison" / "redraw.png").mode == "grey"


@pytest.mark.parametrize(("mode", "bit_depth"), [("grey", 16), ("rgba", 8), ("rgba", 16)])
def test_every_mode_and_depth(tmp_path, mode, bit_depth):
    numbers = evaluate(tmp_path, smooth_image(24, 36, mode, bit_depth), 12)
    assert math.isfinite(numbers["upscale_psnr_db"])
    for path in (tmp_path / "comparison").iterdir():
        assert read_image(path, mode=mode).bit_depth == bit_depth


def test_the_record_is_passed_on(tmp_path):
    numbers = evaluate(tmp_path, smooth_image(12, 12), None)
    assert {key: numbers[key] for key in RECORD if key != "notes"} == {
        key: value for key, value in RECORD.items() if key != "notes"
    }
    assert (numbers["image"], numbers["field"]) == tmp_path.parts[-2:]
    assert numbers["parameters"] == (2 * 8 + 8) + (8 * 8 + 8) + (8 * 3 + 3)


def test_identical_images_stay_valid_json(tmp_path, monkeypatch):
    source = smooth_image(16, 16)
    monkeypatch.setattr("evaluate.render", lambda *_, **__: source.values())
    numbers = evaluate(tmp_path, source, None)
    assert numbers["psnr_db"] == IDENTICAL_DB
    assert numbers["ssim"] == pytest.approx(1)
