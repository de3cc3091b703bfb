import json

import pytest

from neuralfield.system.errors import InputError
from summarize import COLUMNS, main

TRAINED = {
    "image": "cub",
    "field": "siren",
    "width": 200,
    "height": 200,
    "psnr_db": 52.9,
    "wrong_pixels": 3,
    "steps": 3000,
    "random_seed": 0,
    "versions": {"numpy": "2"},
}
IMPORTED = {"image": "cub", "field": "original", "width": 200, "height": 200, "steps": None}


def test_a_row_for_each_file_in_their_order(tmp_path):
    paths = []
    for numbers in (TRAINED, IMPORTED):
        paths.append(tmp_path / numbers["image"] / numbers["field"] / "metrics.json")
        paths[-1].parent.mkdir(parents=True)
        paths[-1].write_text(json.dumps(numbers))
    main(paths, tmp_path / "summary.csv")
    header, *rows = (tmp_path / "summary.csv").read_text().splitlines()
    assert header == ",".join(COLUMNS)
    first, second = (dict(zip(COLUMNS, row.split(","), strict=True)) for row in rows)
    assert (first["field"], second["field"]) == ("siren", "original")
    assert (first["steps"], second["steps"]) == ("3000", "")
    assert (first["wrong_pixels"], first["psnr_db"], first["random_seed"]) == ("3", "52.9", "0")


def test_numbers_of_another_network_are_refused(tmp_path):
    path = tmp_path / "cub/original/metrics.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(TRAINED))
    with pytest.raises(InputError, match=r"original/metrics\.json: has the field .siren."):
        main([path], tmp_path / "summary.csv")
