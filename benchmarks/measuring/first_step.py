"""A process that takes one training step and prints the time of its end, for part `start`.

The time is that of the machine's monotonic clock, which is the same for all processes.
"""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from measuring.measure import synchronize_all_streams
from measuring.ours import TrainingSteps
from measuring.rows import STEPS
from neuralfield.system.device import select_device

_ROW = STEPS[1]


def main(arguments: argparse.Namespace) -> None:
    """Take a step of a siren on an image of 200x200, or on a tiny one with `--quick`."""
    device = select_device(arguments.device)
    row = _ROW.reduced() if arguments.quick else _ROW
    steps = TrainingSteps(row.task(arguments.precision), device, arguments.engine)
    steps(1)
    synchronize_all_streams(device)
    print(time.monotonic())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("device", choices=("cpu", "gpu"))
    parser.add_argument("engine", help="tape, cpu or cuda")
    parser.add_argument("precision", help="mixed or float32")
    parser.add_argument("--quick", action="store_true", help="take the step of a tiny network")
    main(parser.parse_args())
