"""Checks of a user's config.yaml, and the messages about mistakes in it."""

import copy
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from complaints import changed, complaints, read
from PIL import Image
from workspace import ROOT

from config.configuration import ImageNetwork, Problems, read_schema, runs, source_namer
from config.precedence import read_layers
from neuralfield.fields import FIELDS, field_settings
from neuralfield.fields.siren import Siren
from neuralfield.images.kind import Kind
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.presets import PRESETS
from neuralfield.tasks.image_fit import with_choices_for
from neuralfield.tasks.training_settings import HOW_AND_WHERE, ImageTraining


def test_the_shipped_config_is_valid_and_spells_out_the_defaults():
    shipped = yaml.safe_load((ROOT / "config.yaml").read_text())
    settings = read(shipped)
    assert len(runs(settings)) >= 2
    path = next(iter(shipped["images"].values()))["path"]
    defaults = read({"images": {"one": {"path": path}}, "fields": {"siren": {"type": "siren"}}})
    text = (ROOT / "config.yaml").read_text()
    for section in ("training", "render", "timelapse", "evaluate"):
        for key in defaults[section]:
            assert f"\n  {key}:" in text, f"{section}.{key} is not in config.yaml"


def test_defaults_are_filled_in(written):
    settings = read(written)
    assert settings["images"]["tiny"] == {
        "path": "tiny.png",
        "size": 16,
        "mode": "auto",
        "threshold": 0.5,
        "filter": "box",
    }
    assert settings["fields"]["siren"]["omega_0"] == 30
    assert settings["training"]["optimizer"] == "adam"
    assert settings["max_megapixels"] == 100


def test_a_network_may_change_its_training(written):
    changed(written, "fields.siren.training.steps", 7)
    settings = read(written)
    assert settings["fields"]["siren"]["training"]["steps"] == 7
    assert settings["fields"]["plain"]["training"]["steps"] == 20
    assert settings["fields"]["siren"]["training"]["optimizer"] == "adam"


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_takes_the_place_of_all_networks(written, name):
    written["images"]["other"] = {"path": "tiny.png", "fields": ["plain"]}
    written["sweeps"] = {"seeds": {"fields": ["plain"], "vary": {"random_seed": [0, 1]}}}
    written["preset"] = name
    settings = read(written)
    assert not settings["sweeps"]
    assert runs(settings) == [ImageNetwork("tiny", name), ImageNetwork("other", name)]
    assert settings["fields"][name]["training"]["learning_rate"] > 0


def test_only_presets_that_there_are(written):
    written["preset"] = "fsat"
    with pytest.raises(Problems, match=r"preset: 'fsat'; expected .*fast"):
        read(written)
    assert set(PRESETS) == set(read_schema()["properties"]["preset"]["enum"])


def test_a_result_of_its_own_name_is_no_source(written):
    """Snakemake would remove the source before the job that reads it."""
    Path("results/tiny").mkdir(parents=True)
    Path("tiny.png").rename("results/tiny/resized.png")
    Path("link.png").symlink_to("results/tiny/resized.png")
    for path in ("results/tiny/resized.png", "./results/../results/tiny/resized.png", "link.png"):
        written["images"] = {"tiny": {"path": path}}
        with pytest.raises(
            Problems, match=r"tiny\.path: .*; expected a file outside of results/tiny"
        ):
            read(written)
    written["images"] = {"other": {"path": "results/tiny/resized.png"}}
    read(written)


def test_the_order_of_lines_changes_nothing(written):
    backwards = copy.deepcopy(written)
    backwards["training"] = dict(reversed(written["training"].items()))
    backwards["fields"]["siren"] = dict(reversed(written["fields"]["siren"].items()))
    assert repr(read(backwards)) == repr(read(written))


def test_a_key_left_empty_is_not_set(written):
    changed(written, "training.threads", None)
    assert "threads" not in read(written)["training"]


def test_a_network_without_settings_lacks_its_type(written):
    changed(written, "fields.plain", None)
    with pytest.raises(Problems, match=r"fields\.plain\.type: missing; expected siren"):
        read(written)


def test_numbers_may_be_written_as_text(written):
    changed(written, "training.learning_rate", "1e-4")
    changed(written, "training.steps", "12")
    changed(written, "timelapse.label", "false")
    settings = read(written)
    assert settings["training"]["learning_rate"] == 1e-4
    assert settings["training"]["steps"] == 12
    assert settings["timelapse"]["label"] is False


def test_runs_are_the_networks_of_each_image(written):
    written["images"]["other"] = {"path": "tiny.png", "fields": ["plain"]}
    assert runs(read(written)) == [
        ImageNetwork("tiny", "siren"),
        ImageNetwork("tiny", "plain"),
        ImageNetwork("other", "plain"),
    ]


