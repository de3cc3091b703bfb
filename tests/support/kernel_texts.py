"""The kernels that an engine would compile on a GPU, without a GPU, and NVRTC to compile them."""

import ctypes
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from neuralfield.engines.cuda import field_engine
from neuralfield.engines.cuda.buffers import PassArguments
from neuralfield.engines.cuda.portable.layer_forward import layer_kernels
from neuralfield.engines.kernel_plan import batch_plan, network_plan
from neuralfield.system.device import Device

_MULTIPROCESSORS = 20


class Addressed(np.ndarray):
    """A NumPy array whose address is at `data.ptr`, as for an array on a GPU."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.__array_interface__["data"][0])


class _Gpu:
    """A stand-in for CuPy with NumPy's arrays, which records kernels instead of compiling them."""

    def __init__(self, capability: int) -> None:
        gpu = SimpleNamespace(
            id=0,
            compute_capability=str(capability),
            attributes={"MultiProcessorCount": _MULTIPROCESSORS},
        )
        runtime = SimpleNamespace(driverGetVersion=lambda: 13_000)
        self.cuda = SimpleNamespace(Device=lambda: gpu, runtime=runtime)

    def __getattr__(self, name: str) -> Any:
        function = getattr(np, name)
        if isinstance(function, type):
            return function

        def call(*arguments: Any, **options: Any) -> Any:
            result = function(*arguments, **options)
            return result.view(Addressed) if isinstance(result, np.ndarray) else result

        return call


@contextmanager
def recorded_kernels(monkeypatch, capability: int) -> Iterator[tuple[Device, set]]:
    """Simulate a GPU; record the source and options of each module that is compiled for it."""
    found = set()

    def record(code: str, name: str, options: tuple[str, ...]) -> Any:
        found.add((code, options))
        return SimpleNamespace(compile=lambda: None)

    gpu: Any = _Gpu(capability)
    stand_in = ModuleType("cupy")
    vars(stand_in).update(RawKernel=record, cuda=gpu.cuda)
    monkeypatch.setitem(sys.modules, "cupy", stand_in)
    layer_kernels.cache_clear()
    yield Device("gpu", "a GPU", gpu), found
    layer_kernels.cache_clear()


def kernel_texts(monkeypatch, objective, capability: int, precision: str) -> tuple[str, set]:
    """Return the name of the chosen pass, and each module's source and options."""
    with recorded_kernels(monkeypatch, capability) as (device, found):
        network, batch = network_plan(objective.network), batch_plan(objective)
        chosen = field_engine._choose_pass(network, batch, precision, capability)
        assert not isinstance(chosen, str), chosen
        for buffers in (objective.network.buffers, objective.optimizer.state):
            for name, array in buffers.items():
                buffers[name] = array.view(Addressed)
        buffers = field_engine._make_buffers(objective, batch, device)
        if buffers.frequencies is not None:
            buffers = replace(buffers, frequencies=buffers.frequencies.view(Addressed))
        given = PassArguments(device, network, batch, buffers, chosen[1])
        field_engine._make_stages(objective, chosen[0], given)
    return chosen[0].name, found


@cache
def nvrtc() -> tuple[ctypes.CDLL, Path] | None:
    """Load NVIDIA's compiler from its wheel and find CUDA's headers; None if not installed."""
    spec = importlib.util.find_spec("nvidia")
    for place in spec.submodule_search_locations or () if spec else ():
        for library in Path(place).glob("cu1*/lib/libnvrtc.so.1*"):
            headers = library.parents[1] / "include"
            if not (headers / "cuda_fp16.h").exists():
                continue
            for builtins in library.parent.glob("libnvrtc-builtins.so.*"):
                ctypes.CDLL(str(builtins), mode=ctypes.RTLD_GLOBAL)
            return ctypes.CDLL(str(library)), headers
    return None


def complaints_of_compiler(code: str, options: tuple[str, ...], capability: int) -> str:
    """Compile a module to machine code as CuPy would; return the errors, or an empty string."""
    found = nvrtc()
    assert found is not None
    library, headers = found
    given = [
        *options,
        *([] if any("-arch" in o for o in options) else [f"-arch=sm_{capability}"]),
        "--device-as-default-execution-space",
        f"-I{headers}",
        f"-I{headers / 'cccl'}",
    ]
    texts = (ctypes.c_char_p * len(given))(*(option.encode() for option in given))
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), code.encode(), b"kernel.cu", 0, None, None)
    status = library.nvrtcCompileProgram(program, len(given), texts)
    size = ctypes.c_size_t()
    library.nvrtcGetProgramLogSize(program, ctypes.byref(size))
    log = ctypes.create_string_buffer(size.value)
    library.nvrtcGetProgramLog(program, log)
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return log.value.decode() if status else ""
