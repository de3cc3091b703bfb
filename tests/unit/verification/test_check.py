"""The differences between results and the checksums of their jobs, which `make check` reports."""

import os
from pathlib import Path

import pytest
from check import check, main

from neuralfield.system.ledger import Entry, digests_of, write_ledger
from neuralfield.system.provenance import sha256_of

JOBS = {
    "tiny/resize": ["tiny/resized.png"],
    "tiny/siren/train": [
        "tiny/siren/model.safetensors",
        "tiny/siren/checkpoints/step_00000000.safetensors",
        "tiny/siren/checkpoints/step_00000020.safetensors",
    ],
    "tables/slope/evaluate_table": ["tables/slope/predictions.csv"],
}
FILES = [name for files in JOBS.values() for name in files]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Make results and the checksums of their jobs, and return their folder."""
    for number, (job, names) in enumerate(JOBS.items()):
        for name in names:
            (tmp_path / "results" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "results" / name).write_text(name)
        write_checksums(tmp_path, job, names, at_s=number)
    return tmp_path / "results"


def write_checksums(folder: Path, job: str, names: list[str], at_s: float) -> None:
    path = folder / f"logs/{job}.sha256"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [f"{sha256_of(folder / 'results' / name)}  results/{name}\n" for name in names]
    path.write_text("".join(lines))
    os.utime(path, (at_s, at_s))


def flip_a_bit(file: Path) -> None:
    content, times = bytearray(file.read_bytes()), file.stat()
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))


def test_results_as_they_were_made_are_fine(results, capsys):
    (results / "README.md").write_text("explains every file")
    (results / "tiny/siren/.state").mkdir()
    (results / "tiny/siren/.state/state_20.safetensors").write_text("a state")
    assert main(["--results", str(results)]) == 0
    assert f"All {len(FILES)} files are as they were made." in capsys.readouterr().out


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("spoil", "found"), [(flip_a_bit, "has changed"), (Path.unlink, "there is no such file")]
)
def test_damage_that_keeps_size_and_time_and_loss_are_found(results, name, spoil, found, capsys):
    spoil(results / name)
    assert main(["--results", str(results)]) == 1
    finding, _, _, command = capsys.readouterr().out.splitlines()
    assert finding.startswith(f"{results / name}: {found};")
    output = name.partition("/step_")[0]
    assert command.endswith(f" --forcerun results/{output} -- results/{output}")


def test_several_files_of_a_job_are_made_again_by_it_once(results):
    for name in FILES:
        flip_a_bit(results / name)
    assert len(check(results).findings) == len(FILES)
    assert len(check(results).to_make) == len(JOBS)


def test_the_job_that_made_a_file_last_counts(results):
    (results / "tiny/siren/model.safetensors").write_text("of other settings")
    write_checksums(results.parent, "batches/0123456789", JOBS["tiny/siren/train"], at_s=9)
    assert not check(results).findings
    write_checksums(results.parent, "tiny/siren/train", [], at_s=10)
    assert not check(results).findings


def test_a_folder_has_the_files_that_its_last_job_put_into_it(results):
    (results / "tiny/siren/checkpoints/step_00000020.safetensors").unlink()
    write_checksums(results.parent, "batches/0123456789", JOBS["tiny/siren/train"][:2], at_s=9)
    assert not check(results).findings


def test_a_file_that_no_job_has_made_is_named(results):
    (results / "tiny/notes.txt").touch()
    (finding,) = check(results).findings
    assert str(finding).startswith(f"{results / 'tiny/notes.txt'}: no job has listed it;")


def test_results_in_a_folder_of_a_module_are_named_with_it(results):
    list_ = results.parent / "logs/tiny/resize.sha256"
    list_.write_text(list_.read_text().replace("results/", "nested/results/"))
    (results / "tiny/resized.png").unlink()
    assert check(results).to_make == ["nested/results/tiny/resized.png"]


def test_without_checksums_the_message_says_how_to_get_them(tmp_path, capsys):
    assert main(["--results", str(tmp_path / "results")]) == 1
    assert "there are no checksums (*.sha256); expected" in capsys.readouterr().err


def test_files_of_tiles_are_found_with_their_list(results):
    folder = results / "large/siren/tiles"
    (folder / "0_0").mkdir(parents=True)
    model = folder / "0_0/model.safetensors"
    model.write_text("network")
    write_ledger(folder / "0_0.json", {"0_0": Entry(digests_of(folder / "0_0"))})
    write_checksums(results.parent, "large/siren/tiles_0", ["large/siren/tiles/0_0.json"], at_s=9)
    assert not check(results).findings
    flip_a_bit(model)
    checked = check(results)
    assert str(checked.findings[0]).startswith(f"{model}: has changed;")
    assert checked.to_make == ["results/large/siren/tiles/0_0.json"]