def test_images_are_found_beside_the_snakefile(written):
    written["images"]["cub"] = {"path": "workflow/resources/lion_cub.png"}
    assert read(written)["images"]["cub"]["path"] == str(ROOT / "workflow/resources/lion_cub.png")


@pytest.mark.parametrize(
    ("path", "value", "complaint"),
    [
        (
            "images.tiny.size",
            0,
            "config.yaml: images.tiny.size: 0; expected a whole number of pixels from 1 to 100000"
            " for the longer side, or [width, height]; remove the key for the usual size",
        ),
        ("images.tiny.size", "big", "images.tiny.size: 'big'; expected a whole number of pixels"),
        ("images.tiny.size", [16], "images.tiny.size: [16]; expected a whole number of pixels"),
        ("images.tiny.size", 16.5, "images.tiny.size: 16.5; expected a whole number of pixels"),
        ("images.tiny.size", True, "images.tiny.size: true; expected a whole number of pixels"),
        ("max_megapixels", 10**400, "expected a number of megapixels > 0, at most 10^30"),
        ("images.tiny.path", "no.png", "images.tiny.path: no.png: no such file; expected the path"),
        ("images.tiny.path", ".", "images.tiny.path: .: is a folder; expected the path"),
        ("images.tiny.path", "a{b}.png", "images.tiny.path: 'a{b}.png'; expected the path"),
        (
            "images.tiny.fields",
            "siren",
            "images.tiny.fields: 'siren'; expected a list of",
        ),
        ("images.tiny.fields", ["sirn"], "images.tiny.fields.0: 'sirn'; expected one of the"),
        (
            "images.tiny.mode",
            "gray",
            "expected auto, bilevel, grey, rgb or rgba; did you mean grey?",
        ),
        ("images.tiny.threshold", 1, "images.tiny.threshold: 1; expected a number between"),
        ("images.a/b", {"path": "tiny.png"}, "images: the name 'a/b'; expected a name of 1 to 64"),
        ("images.-x", {"path": "tiny.png"}, "images: the name '-x'; expected a name of 1 to 64"),
        ("images." + "x" * 65, {"path": "tiny.png"}, "expected a name of 1 to 64 letters"),
        ("images", {}, "images: {}; expected at least one image"),
        ("images", None, "images: missing; expected at least one image"),
        ("images.tiny", "tiny.png", "images.tiny: 'tiny.png'; expected settings of an image"),
        (
            "fields.siren.type",
            "sirn",
            "hashgrid, cafe, mlp or imported; did you mean siren?",
        ),
        ("fields.new", {}, "fields.new.type: missing; expected siren, finer, wire, gauss"),
        ("fields.siren.widht", 9, "fields.siren.widht: unknown key; expected a key that"),
        ("fields.siren.widht", 9, "did you mean width?"),
        ("fields.siren.widths", [8], "fields.siren.widths: unknown key"),
        (
            "fields.plain.widths",
            [],
            "fields.plain.widths: []; expected a list of 1 to 1,000 widths",
        ),
        ("fields.plain.widths", [0], "fields.plain.widths.0: 0; expected a whole number >= 1"),
        ("fields.plain.bias", 1, "fields.plain.bias: 1; expected true or false"),
        ("fields.siren.training.stesp", 1, "fields.siren.training.stesp: unknown key"),
        (
            "fields.old",
            {"type": "imported"},
            "fields.old.path: missing; expected the path of a model",
        ),
        (
            "fields.old",
            {"type": "imported", "path": "no.json"},
            "fields.old.path: no.json: no such file; expected the path of a model.json",
        ),
        (
            "fields.old",
            {"type": "imported", "path": "model.json", "training": {"steps": 1}},
            "fields.old.training: unknown key; expected one of type, path; remove it",
        ),
        (
            "training.stesp",
            1,
            "training.stesp: unknown key; expected a key that is documented in config.yaml",
        ),
        ("training.steps", 0, "training.steps: 0; expected a whole number >= 1"),
        ("training.steps", "many", "training.steps: 'many'; expected a whole number >= 1"),
        (
            "training.learning_rate",
            float("inf"),
            "learning_rate: .inf; expected auto or a number > 0",
        ),
        ("training.footprint_points", 65, "footprint_points: 65; expected a whole number from"),
        ("training.segments", 2, "training.segments: unknown key; expected one of"),
        ("training.warmup_steps", 21, "warmup_steps: 21; expected at most steps, which is 20"),
        (
            "training.time_limit_s",
            50,
            "time_margin_s: 60; expected at most time_limit_s, which is 50; lower time_margin_s,"
            " or raise time_limit_s",
        ),
        ("training.time_limit_s", 0, "training.time_limit_s: 0; expected a number of seconds > 0"),
        (
            "training.max_temperature_celsius",
            "hot",
            "training.max_temperature_celsius: 'hot'; expected a number of degrees Celsius > 0",
        ),
        ("training.minimum_learning_rate", 1, "expected at most learning_rate, which is 0.002"),
        (
            "training.schedule",
            "exponential",
            "training.minimum_learning_rate: 0.0; expected a number above 0, where schedule",
        ),
        ("training.checkpoint_interval_s", 0, "expected a number of seconds > 0"),
        ("training", 5, "training: 5; expected settings of the training"),
        ("render.sizes", [], "render.sizes: []; expected a list of one or more different sizes"),
        ("render.sizes", [8, 8], "render.sizes: [8, 8]; expected a list of one or more different"),
        (
            "render.crops",
            {"x": {"box": [0, 0, 1]}},
            "expected [left, top, right, bottom], fractions",
        ),
        ("render.crops", {"x": {"box": [0.5, 0, 0.5, 1]}}, "with left < right and top < bottom"),
        ("timelapse.frames_per_second", 1e-308, "expected a number from 0.1 to 120"),
        ("timelapse.formats", ["avi"], "timelapse.formats.0: 'avi'; expected mp4, gif or webp"),
        (
            "images.tables",
            {"path": "tiny.png"},
            "images: the name 'tables'; expected another name: results/tables is reserved for",
        ),
        (
            "images.Classifiers",
            {"path": "tiny.png"},
            "results/classifiers is reserved for classifiers",
        ),
        (
            "image",
            "nowhere.png",
            "image: nowhere.png: no such file; expected the path of an image",
        ),
        (
            "image",
            "model.json",
            "image: model.json is not an image that can be read; expected",
        ),
        ("image", ".", "image: .: is a folder; expected the path of an image; name a file in it"),
        (
            "sise",
            9,
            "sise: unknown key; expected a key that is documented in config.yaml; did you mean",
        ),
        ("size", "tall", "config.yaml: size: 'tall' without an image; expected the setting"),
        (
            "steps",
            500,
            "steps: unknown key; expected this key in training; write training: {steps: 500",
        ),
        ("sizes", 512, "expected this key in render; write render: {sizes: [512]}"),
        (
            "crops",
            {name: {"box": [0, 0, 1, 1]} for name in ("left_eye", "right_eye", "nose")},
            "crops: {left_eye: {box: [0, 0, 1, 1]}, nose: {box: [0, 0, 1, 1]}, right_eye: {box: [0,"
            " 0, 1, 1]}}}",
        ),
        ("frames", 5, "frames: unknown key; expected this key in timelapse; write timelapse: {f"),
        ("width", 5, "expected this key in fields.siren; write fields: {siren: {width: 5}}"),
        ("mode", "grey", "mode: 'grey' without an image; expected the setting"),
        ("path", "a.png", "expected this key in images.tiny; write images: {tiny: {path: a.png}}"),
        (
            "fields.siren.steps",
            9,
            "fields.siren.steps: unknown key; expected this key in fields.siren.training; write"
            " fields: {siren: {training: {steps: 9}}}",
        ),
        ("training.width", 5, "expected this key in fields.siren; write fields: {siren: {width"),
        (
            "training.steps",
            "1e4",
            "10000.0; expected a whole number >= 1, at most 10^9; write 10000",
        ),
        ("training.steps", 2.5, "training.steps: 2.5; expected a whole number >= 1, at most 10^9"),
        (
            "images.tiny.size",
            16.0,
            "16.0; expected a whole number of pixels from 1 to 100000 for the longer side, or"
            " [width, height]; write 16",
        ),
        ("images.tiny.size", 1e9, "[width, height]; remove the key for the usual size"),
        (
            "images.tiny.size",
            30000,
            "config.yaml: images.tiny.size: 30000, which is 30000 x 20000 pixels; expected at most"
            " 100 megapixels; make it smaller, or raise max_megapixels; renders can still be"
            " larger",
        ),
        (
            "images.tiny.size",
            [20000, 5001],
            "images.tiny.size: [20000, 5001], which is 20000 x 5001 pixels; expected at most 100",
        ),
        (
            "render.crops",
            {"x": {"box": [10, 0, 100, 50]}},
            "render.crops.x.box.2: 100; expected a fraction of the image's width or height, from 0"
            " to 1; divide pixels by the image's width (left, right) or height (top, bottom)",
        ),
        (
            "render.sizes",
            [8, 30000],
            "render.sizes.1: 30000, which is 30000 x 20625 pixels of tiny.png; expected at most 400"
            " megapixels; make it smaller, or raise render.max_megapixels",
        ),
        (
            "render.crops",
            {"x": {"box": [0, 0, 0.5, 0.7], "size": 40000}},
            "render.crops.x.size: 40000, which is ",
        ),
        (
            "imges",
            {},
            "imges: unknown key; expected a key that is documented in config.yaml; did you mean",
        ),
    ],
)
def test_complaint(written, path, value, complaint):
    assert complaint in "\n".join(complaints(changed(written, path, value)))


