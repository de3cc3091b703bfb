import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from processes import output_of

ROOT = Path(__file__).parents[3]
FIT = "from neuralfield.command.main import main; main()"


@pytest.mark.slow
def test_no_code_in_the_current_folder_is_executed(tmp_path):
    pixels = np.random.default_rng(1).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "photo.png")
    for name in ("numpy", "neuralfield", "numba"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w').close()")
    empty = dict.fromkeys(("NEURALFIELD_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"), str(tmp_path))
    environment = os.environ | empty | {"PYTHONPATH": str(ROOT / "scripts")}
    command = [sys.executable, "-P", "-c", FIT, "fit", "photo.png", "--preset", "quality"]
    command += ["--steps", "2", "--device", "cpu"]
    output_of(command, cwd=tmp_path, env=environment)
    assert list(tmp_path.glob("cpu_kernels_*/*"))
    assert not (tmp_path / "executed").exists()


def test_every_python_is_started_without_the_current_folder_in_its_path():
    folders = [ROOT / name for name in ("scripts", "workflow", "verification")]
    sources = [path for folder in folders for path in folder.rglob("*.py")]
    started = [
        (path.name, arguments)
        for path in sources
        for arguments in re.findall(r"\[sys\.executable, (\S+)", path.read_text(encoding="utf-8"))
    ]
    assert {arguments for _, arguments in started} == {'"-P",'}
