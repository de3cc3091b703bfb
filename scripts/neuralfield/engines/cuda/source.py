"""Compilation of a kernel's file to a loaded module, with NVRTC and CuPy's cache on disk.

Nearly every size that a kernel depends on is a constant of its source: the compiler unrolls loops
over it, and a module serves one network and one batch. (Only the portable kernels of layers.cu get
widths and rows when they are launched.) The cache identifies a module by its source text. The text
is therefore complete: included files are inserted, and constants are lines at the top.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from neuralfield.engines.kernel_plan import (
    ACTIVATIONS,
    ACTIVATIONS_WITH_KEPT_DERIVATIVES,
    ENCODINGS,
    LOSSES,
    SCHEDULES,
)
from neuralfield.fields.hashgrid import HASH_PRIME
from neuralfield.system import random_streams
from neuralfield.system.device import Device

_MOST_COMPILERS = 8

_LOCAL_INCLUDE = re.compile(r'^[ \t]*#include "([^"]+)"[ \t]*\n', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#pragma once[ \t]*\n", re.MULTILINE)


def _macros(names: Iterable[str]) -> list[str]:
    return [name.upper().replace(" ", "_") for name in names]


def _places(names: Iterable[str], prefix: str = "") -> dict[str, int]:
    return {prefix + name: place for place, name in enumerate(_macros(names))}


def _numbered(name: str, numbers: Iterable[int]) -> dict[str, int]:
    return {f"{name}_{place}": number for place, number in enumerate(numbers)}


_KEEPS_DERIVATIVES = " || ".join(
    f"ACTIVATION == {name}" for name in _macros(ACTIVATIONS_WITH_KEPT_DERIVATIVES)
)

_RANDOM_NUMBERS = {
    "STREAM_ORDER": random_streams.STREAM_ORDER,
    "STREAM_JITTER": random_streams.STREAM_JITTER,
    "STREAM_DENSITY": random_streams.STREAM_DENSITY,
    **_numbered("PHILOX_MULTIPLIER", random_streams.PHILOX_MULTIPLIERS),
    **_numbered("PHILOX_KEY_STEP", random_streams.PHILOX_KEY_STEPS),
}

SHARED_NUMBERS: Mapping[str, Any] = {
    **_places(ENCODINGS),
    **_places(ACTIVATIONS),
    **_places(LOSSES),
    **_places(SCHEDULES, "SCHEDULE_"),
    # depends on the constant ACTIVATION, which not every kernel has
    "KEEPS_DERIVATIVES": f"({_KEEPS_DERIVATIVES})",
    **{name: f"{number}u" for name, number in _RANDOM_NUMBERS.items()},
    "HASH_PRIME": f"{HASH_PRIME}u",
    "PHILOX_ROUNDS": random_streams.PHILOX_ROUNDS,
}
"""Numbers that Python and all kernels share, by their names in kernels."""


@cache
def read_source(path: Path) -> str:
    """Read a CUDA file, and insert the local files that it includes, each once."""
    included: set[Path] = set()

    def text_of(path: Path) -> str:
        path = path.resolve()
        if path in included:
            return ""
        included.add(path)
        text = _ONCE.sub("", path.read_text(encoding="utf-8"))
        return _LOCAL_INCLUDE.sub(lambda match: text_of(path.parent / match[1]), text)

    return text_of(path)


def define_lines(constants: Mapping[str, Any]) -> str:
    """Return ``#define`` lines; a bool is 0 or 1, a float has all digits to be read exactly, and
    lists and tuples are arrays or structs."""
    return "".join(f"#define {name} {_written(value)}\n" for name, value in constants.items())


def _written(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "{" + ", ".join(map(_written, value)) + "}"
    return str(int(value) if isinstance(value, bool) else value)


@dataclass(frozen=True)
class Module:
    """The kernels of one complete source text."""

    code: str
    options: tuple[str, ...]

    def get_function(self, name: str, shared_bytes: int = 0) -> Any:
        """Return a kernel; `shared_bytes` is the dynamic shared memory of a block."""
        import cupy

        kernel = _Kernel(cupy.RawKernel(self.code, name, self.options), shared_bytes)
        waiting = _waiting.get()
        if waiting is None:
            kernel.load()
        else:
            waiting.append(kernel)
        return kernel.kernel


@dataclass(frozen=True)
class _Kernel:
    """A CuPy kernel, which is compiled when it is first used, and its dynamic shared memory."""

    kernel: Any
    shared_bytes: int

    def load(self) -> None:
        self.kernel.compile()
        if self.shared_bytes:
            self.kernel.max_dynamic_shared_size_bytes = self.shared_bytes


_waiting: ContextVar[list[_Kernel] | None] = ContextVar("_waiting", default=None)
"""Kernels that a thread has asked for inside `compiled_together`; None outside of it."""


@contextmanager
def compiled_together(device: Device) -> Iterator[None]:
    """Compile the kernels that a ``with`` block asks for, concurrently at the end of the block.

    A kernel that is launched within the block must not need dynamic shared memory, which is set
    only at the end.
    """
    kernels: list[_Kernel] = []
    token = _waiting.set(kernels)
    try:
        yield
        first: dict[Any, _Kernel] = {}
        for kernel in kernels:
            first.setdefault((kernel.kernel.code, kernel.kernel.options), kernel)
        gpu = device.xp.cuda.Device()
        with ThreadPoolExecutor(_MOST_COMPILERS, initializer=gpu.use) as compilers:
            list(compilers.map(_Kernel.load, first.values()))
        for kernel in kernels:
            kernel.load()
    finally:
        _waiting.reset(token)


def compile_module(file: str | Path, constants: Mapping[str, Any], prelude: str = "") -> Module:
    """Return the module of a kernel file; a relative path begins in this folder.

    The source text is the constants, then the prelude, then the file.
    """
    import cupy

    options = ("--std=c++17",)
    if cupy.cuda.Device().compute_capability == "90":
        options += ("-arch=sm_90a",)  # unlocks this GPU's own instructions, such as wgmma
    text = read_source(Path(__file__).parent / file)
    code = define_lines({**SHARED_NUMBERS, **constants}) + prelude + text
    return Module(code, options)


def compile_kernel(
    file: str | Path,
    name: str,
    constants: Mapping[str, Any],
    prelude: str = "",
    shared_bytes: int = 0,
) -> Any:
    """Compile a kernel file, see `compile_module`, and return one of its kernels.

    `shared_bytes` is the dynamic shared memory of a block.
    """
    return compile_module(file, constants, prelude).get_function(name, shared_bytes)
