"""CPU kernels, which Numba compiles when they are first needed, and which are cached on disk.

All functions of the engine for CPUs that are compiled are in this package.
"""

from pathlib import Path

from neuralfield.coding import context
from neuralfield.engines import kernel_plan
from neuralfield.system.compiled_kernels import compiler_of

entry_point = compiler_of(
    "cpu_kernels",
    [*Path(__file__).parent.glob("*.py"), Path(context.__file__)],
    (kernel_plan.ENCODINGS, kernel_plan.ACTIVATIONS, kernel_plan.OUTPUTS, kernel_plan.LOSSES),
)
"""Compiles a function that Python calls, for each set of argument types."""
