"""A GPU without memory is reported in words; other errors of the GPU are left."""

from types import SimpleNamespace
from typing import Any

import pytest

from neuralfield.engines.cuda.recorded_engine import memory_in_words
from neuralfield.system.device import Device
from neuralfield.system.errors import ResourceError


class OutOfMemoryError(Exception):
    """A stand-in for the error that CuPy raises."""


class CudaError(Exception):
    """A stand-in for an error of CUDA, with its status."""

    def __init__(self, status: int) -> None:
        self.status = status


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (OutOfMemoryError("512 MiB"), ResourceError),
        (CudaError(2), ResourceError),
        (CudaError(700), CudaError),
    ],
)
def test_memory_in_words(error, expected):
    freed = []
    cuda = SimpleNamespace(
        memory=SimpleNamespace(OutOfMemoryError=OutOfMemoryError),
        runtime=SimpleNamespace(CUDARuntimeError=CudaError),
        driver=SimpleNamespace(CUDADriverError=CudaError),
    )
    pool = SimpleNamespace(free_all_blocks=lambda: freed.append("all"))
    xp: Any = SimpleNamespace(cuda=cuda, get_default_memory_pool=lambda: pool)
    with pytest.raises(expected) as caught, memory_in_words(Device("gpu", "a GPU", xp), "do this"):
        raise error
    if expected is ResourceError:
        assert "do this" in str(caught.value) and freed
