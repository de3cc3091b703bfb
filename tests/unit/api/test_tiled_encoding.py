"""Large images are coded in tiles, to a size or quality, without seams, and encodings resume."""

import numpy as np
import pytest
from PIL import Image

import neuralfield as nf
from neuralfield.command.main import main
from neuralfield.images.metrics import psnr_db


def photograph(height, width, seed=0):
    """Return levels with large shapes, fine detail of different strength, and no edges."""
    y, x, c = np.ogrid[:height, :width, :3]
    shapes = np.sin(x / 31 + c) * np.cos(y / 23) + np.sin((x + 2 * y) / (40 + c))
    noise = np.random.default_rng(seed).normal(0, 1, (height, width, 1)) * (x / width)
    return np.clip(128 + 40 * shapes + 8 * noise, 0, 255).astype(np.uint8)


def test_there_are_no_seams_between_tiles():
    image = photograph(150, 60)
    encoded = nf.encode(image, tile=64, lambda_=3e-3, steps=60)
    decoded = nf.decode(encoded.content).levels()
    assert psnr_db(decoded / 255, image / 255) == pytest.approx(encoded.psnr_db, abs=0.3)
    error = decoded.astype(float) - image
    steps = abs(np.diff(error, axis=0)).mean(axis=(1, 2))
    overlaps = [*range(44, 60), *range(89, 105)]
    inside = np.setdiff1d(np.arange(len(steps)), overlaps)
    assert steps[overlaps].mean() < 1.15 * steps[inside].mean()
    assert steps[overlaps].max() < 1.3 * steps[inside].max()


def test_a_size_and_a_quality_are_met_by_all_tiles_together():
    image = photograph(64, 150)
    found = nf.encode(image, tile=64, bytes=4000, steps=100)
    assert len(found.content) == pytest.approx(4000, rel=0.25)
    found = nf.encode(image, tile=64, psnr_db=32, steps=100)
    assert found.psnr_db == pytest.approx(32, abs=1.5)


def test_a_low_quality_is_met_where_one_tile_has_all_detail():
    image = np.full((64, 400), 128, np.uint8)
    image[:, :40] = np.random.default_rng(0).integers(0, 2, (64, 40)) * 255
    assert nf.encode(image, tile=64, psnr_db=6, steps=4).psnr_db > 6


def test_sides_that_no_file_has_are_refused():
    with pytest.raises(ValueError, match=r"^image: .*expected sides of at most 1,048,576 pixels"):
        nf.encode(np.zeros((1, 1_100_000), np.uint8))


def test_an_interrupted_encoding_ends_with_the_same_file(tmp_path):
    image, how = photograph(70, 90), {"tile": 64, "bpp": 4.0, "steps": 30}
    whole, calls = nf.encode(image, **how), []

    def stop(row):
        calls.append(row["step"])
        if len(calls) == 30:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nf.encode(image, **how, folder=tmp_path / "states", callback=stop)
    before = len(calls)
    again = nf.encode(
        image, **how, folder=tmp_path / "states", callback=lambda row: calls.append(0)
    )
    assert again.content == whole.content
    rest = len(calls) - before
    nf.encode(image, **how, folder=tmp_path / "states", callback=lambda row: calls.append(0))
    assert len(calls) == before + rest > before
    # states of finished tiles, which are large, are removed
    assert {path.suffix for path in (tmp_path / "states").iterdir()} == {".json"}


@pytest.mark.parametrize("name", ["survey.png", "survey.tif"])
def test_the_command_codes_files_in_tiles(tmp_path, monkeypatch, capsys, name):
    monkeypatch.chdir(tmp_path)
    grey = photograph(70, 90)[..., 0]
    Image.fromarray(grey).save(name)
    main(["encode", name, "--tile", "64", "--steps", "20"])
    main(["decode", "survey.nfz", "-o", "all.png"])
    main(["decode", "survey.nfz", "-o", "all.tif"])
    main(["decode", "survey.nfz", "-o", "part.png", "--region", "30", "20", "50", "40"])
    whole = np.asarray(Image.open("all.png"))
    assert whole.shape == (70, 90)
    assert psnr_db(whole / 255, grey / 255) > 20
    assert np.array_equal(np.asarray(Image.open("all.tif")), whole)
    assert np.array_equal(np.asarray(Image.open("part.png")), whole[20:60, 30:80])
    capsys.readouterr()
    for arguments, message in (
        (["decode", "survey.nfz", "-o", "page.html"], "is an image in tiles"),
        (["decode", "survey.nfz", "--region", "0", "0", "91", "1"], "--region: "),
        (["encode", name, "--tile", "9"], "--tile: 9; expected 64 to 4096 pixels"),
    ):
        with pytest.raises(SystemExit):
            main(arguments)
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
