"""The comparison of a sweep, checked with numbers computed by hand."""

import csv

import pytest

from compare import main, read_table
from neuralfield.system.errors import InputError

HEADER = (
    "image,field,psnr_db,ssim,upscale_psnr_db,train_seconds,parameters,random_seed,"
    "sweep,base_field,combination,setting_width"
)


@pytest.fixture
def compared(tmp_path):
    """Return a function that writes a summary, compares, and returns the rows of both tables."""

    def compare(rows, sweeps=("s",)):
        (tmp_path / "summary.csv").write_text("\n".join([HEADER, *rows]) + "\n")
        paths = tmp_path / "comparison.csv", tmp_path / "by_image.csv"
        main(tmp_path / "summary.csv", *paths, sweeps=sweeps)
        return [list(csv.DictReader(path.open())) for path in paths]

    return compare


def run(image, width, seed, psnr_db, upscale_db: float | str = "", sweep="s"):
    name = f"net+width={width}"
    numbers = f"{psnr_db},0.5,{upscale_db},{10 * width},{100 * width},{seed}"
    return f"{image},{name}+random_seed={seed},{numbers},{sweep},net,{name},{width}"


def test_means_spreads_and_ranks(compared):
    overall, by_image = compared(
        [
            # for `a` the redraw counts, and 8 is better; `b` has no redraw, and 4 is better
            run("a", 4, 0, 40, 20),
            run("a", 4, 1, 42, 22),
            run("a", 8, 0, 30, 23),
            run("a", 8, 1, 30, 26),
            run("b", 4, 0, 35),
            run("b", 4, 1, 36),
            run("b", 8, 0, 31),
            run("b", 8, 1, 34),
            "b,net,99,0.5,,1,1,0,,net,net,8",
        ]
    )
    assert [(row["image"], row["setting_width"], row["rank"]) for row in by_image] == [
        ("a", "8", "1.0"),
        ("a", "4", "2.0"),
        ("b", "4", "1.0"),
        ("b", "8", "2.0"),
    ]
    best = by_image[0]
    assert (best["runs"], float(best["score_db"])) == ("2", 24.5)
    assert float(best["upscale_psnr_db_mean"]) == 24.5
    assert float(best["upscale_psnr_db_sd"]) == pytest.approx(3 / 2**0.5)
    assert (by_image[2]["upscale_psnr_db_mean"], by_image[2]["score_db"]) == ("", "35.5")

    four = next(row for row in overall if row["setting_width"] == "4")
    assert (four["rank"], four["mean_rank"], four["images"], four["runs"]) == ("1", "1.5", "2", "4")
    assert [row["rank"] for row in overall] == ["1", "1"]
    assert float(four["psnr_db_mean"]) == (40 + 42 + 35 + 36) / 4
    # deviations from 38.25: 1.75, 3.75, -3.25, -2.25; n - 1 = 3
    assert float(four["psnr_db_sd"]) == pytest.approx((32.75 / 3) ** 0.5)
    assert (float(four["train_seconds_mean"]), float(four["parameters_mean"])) == (40, 400)
    assert float(four["train_seconds_sd"]) == 0


def test_equal_scores_share_a_rank(compared):
    overall, by_image = compared([run("a", 4, 0, 30), run("a", 8, 0, 30), run("a", 9, 0, 20)])
    assert [row["rank"] for row in by_image] == ["1.5", "1.5", "3.0"]
    assert [row["rank"] for row in overall] == ["1", "1", "3"]


def test_a_run_counts_in_each_of_its_sweeps(compared):
    overall, _ = compared(
        [run("a", 4, 0, 30, sweep="s t"), run("a", 8, 0, 40, sweep="t")], sweeps=("t", "s")
    )
    assert [(row["sweep"], row["setting_width"]) for row in overall] == [
        ("t", "8"),
        ("t", "4"),
        ("s", "4"),
    ]


def test_names_stay_as_they_are(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(f"{HEADER}\n{run('nan', 4, 0, 30).replace('net', '2024')}\n")
    (row,) = read_table(path)
    assert (row["image"], row["base_field"], row["setting_width"]) == ("nan", "2024", "4")
    assert row["upscale_psnr_db"] is None


@pytest.mark.parametrize(
    "text", ["", "field,psnr_db\nnet,high\n", "a,a\n1,2\n", "field\nnet,1,2\n"]
)
def test_a_damaged_table_is_named(tmp_path, text):
    path = tmp_path / "summary.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=r"summary\.csv: .*remove it, and run the same command"):
        read_table(path)
