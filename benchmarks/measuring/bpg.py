"""BPG files as libbpg writes them: HEVC's coding of single images, by x265, with 4:4:4 colour."""

import shutil
import subprocess
import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

PROGRAMS = ("bpgenc", "bpgdec")


class Bpg:
    """The codec, used like those of `neuralfield.images.codecs`; needs the programs of libbpg."""

    qualities = (40, 36, 32, 28, 24, 20, 16)  # quantisation parameters, for few bits first

    @property
    def is_available(self) -> bool:
        return all(shutil.which(program) for program in PROGRAMS)

    def encode(self, image: Image.Image, quality: int) -> bytes:
        """Return the content of a file, with the encoder's usual effort, level 8."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "image.png"), Path(folder, "image.bpg")
            image.save(source)
            _run("bpgenc", "-f", "444", "-q", str(quality), "-o", target, source)
            return target.read_bytes()

    def decode(self, content: bytes, mode: str) -> np.ndarray:
        """Return the levels of a file in a mode of Pillow."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "image.bpg"), Path(folder, "image.png")
            source.write_bytes(content)
            _run("bpgdec", "-o", target, source)
            with Image.open(target) as file:
                return np.asarray(file.convert(mode))


def _run(*command: str | Path) -> None:
    subprocess.run(command, check=True, capture_output=True)
