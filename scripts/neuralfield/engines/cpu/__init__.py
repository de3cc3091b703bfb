"""The engine for CPUs, and its kernels."""

import importlib.util

from neuralfield.engines.kernel_plan import NotCovered


def require_numba() -> None:
    """Raise `NotCovered` if Numba is not installed, which compiles the kernels."""
    if importlib.util.find_spec("numba") is None:
        raise NotCovered("the kernels for processors need Numba, which is not installed")
