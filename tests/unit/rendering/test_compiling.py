import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).parents[3] / "scripts"

TRAINING = """
import json
import os
import sys
from pathlib import Path

import numpy as np

from neuralfield.fields import field_settings
from neuralfield.rendering.compiling import compile_ahead
from neuralfield.rendering.publishing import publishing
from neuralfield.system.device import select_device
from neuralfield.system.kernel_cache import KernelStore
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining
from neuralfield.training.fit import fit
from neuralfield.training.loop import Execution
from neuralfield.training.results import outputs_in

folder, device = Path(sys.argv[1]), select_device("cpu")
settings = {
    "steps": 2, "batch_pixels": 64, "detail_share": 0.0, "supervision": "footprint",
    "footprint_points": 3, "residual": True, "residual_scale": 4, "optimizer": "muon",
}
field = field_settings({"type": "siren", "width": 16, "hidden_layers": 2})
values = np.random.default_rng(1).random((30, 40, 3), dtype=np.float32)
task = ImageTask(values, "rgb", field, ImageTraining.from_mapping(settings))


def show_kernels():
    print(json.dumps([path.name.split("-")[0] for path in folder.glob("cpu_kernels_*/*-*")]))


with compile_ahead(task, device):
    KernelStore([folder]).claim("anything that is compiled")
    os.waitpid(-1, 0)
show_kernels()
run = Execution(device, folder / "state", "cpu", 1, 10, print, print)
outputs = outputs_in(folder)
fit(task, run, publishing(outputs, run), outputs=outputs)
show_kernels()
"""


@pytest.mark.slow
def test_another_process_compiles_all_kernels_but_those_of_the_pass(tmp_path):
    places = dict.fromkeys(("NEURALFIELD_CACHE_DIR", "XDG_CACHE_HOME", "TMPDIR"), str(tmp_path))
    environment = os.environ | places | {"PYTHONPATH": str(SCRIPTS)}
    command = [sys.executable, "-c", TRAINING, str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    before, after = [json.loads(line) for line in done.stdout.splitlines() if line[0] == "["]
    assert set(after) - set(before) == {"train_blocks"}
    assert len(after) == len(before) + 1
