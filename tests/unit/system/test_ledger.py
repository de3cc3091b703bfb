import os

import pytest

from neuralfield.system.errors import InputError
from neuralfield.system.ledger import (
    Entry,
    differences,
    digests_of,
    read_ledger,
    write_ledger,
)
from neuralfield.system.provenance import json_digest

NAMES = ("model.safetensors", "checkpoints")


@pytest.fixture
def result(tmp_path):
    """Return the folder of a result with two files, and its entry."""
    folder = tmp_path / "0_0"
    (folder / "checkpoints").mkdir(parents=True)
    for name in ("model.safetensors", "checkpoints/step_1.safetensors"):
        (folder / name).write_text(name)
        os.utime(folder / name, (1e9, 1e9))
    (folder / "checkpoints/.snakemake_timestamp").touch()
    return folder, Entry(digests_of(folder, NAMES), made_from="settings", rule="train")


def test_a_ledger_is_read_as_it_was_written(result, tmp_path):
    folder, entry = result
    one = Entry(digests_of(folder / "model.safetensors"), made_at_s=1.5)
    assert len(entry.files) == 2 and list(one.files) == ["."]
    write_ledger(tmp_path / "ledger.json", {"0_0": entry, "0_0/model.safetensors": one})
    read = read_ledger(tmp_path / "ledger.json")
    assert read == {"0_0": entry, "0_0/model.safetensors": one}
    assert not [*differences(folder, entry), *differences(folder / "model.safetensors", one)]


def test_lost_and_changed_files_are_named(result):
    folder, entry = result
    lost, changed = folder / "checkpoints/step_1.safetensors", folder / "model.safetensors"
    lost.unlink()
    changed.write_text("another")
    os.utime(changed, (4e9, 4e9))
    expected = {(lost, "there is no such file"), (changed, "has changed")}
    assert set(differences(folder, entry)) == expected
    assert set(differences(folder, entry, since_ns=int(3e18))) == expected
    assert len(list(differences(folder, entry, since_ns=int(5e18)))) == 1


@pytest.mark.parametrize(
    "entries",
    [
        *([], 5, {"0_0": 5}, {"0_0": {}}, {"0_0": {"files": {"model": "0"}}}),
        *({"../up": {"files": {}}}, {"0_0": {"files": {"../up": "0" * 64}}}),
        *({"0_0": {"files": {"/up": "0" * 64}}}, {"0_0": {"files": {"model": ["0" * 64]}}}),
    ],
)
def test_a_ledger_of_other_content_is_refused(tmp_path, entries):
    path, text = tmp_path / "ledger.json", '{"format": 2, "sha256": "%s", "entries": %s}'
    path.write_text(text % (json_digest(entries), str(entries).replace("'", '"')))
    with pytest.raises(InputError, match="remove it and run the same command again"):
        read_ledger(path)


@pytest.mark.parametrize("damage", [b"", b"[]", b"\xff{", b"flipped"])
def test_a_damaged_ledger_is_refused(result, tmp_path, damage):
    path = tmp_path / "ledger.json"
    write_ledger(path, {"0_0": result[1]})
    content = path.read_bytes()
    path.write_bytes(content.replace(b"0_0", b"0_1") if damage == b"flipped" else damage)
    with pytest.raises(InputError, match=r"ledger.json: is damaged"):
        read_ledger(path)
