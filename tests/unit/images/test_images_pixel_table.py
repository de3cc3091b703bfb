"""The CSV of pixels: exact, readable by other programs, and strict about mistakes."""

import numpy as np
import pandas as pd
import pytest
from noise_images import FORMATS, noise

from neuralfield.images import ImageData, read_pixel_csv, write_pixel_csv
from neuralfield.system.errors import InputError


def image_of(levels: np.ndarray, mode: str, bit_depth: int) -> ImageData:
    return ImageData(levels.astype(np.uint16 if bit_depth == 16 else np.uint8), mode, bit_depth)


def assert_round_trip(path, pixel_data: ImageData) -> None:
    write_pixel_csv(path, pixel_data)
    values = read_pixel_csv(path)
    assert values.shape == pixel_data.pixels.shape
    assert values.dtype == np.float32
    np.testing.assert_array_equal(values, pixel_data.values())
    back = ImageData.from_values(values, pixel_data.mode, pixel_data.bit_depth)
    np.testing.assert_array_equal(back.pixels, pixel_data.pixels)


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
@pytest.mark.parametrize("size", [(1, 1), (1, 30), (30, 1), (17, 23)])
def test_round_trip_is_exact(tmp_path, mode, bit_depth, size):
    assert_round_trip(tmp_path / "a.csv", noise(size[0], size[1], mode, bit_depth))


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_every_level_round_trips(tmp_path, bit_depth):
    levels = np.arange(2**bit_depth).reshape(2 ** (bit_depth // 2), -1, 1)
    assert_round_trip(tmp_path / "a.csv", image_of(levels, "grey", bit_depth))


def test_text_of_a_small_table(tmp_path):
    pixel_data = image_of(np.array([[[0], [255]], [[51], [85]]]), "grey", 8)
    write_pixel_csv(tmp_path / "a.csv", pixel_data)
    assert (tmp_path / "a.csv").read_bytes() == (
        b"x,y,pixel_value\n0,0,0\n1,0,1\n0,1,0.2\n1,1,0.33333334\n"
    )


def test_order_of_rows_and_columns_does_not_matter(tmp_path):
    levels = np.random.default_rng(3).integers(0, 256, (7, 5, 3))
    pixel_data = image_of(levels, "rgb", 8)
    write_pixel_csv(tmp_path / "a.csv", pixel_data)
    table = pd.read_csv(tmp_path / "a.csv").sample(frac=1, random_state=4)
    table[["blue", "y", "red", "x", "green"]].to_csv(tmp_path / "b.csv", index=False)
    np.testing.assert_array_equal(read_pixel_csv(tmp_path / "b.csv"), pixel_data.values())


@pytest.mark.parametrize(
    "text",
    [
        "x,y,pixel_value\n0,0,.5\n1,0,1e0\n",
        "\ufeffx,y,pixel_value\r\n0,0,0.5\r\n1,0,1\r\n\r\n",
        "x, y, pixel_value\n0, 0, 0.5\n1, 0, 1.0",
        "x,y,pixel_value\n0.0,0,0.5\n1.0,0,1\n",
        '"x","y","pixel_value"\n"0","0","0.5"\n1,0,1\n',
    ],
)
def test_tables_of_other_programs(tmp_path, text):
    (tmp_path / "a.csv").write_text(text, encoding="utf-8")
    assert read_pixel_csv(tmp_path / "a.csv").ravel().tolist() == [0.5, 1.0]


HEAD = "x,y,pixel_value\n"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("x,y,red,blue\n0,0,1,1\n", "no column green; its columns are: x, y, red, blue"),
        ("x;y;pixel_value\n0;0;1\n", "no column x, y, red, green, blue.*separate them by commas"),
        ("x,y,pixel_value,note\n0,0,1,2\n", "only x, y, pixel_value; remove the others"),
        ("\n\n", "not a table"),
        (HEAD, "no rows"),
        (HEAD + "0,0,1\n1,0,red\n2,0,blue\n", "pixel_value in line 3 is red; expected a number"),
        (HEAD + "0,0,\n", "pixel_value in line 2 is empty"),
        (HEAD + "0,0,inf\n", "pixel_value in line 2 is inf; expected a number from 0 to 1"),
        (HEAD + "0,0,255\n", "is 255; expected a number from 0 to 1"),
        (HEAD + "0.5,0,1\n", "x in line 2 is 0.5; expected a whole number"),
        (HEAD + "0,,1\n", "y in line 2 is empty; expected a number"),
        (HEAD + "0,0,1\n-1,0,1\n", "x in line 3 is -1; expected a whole number of pixels from 0"),
        (HEAD + "0,99999999999999999999,1\n", "y in line 2 is 1e.20; expected a whole number"),
        (HEAD + "0,9999999999,1\n", "y in line 2 is 9999999999; .* from 0 to 2147483646"),
        (HEAD + "0,0,1\n0,0,1\n1,0,1\n", "x=0, y=0 occurs twice, in lines 2 and 3"),
        (HEAD + "0,0,1\n1,1,1\n", "lacks 2 of 2 x 2 pixels, the first at x=1, y=0"),
        (HEAD + "0,0,1\n1000000000,1000000000,1\n", "lacks 1,000,000,001,999,999,999 of"),
        (HEAD + "0,0,1\n0,0,1,1\n", "has 4 values in line 3, and 3 names"),
        (HEAD + "0,0\n", "has 2 values in line 2, and 3 names"),
    ],
)
def test_mistakes_are_named(tmp_path, text, found):
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(InputError, match=found) as caught:
        read_pixel_csv(tmp_path / "a.csv")
    assert str(caught.value).startswith(str(tmp_path / "a.csv"))


def test_a_failed_write_leaves_the_old_table(tmp_path, monkeypatch):
    path = tmp_path / "a.csv"
    pixel_data = image_of(np.zeros((2, 2, 1)), "grey", 8)
    write_pixel_csv(path, pixel_data)
    before = path.read_bytes()

    def fail(*_):
        raise OSError("no space left")

    monkeypatch.setattr("neuralfield.images.pixel_table._band_text", fail)
    with pytest.raises(OSError):
        write_pixel_csv(path, pixel_data)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
