"""The manifest of results, and the differences that `make check` finds with it."""

import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import check
import pytest

from jobs import results_manifest
from jobs.results_manifest import NAME, Made, keep_manifest, update_manifest
from neuralfield.tasks.image.tile_files import digests_of, write_list

RULES = {
    "tiny/resized.png": "resize",
    "tiny/picture.json": "resize",
    "tiny/pixels.csv": "encode",
    "tiny/siren/model.safetensors": "train",
    "tiny/siren/history.csv": "train",
    "tiny/siren/training.json": "train",
    "tiny/siren/checkpoints": "train",
    "tiny/siren/metrics.json": "evaluate",
    "tiny/siren/comparison": "evaluate",
    "tiny/siren/render_8.png": "render",
    "tiny/siren/timelapse.mp4": "timelapse",
    "tables/slope/predictions.csv": "evaluate_table",
    "summary.csv": "summarize",
    "report.html": "report",
}
FOLDERS = {
    "tiny/siren/checkpoints": ("step_00000000.safetensors", "step_00000020.safetensors"),
    "tiny/siren/comparison": ("source.png", "redraw.png"),
}
FILES = {
    file: name
    for name in RULES
    for file in ([f"{name}/{part}" for part in FOLDERS[name]] if name in FOLDERS else [name])
}
"""The output to which each file belongs."""


class FinishedRun:
    """Finished results, and the times at which each was made according to Snakemake."""

    def __init__(self, results: Path) -> None:
        self.results = results
        self.ended_at_s: dict[str, float] = {}
        self.clock_s = 1_000_000.0
        for name in RULES:
            self.make(name, content=name)

    def make(self, name: str, content: str) -> None:
        """Write an output as a job does, and set its time as Snakemake does."""
        self.clock_s += 1
        place = self.results / name
        for file in [place / part for part in FOLDERS[name]] if name in FOLDERS else [place]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{content} {file.name}")
            os.utime(file, (self.clock_s - 0.5, self.clock_s - 0.5))
        stamp = place / ".snakemake_timestamp" if name in FOLDERS else place
        stamp.touch()
        os.utime(stamp, (self.clock_s, self.clock_s))
        self.ended_at_s[name] = self.clock_s

    def end(self, names=tuple(RULES), rules=RULES) -> None:
        """Update the manifest as at the end of a run with these outputs."""
        made = [Made(name, RULES[name], self.ended_at_s[name].__eq__) for name in names]
        update_manifest(self.results, made, rules.__contains__)

    def findings(self) -> list[str]:
        return [str(error) for error in check.check(self.results)[1]]


@pytest.fixture
def run(tmp_path) -> FinishedRun:
    run = FinishedRun(tmp_path / "results")
    run.end()
    return run


def flip_a_bit(file: Path, *, keep_time: bool = True) -> None:
    content, times = bytearray(file.read_bytes()), file.stat()
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    if keep_time:
        os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_results_as_they_were_made_are_fine(run, capsys):
    (run.results / "README.md").write_text("explains every file")
    (run.results / "tiny/siren/.state").mkdir()
    (run.results / "tiny/siren/.state/state_20.safetensors").write_text("a state")
    assert check.main(["--results", str(run.results)]) == 0
    assert f"All {len(FILES)} files agree with the manifest." in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
def test_damage_that_keeps_size_and_time_is_found(run, name, capsys):
    flip_a_bit(run.results / name)
    assert check.main(["--results", str(run.results)]) == 1
    line, summary = capsys.readouterr().out.splitlines()
    output = FILES[name]
    assert line.startswith(
        f"{run.results / name}: has changed, but has the same modification time;"
    )
    assert f"expected the file that the rule {RULES[output]} made (SHA-256 " in line
    removed = "it" if output == name else f"the folder {run.results / output}"
    assert line.endswith(f"; remove {removed}, and run the same command again")
    assert summary == f"1 of {len(FILES)} files differ from the manifest."


@pytest.mark.parametrize("name", ["tiny/siren/render_8.png", "tiny/siren/comparison/redraw.png"])
def test_a_result_that_was_edited_is_found_after_another_run_too(run, name):
    flip_a_bit(run.results / name, keep_time=False)
    run.make("report.html", "another report")
    run.end()
    (line,) = run.findings()
    assert line.startswith(f"{run.results / name}: has changed, with a new modification time;")


def test_what_jobs_have_made_anew_is_fine(run):
    (run.results / "tiny/siren/checkpoints/step_00000020.safetensors").unlink()
    for name in ("tiny/siren/checkpoints", "tiny/siren/model.safetensors"):
        run.make(name, "another training")
    assert len(run.findings()) == 3
    run.end()
    assert not run.findings()


def test_missing_files_are_named_with_their_rule(run):
    (run.results / "summary.csv").unlink()
    (run.results / "tiny/siren/comparison/redraw.png").unlink()
    for file in [*(run.results / "tiny/siren/checkpoints").iterdir()]:
        file.unlink()
    (run.results / "tiny/siren/checkpoints").rmdir()
    run.end()
    summary, checkpoints, redraw = run.findings()
    assert (
        "there is no such file; expected the file that the rule summarize made; run the same"
        in summary
    )
    assert (
        "checkpoints: there is no such file; expected the file that the rule train made; run"
        in checkpoints
    )
    assert re.search(
        r"redraw.png: there is no .*; remove the folder .*siren/comparison, and", redraw
    )


