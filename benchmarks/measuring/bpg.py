"""BPG files as libbpg writes them: HEVC's coding of single images, by x265, with 4:4:4 colour."""

import io
import shutil
import subprocess
import tempfile
from pathlib import Path

from PIL import Image

QUALITIES = (40, 36, 32, 28, 24, 20, 16)
"""Quantisation parameters, for few bits first."""

PROGRAMS = ("bpgenc", "bpgdec")


def is_available() -> bool:
    """Return whether the programs of libbpg are on the search path."""
    return all(shutil.which(program) for program in PROGRAMS)


def encode(image: Image.Image, quality: int) -> bytes:
    """Return the content of a BPG file with the usual effort of the encoder, level 8."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder, "image.png"), Path(folder, "image.bpg")
        image.save(source)
        _run("bpgenc", "-f", "444", "-q", str(quality), "-o", target, source)
        return target.read_bytes()


def decode(path: Path) -> Image.Image:
    """Return the image of a BPG file."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "image.png")
        _run("bpgdec", "-o", target, path)
        return Image.open(io.BytesIO(target.read_bytes()))


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)
