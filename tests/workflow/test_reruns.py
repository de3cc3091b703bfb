"""Everything is made once; a change only remakes the results that depend on it."""

import os
import re
import shutil

import check
import pytest
from job_requests import read_jobs, table
from PIL import Image, ImageChops
from workspace import ROOT, Workspace, without_kernels

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


def test_folders_that_have_lost_a_file_are_made_again(finished):
    folder = finished.path("results/tiny/siren")
    lost = [folder / "checkpoints/step_00000020.safetensors", folder / "comparison/redraw.png"]
    for number, path in enumerate(lost):
        path.rename(finished.path(f"away_{number}"))
    try:
        messages = finished.succeed("--dry-run", "--verbose")
    finally:
        for number, path in enumerate(lost):
            finished.path(f"away_{number}").rename(path)
    assert "files are missing in it" in messages
    for rule in ("train", "evaluate"):
        assert re.search(rf"^{rule} +1$", messages, re.MULTILINE)


def test_a_dry_run_says_that_settings_have_changed_and_not_that_the_user_forces_it(finished):
    finished.settings["training"]["snapshots"] -= 1
    try:
        messages = finished.succeed("--dry-run")
    finally:
        finished.settings["training"]["snapshots"] += 1
    line = next(line for line in messages.splitlines() if line.startswith("  tiny / siren: train"))
    assert line.endswith(" have changed)")


def test_damage_that_keeps_its_time_is_found_and_mended_as_the_check_says(finished, capsys):
    results = finished.path("results")
    assert check.main(["--results", str(results)]) == 0
    render = finished.path("results/tiny/siren/render_8.png")
    content, times = render.read_bytes(), render.stat()
    render.write_bytes(content[:60] + bytes([content[60] ^ 1]) + content[61:])
    os.utime(render, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert finished.planned() == {}, "Snakemake compares times"
    capsys.readouterr()
    assert check.main(["--results", str(results)]) == 1
    assert re.search(
        r"render_8.png: has changed; .* the rule render made; remove it, and run the same",
        capsys.readouterr().out,
    )
    render.unlink()
    finished.succeed()
    assert render.read_bytes() == content
    assert check.main(["--results", str(results)]) == 0


@pytest.mark.slow
def test_results_of_a_clock_that_was_ahead_are_kept(workspace):
    workspace.settings["fields"] = {"siren": without_kernels()}
    model, render = (f"results/tiny/siren/{name}" for name in ("model.safetensors", "render_8.png"))
    workspace.succeed(render)
    before = workspace.path(model).read_bytes()
    for path in workspace.path("results").rglob("*"):
        day_later_ns = path.stat().st_mtime_ns + 86_400 * 10**9
        os.utime(path, ns=(day_later_ns, day_later_ns))
    workspace.settings["render"]["bit_depth"] = 16
    assert "changed in the future" in workspace.succeed(render)
    assert workspace.path(model).read_bytes() == before
    assert workspace.planned(render) == {}
