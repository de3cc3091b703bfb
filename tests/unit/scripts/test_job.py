"""Jobs get the arguments that their rules declare, and report failing files in one line."""

import contextlib
import errno
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from processes import output_of
from small_disk import small_disk

from entry.job import run_job
from neuralfield.system.errors import NeuralfieldError


class Named(dict):
    """Values by name, as Snakemake passes them to scripts: iteration yields the values."""

    def __iter__(self):
        return iter(self.values())

    def __getattr__(self, name):
        return self[name]


def run(main, log: Path, others=None, **files) -> int:
    job = SimpleNamespace(
        rule="render",
        wildcards=Named(image="cub"),
        params=Named(size=24, version="engine 1"),
        input=Named(),
        output=Named(files),
        log=[str(log)],
        resources={},
        config={},
        threads=2,
    )
    root = logging.getLogger()
    before = list(root.handlers)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules["__main__"], "snakemake", job, raising=False)
        try:
            run_job(main, others)
        except SystemExit as left:
            return int(left.code or 0)
        finally:
            for handler in set(root.handlers) - set(before):
                root.removeHandler(handler)
                with contextlib.suppress(OSError):
                    handler.close()
    return 0


def test_arguments_are_what_the_rule_has_under_the_same_names(tmp_path):
    found = {}

    def main(image, render, tiles, *, size, threads, field="siren", label=True):
        found.update(locals())

    files = {"render": "render.png", "tiles": ["a.json", "b.json"]}
    assert run(main, tmp_path / "log", lambda job: {"label": job.params.version}, **files) == 0
    del found["found"]
    assert found == {
        **{"image": "cub", "render": Path("render.png"), "size": 24, "threads": 2},
        **{"tiles": [Path("a.json"), Path("b.json")], "field": "siren", "label": "engine 1"},
    }


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "free some space, then run the same command again"),
        (errno.EACCES, "change the permissions"),
        (errno.EIO, "check the system log"),
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


def test_a_line_is_one_write(tmp_path, monkeypatch):
    """Otherwise lines that several jobs print at the same time would be mixed up."""
    writes = []
    terminal = SimpleNamespace(write=writes.append, flush=lambda: None, isatty=lambda: False)
    monkeypatch.setattr(sys, "stderr", terminal)

    def main():
        raise NeuralfieldError("cub.png", "found nothing", "an image")

    assert run(main, tmp_path / "log") == 1
    assert writes == ["render cub: cub.png: found nothing; expected an image\n"]


def test_a_log_that_cannot_be_written_stops_nothing(tmp_path, capsys):
    def main():
        logging.getLogger().info("a line")
        (tmp_path / "done").touch()

    with small_disk(tmp_path / "disk", 16) as disk:
        disk.fill()
        assert run(main, disk.folder / "log") == 0
        disk.set_writable(False)
        assert run(main, disk.folder / "folder" / "log") == 0
    assert (tmp_path / "done").exists()
    assert capsys.readouterr().err == ""


def test_checksums_of_all_outputs_are_beside_the_log(tmp_path):
    def main(image, render, folder):
        folder.mkdir()
        for path in (render, folder / "a", folder / "b", folder / ".hidden"):
            path.write_text(path.name)

    files = {"render": f"{tmp_path}/render.png", "folder": f"{tmp_path}/folder"}
    assert run(main, tmp_path / "render.log", **files) == 0
    listed = (tmp_path / "render.sha256").read_text()
    assert [Path(line.split("  ")[1]).name for line in listed.splitlines()] == [
        "render.png",
        "a",
        "b",
    ]
    output_of(["sha256sum", "--check", "--quiet", tmp_path / "render.sha256"])
