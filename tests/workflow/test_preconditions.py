"""Folders that are not writable, and a low limit of open files, are reported before jobs run."""

import os
import resource
import time

import pytest
from failing_files import in_a_child, let_others_enter
from processes import output_of
from small_disk import small_disk
from workspace import ROOT

from jobs.preconditions import (
    correct_future_times,
    require_open_files,
    require_own_folder,
    require_writable,
)
from neuralfield.system.errors import ResourceError, StorageError


@pytest.fixture
def own(tmp_path):
    """Return an existing folder of Snakemake's own."""
    require_own_folder(tmp_path / "own")
    return tmp_path / "own"


def test_a_folder_is_made_and_left_empty(own):
    require_own_folder(own)
    assert not list(own.iterdir())


def test_a_folder_that_is_full_or_read_only_is_named(own):
    with small_disk(own, 64) as disk:
        ballast = disk.fill()
        with pytest.raises(StorageError, match=r"own: cannot be written to \(No space left.*again"):
            require_own_folder(own)
        ballast.unlink()
        require_own_folder(own)
        disk.set_writable(False)
        with pytest.raises(StorageError, match=r"own: cannot be written to \(Read-only.*again"):
            require_own_folder(own)


def test_a_file_in_place_of_the_folder_is_named(tmp_path):
    (tmp_path / "own").touch()
    with pytest.raises(StorageError, match="own: cannot be written to"):
        require_own_folder(tmp_path / "own")


def test_times_in_the_future_are_set_to_now_in_their_order(tmp_path):
    now_s, lines = time.time(), []
    ages_s = {
        "past": -100,
        "input": 80_000,
        "output": 80_001,
        "folder/a": 90_000,
        "folder/b": 90_000,
    }
    for name, age_s in ages_s.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.touch()
        os.utime(path, (now_s + age_s, now_s + age_s))
    correct_future_times([tmp_path, tmp_path / "missing"], lines.append)
    past, first, output, a, b = ((tmp_path / name).stat().st_mtime for name in ages_s)
    assert past == pytest.approx(now_s - 100) and past < first < output < a == b <= time.time()
    assert len(lines) == 1 and "and 3 other files: changed in the future" in lines[0]
    correct_future_times([tmp_path], lines.append)
    assert len(lines) == 1


def test_results_that_could_not_be_written_are_named_by_their_folder(tmp_path):
    results = tmp_path / "results"
    results.mkdir()
    wanted = [results / "tiny/siren/model.safetensors", results / "tiny/siren/checkpoints"]
    require_writable(wanted)
    with small_disk(results / "tiny", 64) as disk:
        (results / "tiny/siren/checkpoints").mkdir(parents=True)
        disk.set_writable(False)
        with pytest.raises(StorageError, match=r"results/tiny/siren: cannot .*\(Read-only file"):
            require_writable(wanted)
        require_writable([results / "other/pixels.csv"])
    (results / "tiny").rmdir()
    (results / "tiny").touch()
    with pytest.raises(
        StorageError, match=r"results/tiny: .*\(Not a directory.*move away the file"
    ):
        require_writable(wanted)


def test_results_without_permission_are_named(tmp_path):
    let_others_enter(tmp_path)
    results = tmp_path / "results"
    results.mkdir(mode=0o555)

    def as_nobody():
        if os.geteuid() == 0:
            os.setuid(65534)
        with pytest.raises(StorageError, match=r"results: .*\(Permission denied.*permissions"):
            require_writable([results / "tiny/pixels.csv"])

    assert in_a_child(as_nobody) == 0


@pytest.mark.parametrize(("soft", "hard", "after"), [(32, 512, 512), (80, 4096, 1024)])
def test_the_limit_of_open_files_is_raised_where_it_may_be(soft, hard, after):
    def with_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        require_open_files()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (after, hard)

    assert in_a_child(with_limit) == 0


def test_too_few_open_files_are_named():
    def with_limit():
        resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
        with pytest.raises(ResourceError, match=r"at most 32 open files.*ulimit -n 1024"):
            require_open_files()

    assert in_a_child(with_limit) == 0


def test_make_takes_another_cache_folder_where_the_user_s_takes_no_files(tmp_path):
    def folder(home):
        environment = {name: os.environ[name] for name in ("PATH",)} | {"HOME": str(home)}
        command = ["make", "--eval", "show: ; @echo $$XDG_CACHE_HOME", "show"]
        return output_of(command, cwd=ROOT, env=environment).strip()

    assert folder(tmp_path / "a home") == str(tmp_path / "a home/.cache")
    with small_disk(tmp_path / "disk", 32) as disk:
        disk.fill(but_kib=8)
        assert folder(disk.folder) == str(ROOT / ".snakemake/cache")
        disk.set_writable(False)
        assert folder(disk.folder) == str(ROOT / ".snakemake/cache")
