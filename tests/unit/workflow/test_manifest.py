"""The manifest of results, and the differences that `make check` finds with it."""

import os
from pathlib import Path
from types import SimpleNamespace

import check
import pytest

from jobs import manifest
from jobs.manifest import NAME, write_manifest
from neuralfield.system.ledger import Entry, digests_of, write_ledger

RULES = {
    "tiny/resized.png": "resize",
    "tiny/siren/model.safetensors": "train",
    "tiny/siren/training.json": "train",
    "tiny/siren/checkpoints": "train",
    "tiny/siren/comparison": "evaluate",
    "tiny/siren/render_8.png": "render",
    "tables/slope/predictions.csv": "evaluate_table",
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
        path = self.results / name
        for file in [path / part for part in FOLDERS[name]] if name in FOLDERS else [path]:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{content} {file.name}")
            os.utime(file, (self.clock_s - 0.5, self.clock_s - 0.5))
        self.ended(name)

    def ended(self, name: str) -> None:
        path = self.results / name
        stamp = path / ".snakemake_timestamp" if name in FOLDERS else path
        stamp.touch()
        os.utime(stamp, (self.clock_s, self.clock_s))
        self.ended_at_s[str(path)] = self.clock_s

    def end(self, names=tuple(RULES), rules=RULES) -> None:
        """Write the manifest as at the end of a run with these outputs."""

        def rule(name):
            is_producer = str(self.results / name).__eq__
            return SimpleNamespace(name=rules[name], is_producer=is_producer)

        outputs = [(name, str(self.results / name)) for name in names]
        jobs = [SimpleNamespace(rule=rule(name), output=[path]) for name, path in outputs]
        times = SimpleNamespace(metadata=lambda f: SimpleNamespace(endtime=self.ended_at_s[f]))
        write_manifest(
            SimpleNamespace(
                dag=SimpleNamespace(jobs=jobs),
                dryrun=False,
                persistence=times,
                rules=[rule(name) for name in rules],
            ),
            self.results,
        )

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
    line, _ = capsys.readouterr().out.splitlines()
    output = FILES[name]
    assert line.startswith(f"{run.results / name}: has changed;")
    assert f"the rule {RULES[output]} made" in line
    removed = "it" if output == name else f"the folder {run.results / output}"
    assert line.endswith(f"; remove {removed}, and run the same command again")


@pytest.mark.parametrize("name", ["tiny/siren/render_8.png", "tiny/siren/comparison/redraw.png"])
def test_a_result_that_was_edited_is_found_after_another_run_too(run, name):
    flip_a_bit(run.results / name, keep_time=False)
    run.make("report.html", "another report")
    run.end()
    (line,) = run.findings()
    assert line.startswith(f"{run.results / name}: has changed;")


def test_what_jobs_have_made_anew_is_fine(run):
    (run.results / "tiny/siren/checkpoints/step_00000020.safetensors").unlink()
    for name in ("tiny/siren/checkpoints", "tiny/siren/model.safetensors"):
        run.make(name, "another training")
    assert len(run.findings()) == 3
    run.end()
    assert not run.findings()


def test_missing_files_are_named_with_their_rule(run):
    (run.results / "report.html").unlink()
    (run.results / "tiny/siren/comparison/redraw.png").unlink()
    for file in [*(run.results / "tiny/siren/checkpoints").iterdir()]:
        file.unlink()
    (run.results / "tiny/siren/checkpoints").rmdir()
    run.end()
    report, checkpoints, redraw = run.findings()
    assert "report.html: there is no such file" in report and "rule report made; run" in report
    assert "checkpoints: there is no such file" in checkpoints and "train made; run" in checkpoints
    assert redraw.endswith(
        f"; remove the folder {run.results}/tiny/siren/comparison, and run the same command again"
    )


def test_files_that_no_rule_made_are_named(run):
    for name in ("tiny/notes.txt", "tiny/siren/checkpoints/step_00000021.safetensors"):
        (run.results / name).write_text("whose?")
    assert [line.partition(";")[0] for line in run.findings()] == [
        f"{run.results}/tiny/notes.txt: not in the manifest",
        f"{run.results}/tiny/siren/checkpoints/step_00000021.safetensors: not in the manifest",
    ]


def test_a_run_that_makes_nothing_reads_no_result(run, monkeypatch):
    written = (run.results / NAME).stat().st_mtime_ns
    monkeypatch.setattr(manifest, "digests_of", lambda path: pytest.fail(f"read {path}"))
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
    run.end()
    assert "it is written again, from all results as they are now" in capsys.readouterr().err
    assert not run.findings()


def test_without_a_manifest_the_message_says_how_to_get_one(tmp_path, capsys):
    assert check.main(["--results", str(tmp_path)]) == 1
    assert "manifest.json: there is no such file; expected" in capsys.readouterr().err


def test_a_manifest_that_cannot_be_written_is_reported_and_fails_nothing(run, capsys):
    (run.results / NAME).unlink()
    (run.results / NAME).mkdir()
    run.end()
    assert "move away the folder in its place" in capsys.readouterr().err


def test_a_dry_run_writes_no_manifest(tmp_path):
    write_manifest(SimpleNamespace(dag=SimpleNamespace(jobs=[]), dryrun=True), tmp_path)
    assert not list(tmp_path.iterdir())


def test_files_of_tiles_are_found_with_their_list(run, monkeypatch):
    folder, name = run.results / "large/siren/tiles", "large/siren/tiles/0_0.json"
    (folder / "0_0").mkdir(parents=True)
    model = folder / "0_0/model.safetensors"
    model.write_text("network")
    write_ledger(folder / "0_0.json", {"0_0": Entry(digests_of(folder / "0_0"))})
    monkeypatch.setitem(RULES, name, "train_tiles_large_siren_0")
    run.ended(name)
    run.end([name])
    assert not run.findings()
    flip_a_bit(model)
    (line,) = run.findings()
    assert f"{model}: has changed;" in line and "; remove it, and run the same" in line
    model.unlink()
    run.end([])
    (line,) = run.findings()
    assert f"{model}: there is no such file;" in line
