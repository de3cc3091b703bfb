"""The command line has precedence, and settings that have no effect are reported."""

import copy
import shlex

import pytest
import yaml
from snakemake.cli import parse_config
from snakemake.settings.types import ConfigSettings
from snakemake.utils import update_config
from snakemake_interface_executor_plugins.utils import format_cli_arg
from workspace import ROOT

from config.configuration import Problems, read_settings
from config.sources import Sources
from neuralfield.tasks.image.presets import PRESETS

SHIPPED = yaml.safe_load((ROOT / "config.yaml").read_text())


def read(config, *arguments, files=()):
    """Read settings as Snakemake merges them from config.yaml, --configfile and --config."""
    given = ConfigSettings(config=parse_config(arguments), configfiles=list(files))
    merged = copy.deepcopy(config)
    update_config(merged, given.overwrite_config)
    return read_settings(merged, Sources(given=given.overwrite_config))


def steps(settings):
    return {name: field["training"]["steps"] for name, field in settings["fields"].items()}


def test_the_first_example_of_the_config_works():
    assert "--config 'training={steps: 500}'" in (ROOT / "config.yaml").read_text()
    found = read(SHIPPED, "training={steps: 500}")
    assert steps(found) == {"siren": 500, "siren_footprint": 500}
    both = ("training={steps: 500}", "fields={siren: {training: {steps: 9}}}")
    assert steps(read(SHIPPED, *both)) == {"siren": 9, "siren_footprint": 500}
    assert found["fields"]["siren"]["training"]["supervision"] == "point"
    assert not found["notes"]


def test_the_command_line_wins_even_with_the_value_of_the_file(written, tmp_path):
    written["training"]["steps"] = 6
    written["fields"]["siren"]["training"] = {"steps": 7}
    assert steps(read(written)) == {"siren": 7, "plain": 6}
    assert steps(read(written, "training={steps: 6}")) == {"siren": 6, "plain": 6}
    own = tmp_path / "own.yaml"
    own.write_text("training: {steps: 1000}\nfields: {plain: {training: {steps: 30}}}\n")
    assert steps(read(written, files=[own])) == {"siren": 1000, "plain": 30}


@pytest.mark.parametrize("preset", PRESETS)
def test_the_command_line_wins_over_a_preset(preset):
    found = read(SHIPPED, f"preset={preset}", "training={steps: 11, random_seed: 3}")
    assert steps(found) == {preset: 11}
    assert found["fields"][preset]["training"]["random_seed"] == 3
    assert not found["notes"]


def test_the_command_line_sets_the_target_of_a_coded_image():
    found = read(SHIPPED, "preset=small", "target={bytes: 500}", "training={loss: huber}")
    assert found["fields"]["small"]["target"] == {"bytes": 500}
    assert "no network is trained with it" in found["notes"][-1]


def test_coded_images_are_trained_as_the_settings_say():
    how = {"steps": 70, "random_seed": 3, "snapshots": 5, "device": "cpu", "threads": 1}
    found = read(SHIPPED, "preset=small", f"training={how}")
    assert found["fields"]["small"]["training"] == how
    assert not any("no effect" in note for note in found["notes"])


def test_values_of_a_sweep_win(written):
    written["sweeps"] = {"s": {"fields": ["plain"], "vary": {"steps": [3, 4]}}}
    written["images"]["tiny"]["fields"] = ["siren"]
    written["fields"]["siren"]["training"] = {"random_seed": 2}
    found = read(written, "training={steps: 500, random_seed: 7}")
    assert steps(found)["siren"] == 500 and not found["notes"]


def test_a_job_of_its_own_process_reads_the_same():
    """A job on a cluster gets Snakemake's form of --config, not the text that the user typed."""
    typed = ("training={steps: 500, learning_rate: 1e-4}", "image=workflow/resources/savannah.png")
    passed_on = ConfigSettings(config=parse_config(typed)).config_args
    option, *words = shlex.split(format_cli_arg("--config", passed_on))
    assert option == "--config"
    assert read(SHIPPED, *words) == read(SHIPPED, *typed)


