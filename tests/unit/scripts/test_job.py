"""What a job says when files let it down."""

import errno
import logging
from pathlib import Path
from types import SimpleNamespace

import pytest
from small_disk import small_disk

from entry.job import run_job


def run(main, log: Path) -> int:
    snakemake = SimpleNamespace(
        rule="render", wildcards=["cub"], log=[str(log)], resources={}, config={}
    )
    try:
        run_job(main, snakemake)
    except SystemExit as left:
        return int(left.code or 0)
    return 0


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some, then run the same command again"),
        (errno.EACCES, "change the permissions"),
        (errno.EIO, "see what the system's log says"),
        (errno.ESTALE, "wait until it does"),
    ],
)
def test_a_failing_disk_is_one_line(tmp_path, capsys, number, remedy):
    def main():
        raise OSError(number, "whatever", "results/cub.png")

    assert run(main, tmp_path / "log") == 1
    line = capsys.readouterr().err
    assert line.count("\n") == 1 and line.startswith("render cub: results/cub.png: failed (")
    assert remedy in line and "mistake of the program" not in line


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, capsys):
    def main():
        logging.getLogger().info("a line")
        print("another")
        (tmp_path / "done").touch()

    with small_disk(tmp_path / "disk", 16) as disk:
        disk.fill()
        assert run(main, disk.folder / "log") == 0
        disk.set_writable(False)
        assert run(main, disk.folder / "folder" / "log") == 0
    assert (tmp_path / "done").exists()
    assert capsys.readouterr().err == ""
