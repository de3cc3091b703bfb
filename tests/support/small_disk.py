"""A small real file system for tests; needs root, and is skipped elsewhere."""

import contextlib
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class SmallDisk:
    """A tmpfs of a given size.

    Parameters
    ----------
    folder : Path
    kib : int
        Size in KiB; files occupy whole pages of 4 KiB.
    """

    def __init__(self, folder: Path, kib: int) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._mount("-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder))

    def resize(self, kib: int) -> None:
        """Change its size."""
        self._mount("-o", f"remount,size={kib}k", str(self.folder))

    def set_writable(self, writable: bool) -> None:
        """Remount it writable or read-only."""
        self._mount("-o", f"remount,{'rw' if writable else 'ro'}", str(self.folder))

    def fill(self, but_kib: int = 0) -> Path:
        """Fill it with a file until at most `but_kib` KiB are free, and return the file."""
        ballast = self.folder / "ballast"
        with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
            while file.write(b"\0" * 4096):
                pass
        with ballast.open("r+b") as file:
            file.truncate(max(0, ballast.stat().st_size - 1024 * but_kib))
        return ballast

    def unmount(self) -> None:
        """Unmount it, even if processes still use it."""
        subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    @staticmethod
    def _mount(*arguments: str) -> None:
        done = subprocess.run(["mount", *arguments], capture_output=True, text=True, check=False)
        if done.returncode:
            raise PermissionError(done.stderr.strip())


@contextlib.contextmanager
def small_disk(folder: Path, kib: int) -> Iterator[SmallDisk]:
    """Mount a `SmallDisk` for a while; skip the test if it cannot be mounted."""
    try:
        disk = SmallDisk(folder, kib)
    except (PermissionError, FileNotFoundError) as error:
        pytest.skip(f"cannot mount a tmpfs here: {error}")
    try:
        yield disk
    finally:
        disk.unmount()
