"""Everything is made once; a change only remakes the results that depend on it."""

import os
import re
import shlex
import shutil

import pytest
from check import main
from job_requests import read_jobs, table
from PIL import Image, ImageChops
from workspace import ROOT, Workspace

ALL_AGAIN = {"evaluate": 1, "render": 1, "timelapse": 1, "view": 1, "summarize": 1, "report": 1}


@pytest.fixture(autouse=True)
def keep_settings(finished: Workspace):
    """Restore the settings that a test changes."""
    with finished.settings_kept():
        yield


def test_every_file_is_made(finished):
    for name in (
        "report.html",
        "summary.csv",
        "tiny/resized.png",
        "tiny/picture.json",
        "tiny/pixels.csv",
        "tiny/siren/model.safetensors",
        "tiny/siren/history.csv",
        "tiny/siren/training.json",
        "tiny/siren/checkpoints/step_00000020.safetensors",
        "tiny/siren/render_8.png",
        "tiny/siren/timelapse.mp4",
        "tiny/siren/timelapse.gif",
        "tiny/siren/view.html",
        "tiny/siren/metrics.json",
        "tiny/siren/comparison/redraw.png",
        "tiny/plain/model.safetensors",
    ):
        assert finished.path(f"results/{name}").stat().st_size > 0, name
    for name in ("tiny/resize", "tiny/siren/train", "tiny/siren/render", "report"):
        assert finished.path(f"logs/{name}.log").exists()
        assert finished.path(f"logs/{name}.benchmark.tsv").exists()


def test_jobs_need_what_they_have_asked_for_and_no_more(finished):
    """Python and its packages use most of the requested memory if the image is tiny."""
    jobs = list(read_jobs(finished.path("logs")))
    rules = {"resize", "encode", "train", "render", "timelapse", "view", "evaluate", "summarize"}
    rules.add("report")
    assert {job.rule for job in jobs} == rules
    for job in jobs:
        assert job.is_within, job
        assert job.asked_mb <= 4000 and job.asked_s <= 20 * 60, job
    assert len(table(jobs).splitlines()) == 1 + len(rules)
    assert "more than" not in table(jobs)


def test_the_state_to_resume_from_is_gone(finished):
    assert not list(finished.path("results").rglob(".state"))


def test_nothing_is_made_twice(finished):
    assert finished.planned() == {}


def test_another_size_is_only_rendered(finished):
    finished.settings["render"]["sizes"] = [8, 12]
    assert finished.planned() == {"render": 2, "report": 1}


@pytest.mark.slow
def test_another_width_trains_that_network_only(finished):
    finished.settings["fields"]["siren"]["width"] = 9
    assert finished.planned() == {"train": 1, **ALL_AGAIN}


@pytest.mark.slow
def test_another_training_of_one_network_trains_that_network_only(finished):
    finished.settings["fields"]["plain"]["training"] = {"learning_rate": 0.001}
    assert finished.planned() == {"train": 1, **ALL_AGAIN}


@pytest.mark.slow
def test_what_makes_no_difference_trains_nothing(finished):
    finished.settings["training"] |= {"threads": 2, "checkpoint_interval_s": 5}
    assert set(finished.planned()) <= {"report"}


@pytest.mark.slow
def test_another_timelapse_is_only_filmed(finished):
    finished.settings["timelapse"]["frames_per_second"] = 10
    assert finished.planned() == {"timelapse": 2, "report": 1}


@pytest.mark.slow
def test_another_evaluation_is_only_measured(finished):
    finished.settings["evaluate"] = {"max_megapixels": 1}
    assert finished.planned() == {"evaluate": 2, "summarize": 1, "report": 1}


@pytest.mark.slow
def test_another_image_is_trained(finished):
    image = finished.path("tiny.png")
    shutil.copy2(image, finished.path("before.png"))
    finished.draw("tiny.png", seed=1)
    try:
        planned = finished.planned()
    finally:
        shutil.copy2(finished.path("before.png"), image)
    assert planned["resize"] == planned["encode"] == 1
    assert planned["train"] == 2


@pytest.mark.slow
def test_a_new_version_of_the_package_makes_everything_again(finished, tmp_path):
    for name in ("scripts", "workflow", "profiles"):
        shutil.copytree(ROOT / name, tmp_path / name)
    for name in ("Snakefile", "config.yaml"):
        shutil.copy2(ROOT / name, tmp_path)
    finished.snakefile = tmp_path / "Snakefile"
    assert set(finished.planned()) <= {"report", "view"}  # other paths of their templates
    version = tmp_path / "scripts/neuralfield/version.py"
    text, changes = re.subn(r"(?m)^ENGINE_VERSION = .*", "ENGINE_VERSION = 0", version.read_text())
    assert changes == 1
    version.write_text(text)
    planned = finished.planned()
    finished.snakefile = ROOT / "Snakefile"
    assert planned["resize"] == planned["encode"] == 1
    assert planned["train"] == planned["render"] == planned["evaluate"] == 2


@pytest.mark.slow
def test_the_table_is_turned_back_into_the_image(finished):
    finished.succeed("results/tiny/decoded.png")
    with (
        Image.open(finished.path("results/tiny/resized.png")) as resized,
        Image.open(finished.path("results/tiny/decoded.png")) as decoded,
    ):
        assert decoded.mode == resized.mode
        assert ImageChops.difference(decoded, resized).getbbox() is None


def test_what_the_check_finds_is_made_again_by_the_command_that_it_prints(finished, capsys):
    assert check(finished) == 0
    damaged = finished.path("results/tiny/siren/render_8.png")
    edited = finished.path("results/tiny/plain/metrics.json")
    lost = finished.path("results/tiny/siren/checkpoints/step_00000020.safetensors")
    before = {path: path.read_bytes() for path in (damaged, lost)}
    times = damaged.stat()
    damaged.write_bytes(before[damaged][:60] + b"?" + before[damaged][61:])
    os.utime(damaged, ns=(times.st_atime_ns, times.st_mtime_ns))
    edited.write_text(edited.read_text().replace('"steps": 20', '"steps": 21'))
    lost.unlink()
    stranger = finished.path("results/tiny/notes.txt")
    stranger.touch()
    assert "evaluate" not in finished.planned("results/tiny/siren/render_8.png")
    capsys.readouterr()
    assert check(finished) == 1
    *findings, _, _, command = capsys.readouterr().out.splitlines()
    for path, found in (
        (damaged, "has changed"),
        (edited, "has changed"),
        (lost, "there is no such file"),
        (stranger, "no job has listed it"),
    ):
        assert any(line.startswith(f"{path}: {found}; ") for line in findings), path
    assert len(findings) == 4
    stranger.unlink()
    words = shlex.split(command)
    assert words[0] == "snakemake"
    finished.succeed(*words[3:])
    finished.succeed()
    assert {path: path.read_bytes() for path in before} == before
    assert check(finished) == 0


def check(workspace: Workspace) -> int:
    return main(["--results", str(workspace.path("results"))])