def test_files_that_no_rule_made_are_named(run):
    (run.results / "tiny/notes.txt").write_text("mine")
    (run.results / "tiny/siren/checkpoints/step_00000021.safetensors").write_text("whose?")
    notes, step = run.findings()
    assert (
        "notes.txt: not in the manifest; expected only files that rules have made; run the" in notes
    )
    assert "expected only files that the rule train made in" in step and step.endswith(
        "; remove it"
    )


def test_a_run_that_makes_nothing_reads_no_result(run, monkeypatch):
    written = (run.results / NAME).stat().st_mtime_ns
    monkeypatch.setattr(results_manifest, "sha256_of", lambda path: pytest.fail(f"read {path}"))
    run.end()
    assert (run.results / NAME).stat().st_mtime_ns == written


def test_results_of_other_commands_stay_in_the_manifest(run):
    run.end([name for name in RULES if not name.startswith("tables")])
    flip_a_bit(run.results / "tables/slope/predictions.csv")
    (line,) = run.findings()
    assert "evaluate_table" in line


def test_what_is_gone_and_no_rule_makes_any_more_is_forgotten(run):
    (run.results / "tiny/siren/render_8.png").unlink()
    others = {name: rule for name, rule in RULES.items() if rule != "render"}
    run.end(others, rules=others)
    assert not run.findings()


def test_a_damaged_manifest_is_named_and_no_innocent_file(run, capsys):
    flip_a_bit(run.results / NAME)
    assert check.main(["--results", str(run.results)]) == 1
    messages = capsys.readouterr().err
    assert messages.startswith(f"{run.results / NAME}: is damaged") and messages.count("\n") == 1
    with pytest.raises(Exception, match=r"manifest.json: is damaged .* it is written again"):
        run.end()
    assert not run.findings()


def test_without_a_manifest_the_message_says_how_to_get_one(tmp_path, capsys):
    assert check.main(["--results", str(tmp_path)]) == 1
    assert "manifest.json: there is no such file; expected" in capsys.readouterr().err


def test_a_manifest_that_cannot_be_written_is_reported_and_fails_nothing(tmp_path, capsys):
    (tmp_path / NAME).mkdir()
    dag = SimpleNamespace(jobs=[])
    keep_manifest(SimpleNamespace(dag=dag, dryrun=False, rules=[]), {}, tmp_path)
    messages = capsys.readouterr().err
    assert (
        messages.startswith("The manifest of results is not up to date.")
        and messages.count("\n") == 1
    )
    assert "move away the folder in its place" in messages


def test_a_dry_run_writes_no_manifest(tmp_path):
    keep_manifest(SimpleNamespace(dag=SimpleNamespace(jobs=[]), dryrun=True), {}, tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.fixture
def tiles(tmp_path) -> SimpleNamespace:
    """Return the results of tiles after a run, with the workflow and the jobs that made them."""
    folder = tmp_path / "large/siren/tiles"
    (folder / "0_0").mkdir(parents=True)
    (folder / "0_0/model.safetensors").write_text("network")
    write_list(folder / "0_0.json", {"0_0": digests_of(folder / "0_0", ["model.safetensors"])})
    os.utime(folder / "0_0/model.safetensors", (1e6, 1e6))
    os.utime(folder / "0_0.json", (2e6, 2e6))
    rule = SimpleNamespace(name="train_tiles_large_siren_0", is_producer=lambda path: False)
    job = SimpleNamespace(rule=rule, output=[str(folder / "0_0.json")])
    persistence = SimpleNamespace(metadata=lambda file: SimpleNamespace(endtime=2e6))
    workflow = SimpleNamespace(
        dag=SimpleNamespace(jobs=[job]), dryrun=False, rules=[rule], persistence=persistence
    )
    on_tiles = SimpleNamespace(run=SimpleNamespace(image="large", field="siren"))
    jobs: dict[str, Any] = {rule.name: on_tiles}
    keep_manifest(workflow, jobs, tmp_path)
    return SimpleNamespace(workflow=workflow, jobs=jobs, model=folder / "0_0/model.safetensors")


def test_files_of_tiles_are_in_the_manifest(tiles, tmp_path):
    assert check.check(tmp_path) == (2, [])
    flip_a_bit(tiles.model)
    os.utime(tiles.model, (1e6, 1e6))
    for _ in range(2):
        ((line,),) = [check.check(tmp_path)[1]]
        assert f"{tiles.model}: has changed, but has the same modification time" in str(line)
        assert "remove it, and run the same command again" in str(line)
        keep_manifest(tiles.workflow, tiles.jobs, tmp_path)


def test_a_lost_file_of_a_tile_is_found_after_other_commands_too(tiles, tmp_path):
    tiles.model.unlink()
    tiles.workflow.dag.jobs = []
    keep_manifest(tiles.workflow, tiles.jobs, tmp_path)
    (line,) = check.check(tmp_path)[1]
    assert f"{tiles.model}: there is no such file" in str(line)


def test_a_file_that_a_tile_does_not_leave_any_more_is_forgotten(tiles, tmp_path):
    folder = tiles.model.parent
    tiles.model.rename(folder / "another.safetensors")
    names = ["another.safetensors"]
    write_list(folder.with_suffix(".json"), {"0_0": digests_of(folder, names)})
    os.utime(folder.with_suffix(".json"), (2e6, 2e6))
    keep_manifest(tiles.workflow, tiles.jobs, tmp_path)
    findings = check.check(tmp_path)[1]
    assert not [line for line in findings if "model.safetensors" in str(line)]
