"""Comparison of results with the manifest: what counts as equal, within tolerance, or different."""

import json
import os
import shutil
import sys
from pathlib import Path

import comparison
import numpy as np
import pytest
import test_fit
import verify
from comparison import (
    DIFFERENT,
    EQUAL,
    MISSING,
    UNEXPECTED,
    WITHIN,
    Entry,
    compare,
    nearest_entry,
    read_manifest,
    write_entry,
)
from PIL import Image
from processes import output_of
from result_facts import MEASURED

from neuralfield.system.errors import InputError
from neuralfield.version import ENGINE_VERSION

CPU = {"device": "cpu", "engine": "tape float32", "numpy": "2.4", "blas": "openblas 0.3 Haswell"}
SHIPPED = Path(comparison.__file__).with_name("manifest")


def facts(content: str, **numbers):
    return {"sha256": content, "numbers": numbers}


def status_of(found, expected):
    (verdict,) = compare({"a file": found}, {"a file": expected})
    return verdict.status


CELLS = {"cell_means": [0.5, 0.5], "spread": 0.2}


@pytest.mark.parametrize(
    ("found", "expected", "status"),
    [
        ({"psnr_db": 38.4, "wrong_pixels": 30}, {"psnr_db": 38.0, "wrong_pixels": 0}, WITHIN),
        ({"psnr_db": 38.6, "wrong_pixels": 0}, {"psnr_db": 38.0, "wrong_pixels": 0}, DIFFERENT),
        ({"psnr_db": 38.0, "wrong_pixels": 60}, {"psnr_db": 38.0, "wrong_pixels": 0}, DIFFERENT),
        ({"steps": 100}, {"steps": 101}, DIFFERENT),
        ({"steps": 100}, {"steps": 100}, WITHIN),
        *(({"psnr_db": no}, {"psnr_db": 38.0}, DIFFERENT) for no in (None, float("nan"), "38")),
        ({"psnr_db": 38.0}, {"psnr_db": 38.0, "ssim": 1}, DIFFERENT),
        ({}, {}, DIFFERENT),
        (CELLS | {"cell_means": [0.5, 0.52]}, CELLS, WITHIN),
        (CELLS | {"cell_means": [0.5, 0.54]}, CELLS, DIFFERENT),
        (CELLS | {"cell_means": [0.5]}, CELLS, DIFFERENT),
    ],
)
def test_results_of_other_bytes_are_judged_by_their_numbers(found, expected, status):
    assert status_of(facts("abd", **found), facts("abc", **expected)) == status
    assert status_of(facts("abc", **found), facts("abc", **expected)) == EQUAL


def test_missing_and_unexpected_files_are_named():
    verdicts = compare({"new": facts("a")}, {"old": facts("b")})
    assert [(v.name, v.status) for v in verdicts] == [("new", UNEXPECTED), ("old", MISSING)]


