"""A process that takes one training step and prints when it was finished, for part `start`.

The time is that of the machine's monotonic clock, which all its processes share.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

from measuring.measure import synchronize_all_streams
from measuring.ours import TrainingSteps
from measuring.rows import STEPS
from neuralfield.system.device import select_device

_ROW = STEPS[1]


def main(device_kind: str, engine: str, precision: str, *, quick: bool) -> None:
    """Take a step of a siren on a 200x200 picture, tiny where it is to be quick."""
    device = select_device(device_kind)
    row = _ROW.reduced() if quick else _ROW
    steps = TrainingSteps(row.task(precision), device, engine)
    steps(1)
    synchronize_all_streams(device)
    print(time.monotonic())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "gpu"))
    parser.add_argument("engine")
    parser.add_argument("precision")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    main(arguments.device, arguments.engine, arguments.precision, quick=arguments.quick)