def notes(config, *arguments):
    return "\n".join(read(config, *arguments)["notes"])


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["training={huber_delta: 0.3}"], "training.huber_delta: 0.3 has no effect"),
        (["preset=fast", "fields={siren: {width: 9}}"], "fields has no effect, because preset"),
        (["fields={mine: {type: siren}}", "images={tiny: {fields: [siren]}}"], "fields.mine has"),
        (["training={steps: 30}", "budget=3"], "training.steps: 30 has no effect"),
    ],
)
def test_a_setting_without_effect_is_named(written, arguments, note):
    assert note in notes(written, *arguments)
    assert not notes(SHIPPED)


def test_a_setting_that_every_network_sets_itself_is_named(written):
    written["training"]["steps"] = 50
    for field in written["fields"].values():
        field["training"] = {"steps": 9}
    assert "config.yaml: training.steps: 50 has no effect" in notes(written)
    del written["fields"]["plain"]["training"]
    assert not notes(written)


def test_an_empty_value_is_an_error():
    with pytest.raises(Problems, match="--config: image: nothing; expected a value after the ="):
        read(SHIPPED, "image=")


def budgets(settings):
    return {
        name: [field["training"].get(key) for key in ("budget", "cpu_budget")]
        for name, field in settings["fields"].items()
    }


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("60", 60), ("0.5", 0.5), ("90s", 90), ("30m", 1800), ("1.5h", 5400), ("1e3", 1000)],
)
def test_a_budget_at_the_top_is_one_for_every_network(text, seconds):
    for arguments in ([f"budget={text}"], [f"training={{budget: {text}}}"]):
        assert budgets(read(SHIPPED, *arguments)) == {
            "siren": [seconds, None],
            "siren_footprint": [seconds, None],
        }


@pytest.mark.parametrize("text", ["abc", "0", "-5", "5 days", "m", "[1]"])
@pytest.mark.parametrize("argument", ["budget={}", "training={{budget: {}}}"])
def test_a_budget_that_is_no_time_is_refused(text, argument):
    expected = "budget: .*; expected a number of seconds > 0, or a time like 90s, 30m or 2h"
    with pytest.raises(Problems, match=f"^--config: (training.)?{expected}"):
        read(SHIPPED, argument.format(text))


def test_the_later_of_steps_and_budgets_wins(written):
    written["training"]["budget"] = "2m"
    written["fields"]["plain"]["training"] = {"cpu_budget": 5}
    assert budgets(read(written)) == {"siren": [120, None], "plain": [120, 5]}
    found = read(written, "budget=3", "fields={siren: {training: {budget: 7}}}")
    assert budgets(found) == {"siren": [7, None], "plain": [3, 5]}
    found = read(written, "training={steps: 30}")
    assert budgets(found) == {"siren": [None, None], "plain": [None, None]}
    assert steps(found) == {"siren": 30, "plain": 30}
    assert budgets(read(written, "budget=9")) == {"siren": [9, None], "plain": [9, 5]}


def test_a_budget_needs_no_steps_to_warm_up(written):
    read(written, "budget=9", "training={warmup_steps: 5000}")


def test_images_that_are_named_are_the_only_ones(written, tmp_path):
    images = SHIPPED | {"images": {**SHIPPED["images"], "mine": {"path": "tiny.png"}}}
    extra = tmp_path / "own.yaml"
    extra.write_text("images: {other: {path: tiny.png}}\n")
    found = read(SHIPPED, "images={other: {path: tiny.png}}", files=[extra])
    assert [*found["images"]] == ["other"]
    assert found["notes"] == [
        "--config names images: the examples lion_cub, lion_cub_grey, savannah are left out."
    ]
    assert [*read(images, "images={other: {path: tiny.png}}")["images"]] == ["mine", "other"]
    assert [*read(images, "images={savannah: {size: 9}}")["images"]] == ["savannah", "mine"]
    found = read(images, "training={steps: 9}")
    assert len(found["images"]) == 4 and not found["notes"]
