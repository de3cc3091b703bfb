"""Sweeps: their networks, the names of these, and the settings that are refused."""

import copy
import re

import pytest
import yaml
from PIL import Image
from snakemake.target_jobs import parse_target_jobs_cli_args
from snakemake_interface_executor_plugins.utils import TargetSpec, encode_target_jobs_cli_args
from workspace import ROOT, SETTINGS

from config import sweeps
from config.configuration import ImageNetwork, Problems, read_settings
from config.sweeps import expand, spelled
from neuralfield.fields.siren import Siren


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return valid settings with two images and one sweep."""
    monkeypatch.chdir(tmp_path)
    Image.new("L", (30, 20)).save("tiny.png")
    settings = copy.deepcopy(SETTINGS)
    settings["images"]["other"] = {"path": "tiny.png"}
    settings["sweeps"] = {"s": {"images": ["tiny"], "fields": ["siren"], "vary": {"width": [4, 6]}}}
    return settings


def read(config):
    settings = read_settings(config)
    return settings, expand(settings)


def names(config):
    """Return the field names of the only sweep."""
    return [run.field for run in read(config)[1][0].runs]


def complaints(config):
    with pytest.raises(Problems) as caught:
        read(config)
    return [str(error) for error in caught.value.errors]


def test_every_combination_is_a_network_of_its_own(written):
    del written["sweeps"]["s"]["images"]
    written["sweeps"]["s"]["vary"]["random_seed"] = [0, 1]
    settings, (sweep,) = read(written)
    assert sweep.runs == [
        ImageNetwork(image, f"siren+width={width}+random_seed={seed}")
        for image in ("tiny", "other")
        for width in (4, 6)
        for seed in (0, 1)
    ]
    field = sweeps.all_fields([sweep], settings)["siren+width=6+random_seed=1"]
    assert (field["width"], field["training"]["random_seed"]) == (6, 1)
    base = settings["fields"]["siren"]
    assert base["width"] == 8
    assert field == base | {"width": 6, "training": base["training"] | {"random_seed": 1}}
    assert list(field) == list(base)


def test_a_learning_rate_that_nobody_chose_suits_each_network(written):
    written["training"]["learning_rate"] = "auto"
    written["sweeps"]["s"]["vary"] = {"width": [64, 256], "random_seed": [1]}
    settings, found = read(written)
    fields = sweeps.all_fields(found, settings)
    rates = {f["width"]: f["training"]["learning_rate"] for f in fields.values()}
    assert rates == {w: Siren(width=w, hidden_layers=1).suggested_learning_rate for w in (64, 256)}


def test_names_do_not_depend_on_how_it_is_written(written):
    vary = {"learning_rate": [1e-5, 0.5], "omega_0": [30], "random_seed": [3], "width": [4]}
    written["sweeps"]["s"]["vary"] = vary
    expected = [
        f"siren+learning_rate={rate}+omega_0=30+width=4+random_seed=3" for rate in ("1e-5", "0.5")
    ]
    assert names(written) == expected
    written["sweeps"]["s"]["vary"] = {
        "width": ["4"],
        "training.random_seed": [3],
        "omega_0": [30.0],
        "training.learning_rate": ["1e-5", "5e-1"],
    }
    assert names(written) == expected


def test_names_are_safe_everywhere(written):
    written["fields"]["plain"]["bias"] = False
    written["sweeps"]["s"] |= {
        "fields": ["plain"],
        "vary": {"widths": [[8, 8], [16]], "bias": [True], "learning_rate": [1.5e-7, 2e22]},
    }
    assert names(written)[:2] == [
        "plain+bias=true+learning_rate=1.5e-7+widths=8x8",
        "plain+bias=true+learning_rate=20000000000000000000000+widths=8x8",
    ]
    assert all(re.fullmatch(r"\w+(\+\w+=[\w.-]+)+", name) for name in names(written))


@pytest.mark.parametrize(
    ("value", "text"), [(3, "3"), (1e-4, "0.0001"), (1e-5, "1e-5"), (2.5e30, "2.5e30")]
)
def test_numbers_are_spelled_in_one_way(value, text):
    assert spelled(value) == text
    assert float(text) == value


def test_exclude_takes_all_that_match_and_include_adds(written):
    written["sweeps"]["s"] |= {
        "images": ["tiny", "other"],
        "vary": {"width": [4, 6], "random_seed": [0, 1]},
        "exclude": [{"width": 4, "random_seed": 1}, {"image": "other", "field": "siren"}],
        "include": [{"width": 9, "image": "tiny"}, {"width": 4, "steps": 5, "random_seed": 7}],
    }
    assert read(written)[1][0].runs == [
        ImageNetwork("tiny", "siren+width=4+random_seed=0"),
        ImageNetwork("tiny", "siren+width=6+random_seed=0"),
        ImageNetwork("tiny", "siren+width=6+random_seed=1"),
        ImageNetwork("tiny", "siren+width=9+random_seed=0"),
        ImageNetwork("tiny", "siren+width=9+random_seed=1"),
        ImageNetwork("tiny", "siren+steps=5+width=4+random_seed=7"),
        ImageNetwork("other", "siren+steps=5+width=4+random_seed=7"),
    ]


def test_equal_combinations_are_one_run(written):
    written["sweeps"]["s"]["include"] = [{"width": 4}]
    written["sweeps"]["t"] = {"fields": ["siren"], "vary": {"width": [6, 7]}}
    settings, both = read(written)
    runs = sweeps.all_runs(both)
    assert len(runs) == len(set(runs)) == 2 + 4 - 1
    shared = ImageNetwork("tiny", "siren+width=6")
    fields = settings["fields"] | sweeps.all_fields(both, settings)
    (label,) = sweeps.labels([shared], both, fields)
    assert label["sweep"] == "s t"


def test_labels_tell_what_runs_have_in_common(written):
    written["sweeps"]["s"]["vary"] = {"width": [4], "random_seed": [1], "learning_rate": [0.5]}
    settings, both = read(written)
    fields = settings["fields"] | sweeps.all_fields(both, settings)
    runs = [ImageNetwork("tiny", "plain"), ImageNetwork("tiny", "siren"), *both[0].runs]
    plain, siren, swept = sweeps.labels(runs, both, fields)
    assert swept == {
        "sweep": "s",
        "base_field": "siren",
        "combination": "siren+learning_rate=0.5+width=4",
        "setting_learning_rate": "0.5",
        "setting_width": "4",
    }
    assert (siren["sweep"], siren["setting_width"], siren["combination"]) == ("", "8", "siren")
    assert (plain["setting_width"], plain["setting_learning_rate"]) == ("", "0.002")


def test_an_own_image_takes_the_place_of_a_sweeps_images(written):
    written["image"] = "tiny.png"
    written["sweeps"]["s"]["exclude"] = [{"image": "tiny", "width": 4}, {"width": 6}]
    assert read(written)[1][0].runs == [ImageNetwork("tiny", "siren+width=4")]


COMPLAINTS = [
    (
        {"vary": {"widht": [4]}},
        "sweeps.s.vary.widht: unknown key; expected a setting of siren, which",
    ),
    ({"vary": {"type": ["mlp"]}}, "sweeps.s.vary.type: unknown"),
    ({"vary": {"width": [4, 4]}}, "vary.width: [4, 4]; expected a list of one or more"),
    ({"vary": {"width": [4, 0]}}, "vary.width.1: 0; expected a whole number >= 1"),
    ({"vary": {"steps": [4], "training.steps": [5]}}, "vary: a setting occurs twice"),
    (
        {"fields": ["siren", "plain"]},
        "vary.width: unknown key; expected a setting of plain, which is",
    ),
    ({"images": ["tyni"]}, "sweeps.s.images.0: 'tyni'; expected one of the images to fit:"),
    ({"exclude": [{"steps": 4}]}, "exclude.0.steps: unknown key; expected one of image, field"),
    ({"exclude": [{"width": 5}]}, "sweeps.s.exclude.0.width: 5; expected 4 or 6"),
    ({"exclude": [{"image": "tiny"}]}, "sweeps.s: no combination left"),
    ({"include": [{"width": [4]}]}, "include.0.width: [4]; expected a whole number >= 1"),
    ({"include": [{"image": "x", "width": 4}]}, "include.0.image: 'x'; expected one of the"),
    ({"vary": {"warmup_steps": [1, 21]}}, "warmup_steps of siren+warmup_steps=21: 21; expected"),
    ({"vary": {"random_seed": list(range(40_000))}}, "40,000 runs; expected at most 10,000"),
    ({"films": True}, "sweeps.s.films: unknown key"),
]


@pytest.mark.parametrize(("change", "complaint"), COMPLAINTS)
def test_complaint(written, change, complaint):
    written["sweeps"]["s"] |= change
    assert complaint in "\n".join(complaints(written))


def test_one_reason_is_reported_once(written):
    written["sweeps"]["s"]["vary"] = {"warmup_steps": [21, 22], "random_seed": list(range(9))}
    assert len(complaints(written)) == 1


def test_a_name_too_long_for_a_folder_is_refused(written):
    keys = ("detail_share", "huber_delta", "learning_rate", "momentum", "beta1", "beta2")
    written["sweeps"]["s"]["vary"] = {key: [0.12345678901234567] for key in keys}
    assert "expected at most 180 characters" in complaints(written)[0]


def test_the_example_in_the_shipped_config_is_valid():
    text = (ROOT / "config.yaml").read_text()
    lines = text[text.index("# sweeps:\n") :].split("\n\n")[0].splitlines()
    shipped = yaml.safe_load(text) | yaml.safe_load("\n".join(line[2:] for line in lines))
    runs = read(shipped)[1][0].runs
    assert len(runs) == 3 * 3 + 3
    assert ImageNetwork("savannah", "siren+learning_rate=0.001+width=128+random_seed=2") in runs


def test_snakemake_passes_names_on_to_jobs_as_they_are(written):
    """On a cluster, and beside a run block, a job's wildcards become arguments of a command."""
    written["sweeps"]["s"]["vary"]["learning_rate"] = [1e-5]
    target = TargetSpec("train", {"image": "tiny", "field": names(written)[0]})
    assert parse_target_jobs_cli_args(encode_target_jobs_cli_args([target])) == [target]


def test_targets_of_coded_images_are_varied(written):
    written["fields"]["small"] = {"type": "latents"}
    targets = [{"lambda": 0.01}, {"bytes": 300}]
    written["sweeps"]["s"] = {"fields": ["small"], "vary": {"target": targets}, "batch": 2}
    settings, (sweep,) = read(written)
    assert [*sweep.networks] == ["small+target=lambda0.01", "small+target=bytes300"]
    fields = sweeps.all_fields([sweep], settings)
    assert [field["target"] for field in fields.values()] == targets
    written["sweeps"]["s"]["vary"]["target"] = [{"bytes": 300, "bpp": 1}]
    assert complaints(written) == [
        "config.yaml: sweeps.s.vary.target.0: {bpp: 1, bytes: 300}; expected one of bytes, bpp,"
        " psnr_db and lambda, like {bytes: 20000}"
    ]