def test_the_nearest_entry_is_of_the_same_device_first_and_engine_next():
    gpu = {"device": "NVIDIA H200", "engine": "cuda fused mixed", "numpy": "2.4"}
    kinds = [CPU, gpu, gpu | {"engine": "tape float32"}, CPU | {"blas": "openblas 0.3 SkylakeX"}]
    entries = [Entry(1, kind, {}) for kind in kinds]
    for entry in entries:
        assert nearest_entry(entries, entry.kind) is entry
    assert nearest_entry(entries, CPU | {"numpy": "9"}) is entries[0]
    assert nearest_entry(entries, gpu | {"cupy": "99"}) is entries[1]


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Make a folder like that of a finished run, and return it."""
    folder = tmp_path / "results"
    run = folder / "cub/siren"
    run.mkdir(parents=True)
    test_fit.train(test_fit.make_task(), run, stores_copies=True)
    Image.effect_noise((32, 32), 60).save(run / "render_32.png")
    numbers = dict.fromkeys(MEASURED, 1.0) | {"train_seconds": 12.3}
    (run / "metrics.json").write_text(json.dumps(numbers))
    (folder / "summary.csv").write_text("")
    return folder


@pytest.fixture
def manifest(results: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "manifest"
    write_entry(folder, verify.entry_of(results))
    return folder


def verdicts_by_name(results, manifest):
    return {v.name: v.status for v in verify.judge(results, manifest)[2]}


def test_seconds_do_not_count(results, manifest):
    history = results / "cub/siren/history.csv"
    header, first, *others = history.read_text().splitlines()
    step, _, *rest = first.split(",")
    history.write_text("\n".join([header, ",".join([step, "99.9", *rest]), *others]) + "\n")
    metrics = results / "cub/siren/metrics.json"
    metrics.write_text(json.dumps(json.loads(metrics.read_text()) | {"train_seconds": 99}))
    assert set(verdicts_by_name(results, manifest).values()) == {EQUAL}
    assert len(verdicts_by_name(results, manifest)) == 5
    assert read_manifest(manifest) == [verify.entry_of(results)]


def test_each_changed_result_is_found(results, manifest):
    run = results / "cub/siren"
    with Image.open(run / "render_32.png") as image:
        pixels = np.array(image)
    Image.fromarray(255 - pixels).save(run / "render_32.png")
    snapshots = sorted((run / "checkpoints").iterdir())
    snapshots[1].write_bytes(snapshots[2].read_bytes())
    (run / "history.csv").unlink()
    test_fit.train(test_fit.make_task({"width": 17}), results.parent / "other")
    shutil.copy(results.parent / "other/model.safetensors", run)
    assert verdicts_by_name(results, manifest) == {
        "cub/siren/checkpoints": WITHIN,
        "cub/siren/history.csv": MISSING,
        "cub/siren/metrics.json": EQUAL,
        "cub/siren/model.safetensors": DIFFERENT,
        "cub/siren/render_32.png": DIFFERENT,
    }


def test_the_exit_code_and_the_table_say_what_was_found(results, manifest, monkeypatch, capsys):
    command = ["verify.py", "--results", str(results), "--manifest", str(manifest)]
    monkeypatch.setattr(sys, "argv", command)
    assert verify.main() == 0
    assert "5 bytes equal" in capsys.readouterr().out
    image = results / "cub/siren/render_32.png"
    Image.new("L", (32, 32), 255).save(image)
    assert verify.main() == 1
    out = capsys.readouterr().out
    assert "render_32.png      different" in out
    assert "of the same kind: all bytes should be equal" in out


def test_what_cannot_be_compared_is_an_error(results, manifest, tmp_path, monkeypatch):
    monkeypatch.setattr(verify, "ENGINE_VERSION", ENGINE_VERSION + 1)
    with pytest.raises(InputError, match=r"engine version .*; expected .*; create one"):
        verify.judge(results, manifest)
    with pytest.raises(InputError, match=r"no entries"):
        verify.judge(results, tmp_path / "nothing")
    with pytest.raises(InputError, match=r"no summary\.csv"):
        verify.judge(tmp_path / "nothing", tmp_path)


def test_the_shipped_manifest_is_of_this_engine_version_and_compares_with_itself():
    entries = read_manifest(SHIPPED)
    assert entries
    for entry in entries:
        assert entry.engine_version == ENGINE_VERSION, "write the manifest anew"
        assert {v.status for v in compare(entry.files, entry.files)} == {EQUAL}
        networks = [name for name in entry.files if name.endswith("model.safetensors")]
        assert len(networks) == 4


KIND_AND_BYTES = """
import hashlib, sys
sys.path[:0] = sys.argv[1:]
import numpy as np
from machine_kind import kind_of_software
values = np.random.default_rng(0).standard_normal((300, 96)).astype(np.float32)
made = np.sin(values) @ np.exp(values).T
print(hashlib.sha256(made.tobytes()).hexdigest(), kind_of_software())
"""


@pytest.mark.slow
def test_machines_of_one_kind_make_the_same_bytes():
    """Kernels for other processors sum in another order; a machine's kind reflects this."""
    messages = set()
    for environment in (
        {},
        {"OPENBLAS_CORETYPE": "Haswell"},
        {"OPENBLAS_CORETYPE": "Nehalem"},
        {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR"},
    ):
        command = [sys.executable, "-W", "ignore", "-c", KIND_AND_BYTES, str(SHIPPED.parent)]
        written = output_of(command, env=os.environ | environment)
        messages.add(tuple(written.strip().split(" ", 1)))
    kinds = {kind for _, kind in messages}
    assert len(kinds) == len(messages), "one kind, and different bytes"
