"""Checks of a user's config.yaml, and the messages about mistakes in it."""

import copy
from pathlib import Path

import pytest
import yaml
from complaints import changed, complaints, read
from PIL import Image
from snakemake.utils import validate
from workspace import ROOT

from config.configuration import ImageNetwork, Problems, runs
from config.schema import SCHEMA_PATH, read_schema
from config.sources import Sources
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
        "page": False,
        "restore": True,
    }
    assert settings["fields"]["siren"]["omega_0"] == 30
    assert settings["training"]["optimizer"] == "adam"
    assert settings["max_megapixels"] == 100


def test_estimates_of_a_degradation_are_kept_as_they_are(written):
    written["images"]["tiny"]["restore"] = {"noise": 0.02, "levels": "own"}
    assert read(written)["images"]["tiny"]["restore"] == {"noise": 0.02, "levels": "own"}


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
    assert settings["fields"][name]["training"]["steps"] > 0


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


COMPLAINTS = [
    ("images.tiny.path", "tyni.png", "images.tiny.path: tyni.png: no such file; expected the path"),
    ("images.tiny.fields", ["sirn"], "images.tiny.fields.0: 'sirn'; expected one of the"),
    ("images.tiny.mode", "gray", "did you mean grey?"),
    ("images.a/b", {"path": "tiny.png"}, "images: the name 'a/b'; expected a name of 1 to 64"),
    ("images", {}, "images: {}; expected at least one image"),
    ("images", None, "images: missing; expected at least one image"),
    ("images.tiny", "tiny.png", "images.tiny: 'tiny.png'; expected settings of an image"),
    ("images.tables", {"path": "tiny.png"}, "results/tables is reserved for tables"),
    ("images.tiny.size", 16.0, "16.0; expected a whole number of pixels from 1 to 100000"),
    ("images.tiny.size", 30000, "30000, which is 30000 x 20000 pixels; expected at most"),
    ("fields.siren.type", "sirn", " or imported; did you mean siren?"),
    ("fields.new", {}, "fields.new.type: missing; expected siren, finer, wire, gauss"),
    ("fields.siren.widht", 9, "fields.siren.widht: unknown key; expected a key that"),
    ("fields.plain.widths", [0], "fields.plain.widths.0: 0; expected a whole number >= 1"),
    ("fields.plain.bias", 1, "fields.plain.bias: 1; expected true or false"),
    ("fields.siren.steps", 9, "write fields: {siren: {training: {steps: 9}}}"),
    ("fields.old", {"type": "imported", "path": "no.json"}, "old.path: no.json: no such file"),
    ("training.stesp", 1, "training.stesp: unknown key; expected a key that is documented"),
    ("training.steps", "many", "training.steps: 'many'; expected a whole number >= 1"),
    ("training.steps", "1e4", "10000.0; expected a whole number >= 1, at most 10^9; write 10000"),
    ("training.learning_rate", float("inf"), "learning_rate: .inf; expected auto or a number > 0"),
    ("training.segments", 2, "training.segments: unknown key; expected one of"),
    ("training.warmup_steps", 21, "warmup_steps: 21; expected at most steps, which is 20"),
    (
        "training.time_limit_s",
        50,
        "expected at most time_limit_s, which is 50; lower",
    ),
    ("training.schedule", "exponential", "minimum_learning_rate: 0.0; expected a number above 0"),
    ("training", 5, "training: 5; expected settings of the training"),
    ("render.sizes", [8, 8], "render.sizes: [8, 8]; expected a list of one or more different"),
    (
        "render.sizes",
        [8, 30000],
        "render.sizes.1: 30000, which is 30000 x 20625 pixels of",
    ),
    ("render.crops", {"x": {"box": [0, 0, 1]}}, "expected [left, top, right, bottom], fractions"),
    ("render.crops", {"x": {"box": [0.5, 0, 0.5, 1]}}, "with left < right and top < bottom"),
    ("render.crops", {"x": {"box": [0, 0, 0.5, 0.7], "size": 40000}}, "crops.x.size: 40000, which"),
    ("timelapse.formats", ["avi"], "timelapse.formats.0: 'avi'; expected mp4, gif or webp"),
    ("image", "nowhere.png", "image: nowhere.png: no such file; expected the path of an image"),
    ("image", "model.json", "image: model.json is not an image that can be read; expected"),
    ("image", ".", "image: .: is a folder; expected the path of an image; name a file in it"),
    ("size", "tall", "config.yaml: size: 'tall' without an image; expected the setting"),
    (
        "steps",
        500,
        "steps: unknown key; expected this key in training; write training: {steps:",
    ),
    ("width", 5, "expected this key in fields.siren; write fields: {siren: {width: 5}}"),
    ("path", "a.png", "expected this key in images.tiny; write images: {tiny: {path: a.png}}"),
    ("imges", {}, "imges: unknown key; expected a key that is documented in config.yaml; did you"),
]


@pytest.mark.parametrize(("path", "value", "complaint"), COMPLAINTS)
def test_complaint(written, path, value, complaint):
    assert complaint in "\n".join(complaints(changed(written, path, value)))


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


def test_names_where_a_setting_was_written():
    where = Sources(given={"images": {"cub": {"size": 3}}}).where
    assert where(("images", "cub", "size")) == "--config: images.cub.size"
    assert where(("images", "cub", "path")) == "--config: images.cub.path"
    assert where(("render", "sizes")) == "config.yaml: render.sizes"
    assert where(("images",)) == "--config: images"


@pytest.mark.parametrize("path", [ROOT / "config.yaml", *ROOT.glob("config/config.yaml")])
def test_snakemake_itself_can_check_a_config_with_the_schema(path):
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    checked = copy.deepcopy(config)
    validate(checked, str(SCHEMA_PATH))
    assert read(checked)["fields"] == read(config)["fields"]


def test_an_image_is_enough(written):
    for config in ({"image": "tiny.png"}, {"images": {"one": {"path": "tiny.png"}}}):
        validate(copy.deepcopy(config), str(SCHEMA_PATH))
        assert [*read(config)["fields"]] == ["siren", "siren_footprint"]
        assert [*read(config | {"preset": "fast"})["fields"]] == ["fast"]
        found = read(config | {"training": {"steps": 9}})
        assert {field["training"]["steps"] for field in found["fields"].values()} == {9}
        assert "has no effect" not in str(found["notes"])


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
