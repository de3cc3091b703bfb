"""Trainings of another process that pause before a step, until tests have done something to it."""

import sys
from typing import Any

from neuralfield.engines.cpu.cpu_engine import CpuEngine
from neuralfield.engines.tape import TapeEngine


def pause_before(step: int) -> None:
    """Make this process print a line before a step, and read one before it goes on."""
    paused = []
    engine: Any
    for engine in (CpuEngine, TapeEngine):

        def run(self, first_step, count, take_steps=engine.run):
            if first_step >= step and not paused:
                paused.append(first_step)
                print("paused", flush=True)
                sys.stdin.readline()
            return take_steps(self, first_step, count)

        engine.run, engine.most_steps = run, 1