def test_a_contradiction_in_the_section_of_all_networks_is_reported_once(written):
    assert len(written["fields"]) > 1
    (line,) = complaints(changed(written, "training.time_limit_s", 50))
    assert line.startswith("config.yaml: training.time_margin_s: 60; expected at most")


def test_an_image_that_is_just_small_enough_is_accepted(written):
    assert read(changed(written, "images.tiny.size", [20000, 5000]))["images"]["tiny"]["size"]
    assert read(changed(written, "images.tiny.size", 12000))["images"]["tiny"]["size"] == 12000


def test_an_image_without_permission_to_read_it_is_refused(written, monkeypatch):
    # the superuser may read every file
    monkeypatch.setattr("config.named_files.os.access", lambda path, mode: False)
    assert complaints(written) == [
        "config.yaml: images.tiny.path: tiny.png: no permission to read it; expected a file that"
        " can be read; allow it (chmod u+r tiny.png)"
    ]


def test_an_own_image_does_not_take_the_folder_of_tables(written):
    Image.new("L", (20, 20)).save("Tables.png")
    written["image"] = "Tables.png"
    assert list(read(written)["images"]) == ["tables-picture"]


def test_everything_that_is_wrong_is_reported_at_once(written):
    changed(written, "images.tiny.size", 0)
    changed(written, "training.steps", "many")
    changed(written, "fields.siren.widht", 9)
    changed(written, "image", "nowhere.png")
    del written["image"]
    assert len(complaints(written)) == 3


