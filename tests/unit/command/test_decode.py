"""`neuralfield decode` writes a PNG or a page, and reports what cannot be decoded in one line."""

import re
from pathlib import Path

import numpy as np
import pytest
from coded_images import random_coded_image
from PIL import Image

import neuralfield as nf
from neuralfield.coding import nfz
from neuralfield.coding.decoding import pixels_of
from neuralfield.command.main import main


@pytest.fixture
def photo(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    image = random_coded_image(12, 17, seed=2)
    (tmp_path / "photo.nfz").write_bytes(nfz.to_bytes(image))
    return pixels_of(image)


def test_a_file_is_decoded_to_a_png_and_a_page(photo, tmp_path, capsys):
    main(["decode", "photo.nfz"])
    assert np.array_equal(np.asarray(Image.open("photo.png")), photo)
    assert capsys.readouterr().out.startswith("photo.png: ")
    decoded = nf.decode("photo.nfz")
    assert np.array_equal(decoded.levels(), photo)
    decoded.save("same.png")
    assert (tmp_path / "same.png").read_bytes() == (tmp_path / "photo.png").read_bytes()
    main(["decode", "photo.nfz", "-o", "photo.html"])
    assert "<title>photo · neuralfield</title>" in (tmp_path / "photo.html").read_text()


def test_info_says_where_the_bytes_are(photo, capsys):
    main(["info", "photo.nfz"])
    found = capsys.readouterr().out
    size = Path("photo.nfz").stat().st_size
    assert found.startswith(f"photo.nfz: an image of 17 x 12 pixels, rgb, {size:,} bytes, ")
    parts = [int(n) for n in re.findall(r"[ :]([0-9]+)(?=[,;\n])", found.split("\n", 1)[1])]
    assert sum(parts) == pytest.approx(size, abs=5)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_shapes_are_those_of_other_renders(channels):
    image = random_coded_image(5, 7, channels)
    shape = (5, 7) if channels == 1 else (5, 7, channels)
    assert nf.decode(nfz.to_bytes(image)).shape == shape


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.nfz"], "nowhere.nfz: there is no such file"),
        (["cut.nfz"], "cut.nfz: is cut off or damaged"),
        (["cut.nfz", "-o", "cut.html"], "cut.nfz: is cut off or damaged"),
        (["photo.nfz", "-o", "photo.gif"], "--output: photo.gif; expected a name that ends with"),
        (["photo.nfz", "--max-megapixels", "1e-4"], "(--max-megapixels)"),
    ],
)
def test_errors_are_one_line(photo, tmp_path, capsys, arguments, message):
    (tmp_path / "cut.nfz").write_bytes((tmp_path / "photo.nfz").read_bytes()[:-9])
    with pytest.raises(SystemExit) as stopped:
        main(["decode", *arguments])
    error = capsys.readouterr().err
    assert stopped.value.code == 1
    assert message in error and error.count("\n") == 1
