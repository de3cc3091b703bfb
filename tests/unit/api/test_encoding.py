"""`nf.encode` and the command code images, to a size or a quality, and resume."""

import numpy as np
import pytest
from PIL import Image

import neuralfield as nf
from neuralfield.command.main import main
from neuralfield.images.metrics import psnr_db
from neuralfield.system.errors import NeuralfieldError


def levels(height=40, width=56, channels=3):
    y, x, c = np.ogrid[:height, :width, :channels]
    waves = np.sin(x / 5 + c) * np.cos(y / 7) + 0.5 * np.sin((x + 2 * y) / (3 + c))
    noise = np.random.default_rng(0).normal(0, 0.15, (height, width, channels))
    return np.clip(128 + 60 * (waves + noise), 0, 255).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_the_file_has_the_stated_size_and_quality(tmp_path, channels):
    image = levels(channels=channels)
    encoded = nf.encode(image, steps=60)
    encoded.save(tmp_path / "image.nfz")
    decoded = nf.decode(tmp_path / "image.nfz").levels().reshape(image.shape)
    assert psnr_db(decoded / 255, image / 255) == pytest.approx(encoded.psnr_db, abs=1e-3)
    assert encoded.psnr_db > 17
    size = (tmp_path / "image.nfz").stat().st_size
    assert encoded.bits_per_pixel == 8 * size / (40 * 56)


def test_a_size_and_a_quality_are_met():
    image = levels()
    usual = nf.encode(image, steps=400)
    size = round(1.2 * len(usual.content))
    assert len(nf.encode(image, bytes=size, steps=400).content) == pytest.approx(size, rel=0.15)
    aim = usual.psnr_db - 1
    found = nf.encode(image, psnr_db=aim, steps=400)
    assert found.psnr_db == pytest.approx(aim, abs=0.4)
    assert len(found.content) < len(usual.content)


def test_a_quality_is_kept_where_weights_are_most_of_the_file():
    screen = np.ones((48, 64, 3))
    screen[6:18, 6:50], screen[24:40:4, 8:56:2] = (0.2, 0.4, 0.8), 0.1
    assert nf.encode(screen, psnr_db=38, steps=300).psnr_db > 37


def test_an_interrupted_encoding_ends_with_the_same_file(tmp_path):
    how = {"bpp": 3.0, "steps": 60}
    whole = nf.encode(levels(), **how)

    def stop(row):
        if row["step"] >= 20:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nf.encode(levels(), **how, folder=tmp_path, callback=stop)
    assert nf.encode(levels(), **how, folder=tmp_path).content == whole.content


def test_seconds_set_the_number_of_steps():
    short, long = (nf.encode(levels(8, 9), seconds=s).steps for s in (0.01, 1.0))
    assert short < long


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"bytes": 100, "bpp": 1}, "bytes and bpp: both are given"),
        ({"bytes": 0}, "bytes: 0; expected a number > 0"),
        ({"psnr_db": -3.0}, "psnr_db: "),
        ({"mode": "bilevel"}, "mode: 'bilevel'; expected auto, grey, rgb or rgba"),
        ({"steps": 3, "seconds": 2}, "steps: 3; expected"),
        ({"max_megapixels": 1e-3}, "raise max_megapixels"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(NeuralfieldError) as error:
        nf.encode(levels(), **arguments)
    assert message in str(error.value)


def test_the_command_codes_an_image(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Image.fromarray(levels()).save("photo.png")
    main(["encode", "photo.png", "--lambda", "1e-2", "--steps", "20"])
    shown = capsys.readouterr().out
    assert shown.startswith("photo.nfz: ") and "lambda 1.00e-02, 20 steps" in shown
    assert nf.decode("photo.nfz").shape == (40, 56, 3)
    for arguments, message in (
        (["--steps", "0"], "--steps"),
        (["--bpp", "-1"], "--bpp: -1.0; expected"),
        (["--max-megapixels", "1e-4"], "at most 0.0001 million"),
    ):
        with pytest.raises(SystemExit):
            main(["encode", "photo.png", *arguments])
        error = capsys.readouterr().err
        assert message in error and error.count("\n") == 1