def test_names_where_a_setting_was_written(tmp_path):
    extra = tmp_path / "mine.yaml"
    extra.write_text("training: {steps: 0}\n")

    given = SimpleNamespace(config={"images": {"cub": {"size": 3}}}, configfiles=[extra])
    name_source = source_namer(read_layers(given))
    assert name_source(("images", "cub", "size")) == "--config"
    assert name_source(("images", "cub", "path")) == "--config"
    assert name_source(("training", "steps")) == "mine.yaml"
    assert name_source(("render", "sizes")) == "config.yaml"
    assert name_source(("images",)) == "--config"


@pytest.mark.parametrize("kind", sorted(FIELDS))
def test_schema_and_networks_agree(written, kind):
    """All settings of a network can be configured, and no others."""
    written["fields"] = {"net": {"type": kind}}
    field = read(written)["fields"]["net"]
    settings = field_settings({k: v for k, v in field.items() if k not in ("training", "output")})
    declared = settings_of(type(settings))
    added = {name: s.default for name, s in declared.items() if s.omit_when_off}
    assert {"type", "training", *vars(settings)} == set(field) | set(added)
    written["fields"]["net"] |= added
    assert read(written)["fields"]["net"] == field | added


def test_a_learning_rate_that_nobody_chose_is_the_field_s(written):
    del written["training"]["learning_rate"]
    written["fields"] = {kind: {"type": kind} for kind in FIELDS}
    written["images"]["tiny"].pop("fields", None)
    found = read(written)["fields"]
    for kind, cls in FIELDS.items():
        assert found[kind]["training"]["learning_rate"] == cls().suggested_learning_rate
    written["training"]["learning_rate"] = 0.5
    written["fields"]["siren"]["training"] = {"learning_rate": "auto"}
    written["fields"]["siren"]["width"] = 256
    found = read(written)["fields"]
    assert found["siren"]["training"]["learning_rate"] == Siren(width=256).suggested_learning_rate
    assert found["mlp"]["training"]["learning_rate"] == 0.5
    written["training"]["minimum_learning_rate"] = 0.1
    assert "expected at most learning_rate, which is 0.00026" in complaints(written)[0]


def test_schema_and_training_agree(written):
    """The settings agree, except those on where and how a training is executed."""
    training = read(written)["fields"]["siren"]["training"]
    training = with_choices_for(Kind.PHOTOGRAPH, training)
    for key in HOW_AND_WHERE:
        training.pop(key, None)
    off = {"gradient_clip_norm": None, "keep_best": False, "epsilon": 1e-8}
    off |= {"residual": False, "residual_scale": 1}
    assert vars(ImageTraining.from_mapping(training)) == training | off
