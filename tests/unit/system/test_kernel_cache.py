"""Compiled kernels on disk: if damaged or not stored, they are compiled, and a run goes on."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import numba
import pytest
from failing_files import in_a_child
from numba.core import config as numba_config
from small_disk import small_disk

from neuralfield.system.compiled_kernels import KernelCache, cache_folders
from neuralfield.system.kernel_cache import KernelStore, import_cupy, private_folders

CODE = bytes(range(256)) * 40


def flipped(entry: bytes, place: int) -> bytes:
    return entry[:place] + bytes([entry[place] ^ 4]) + entry[place + 1 :]


DAMAGES = {
    "empty": lambda path: path.write_bytes(b""),
    "a bit in the code": lambda path: path.write_bytes(flipped(path.read_bytes(), -99)),
    "a bit in the checksum": lambda path: path.write_bytes(flipped(path.read_bytes(), 3)),
    "cut short": lambda path: path.write_bytes(path.read_bytes()[:-1]),
    "zeros": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "longer": lambda path: path.write_bytes(path.read_bytes() + b"\0"),
    "gone": lambda path: path.unlink(),
}
NO_FILES = {
    "a folder": lambda path: path.mkdir(),
    "a pipe": lambda path: os.mkfifo(path),
    "an endless file": lambda path: path.symlink_to("/dev/zero"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_an_entry_that_is_damaged_is_not_there_and_is_written_again(tmp_path, damage):
    store = KernelStore([tmp_path / "kernels"])
    store.save("kernel", CODE)
    assert store.load("kernel") == CODE
    DAMAGES[damage](tmp_path / "kernels/kernel")
    assert store.load("kernel") is None
    store.save("kernel", CODE)
    assert store.load("kernel") == CODE


@pytest.mark.parametrize("what", NO_FILES)
def test_what_is_no_file_is_not_read(tmp_path, what):
    store = KernelStore([tmp_path, tmp_path / "other"])
    NO_FILES[what](tmp_path / "kernel")
    assert store.load("kernel") is None
    store.save("kernel", CODE)
    assert store.load("kernel") == CODE


def test_an_entry_under_another_name_is_not_taken_for_it(tmp_path):
    store = KernelStore([tmp_path])
    store.save("one", CODE)
    (tmp_path / "one").rename(tmp_path / "two")
    assert store.load("two") is None


def test_entries_are_kept_where_there_is_room(tmp_path):
    with small_disk(tmp_path / "disk", 64) as disk:
        store = KernelStore([disk.folder, tmp_path / "other"])
        store.save("old", CODE)
        disk.fill()
        store.save("new", CODE)
        assert [path.name for path in (tmp_path / "other").iterdir()] == ["new"]
        disk.set_writable(False)
        store.save("newer", CODE)
        assert {name: store.load(name) for name in ("old", "new", "newer")} == dict.fromkeys(
            ("old", "new", "newer"), CODE
        )
        assert sorted(path.name for path in disk.folder.iterdir()) == ["ballast", "old"]


def test_nothing_has_to_be_kept(tmp_path):
    (tmp_path / "file").touch()
    for store in (KernelStore([]), KernelStore([tmp_path / "file/folder"])):
        store.save("kernel", CODE)
        assert store.load("kernel") is None


def test_without_permission_nothing_is_kept_and_nothing_fails(tmp_path):
    locked = tmp_path / "locked"
    KernelStore([locked]).save("kernel", CODE)
    (locked / "kernel").chmod(0)
    locked.chmod(0o555)

    def as_nobody():
        if os.geteuid() == 0:
            os.setuid(65534)
        store = KernelStore([locked])
        store.save("other", CODE)
        assert store.load("kernel") is None and store.load("other") is None

    assert in_a_child(as_nobody) == 0


def test_a_private_folder_is_the_user_s_alone(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    (folder,) = private_folders()
    assert private_folders() == [folder] and folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o777)
    assert not private_folders()
    folder.rename(tmp_path / "elsewhere")
    (tmp_path / "elsewhere").chmod(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    assert not private_folders()
    folder.unlink()
    folder.touch(0o600)
    assert not private_folders()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    assert not private_folders()


def test_folders_that_are_asked_for_come_first(tmp_path, monkeypatch):
    monkeypatch.setenv("NEURALFIELD_CACHE_DIR", str(tmp_path / "asked"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    asked, home, *_ = cache_folders("kernels")
    assert (asked.parent, home.parent) == (tmp_path / "asked", tmp_path / "home/neuralfield")
    monkeypatch.delenv("NEURALFIELD_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "~/.cache")  # as for a user without a home
    assert all(folder.is_absolute() for folder in cache_folders("kernels"))


def triple(x):
    return 3 * x


def compiled(store):
    """Return a small kernel as another process would load it, and whether it was found on disk."""
    kernel: Any = numba.njit(nogil=True)(triple)
    kernel._cache = KernelCache(triple, store)
    assert kernel(2.5) == 7.5
    return kernel, bool(kernel.stats.cache_hits)


def test_a_damaged_kernel_is_compiled_again(tmp_path):
    store = KernelStore([tmp_path])
    assert [compiled(store)[1] for _ in range(2)] == [False, True]
    (path,) = tmp_path.iterdir()
    for damage in DAMAGES.values():
        damage(path)
        assert [compiled(store)[1] for _ in range(2)] == [False, True]
    store.save(path.name, b"whole, and no kernel")
    assert [compiled(store)[1] for _ in range(2)] == [False, True]


def test_kernels_for_another_processor_or_compiled_in_another_way_have_other_names(monkeypatch):
    kernel, _ = compiled(KernelStore([]))
    (sig,) = kernel.nopython_signatures
    targets = [("x86_64", "znver3", "+avx2"), ("x86_64", "znver3", ""), ("x86_64", "nehalem", "")]
    machines = [SimpleNamespace(magic_tuple=lambda target=target: target) for target in targets]
    names = {kernel._cache.entry_name(sig.args, machine) for machine in machines}
    monkeypatch.setattr(numba_config, "OPT", 0)
    names.add(kernel._cache.entry_name(sig.args, machines[0]))
    assert len(names) == 4


CUPY = """
import os
folder = os.environ.get("CUPY_CACHE_DIR", "nowhere")
if not os.path.isdir(folder):
    os.makedirs(folder)  # as CuPy 14 does when it is imported
"""


@pytest.fixture
def cupy(tmp_path, monkeypatch):
    """Make a package that uses its cache folder as CuPy does; yield a function that imports it."""
    (tmp_path / "packages/cupy").mkdir(parents=True)
    (tmp_path / "packages/cupy/__init__.py").write_text(CUPY + "from cupy import cuda\n")
    (tmp_path / "packages/cupy/cuda.py").write_text(
        "import types\n"
        "compiler = types.SimpleNamespace()\n"
        "compiler._set_kernel_cache_backend = lambda given: setattr(compiler, 'backend', given)\n"
    )
    monkeypatch.syspath_prepend(tmp_path / "packages")
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def imported():
        for name in ("cupy", "cupy.cuda"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        return import_cupy()

    yield imported
    for name in ("cupy", "cupy.cuda"):
        sys.modules.pop(name, None)


def test_cupy_s_cache_is_checked_and_cannot_stop_a_run(tmp_path, cupy, monkeypatch):
    monkeypatch.setenv("CUPY_CACHE_DIR", str(tmp_path / "asked"))
    backend = cupy().cuda.compiler.backend
    backend.save("a.cubin", CODE, "source")
    path = tmp_path / "asked/neuralfield/a.cubin"
    path.write_bytes(flipped(path.read_bytes(), -99))
    assert backend.load("a.cubin") is None
    monkeypatch.setenv("CUPY_CACHE_DIR", "/proc/none")
    backend = cupy().cuda.compiler.backend
    backend.save("a.cubin", CODE, "source")
    assert backend.load("a.cubin") == CODE, "it has a private folder instead"
