"""From a kernel's file to a loaded module, through NVRTC, with CuPy's cache on disk.

Nearly every size that a kernel depends on is a constant of its source: the compiler unrolls loops
over it, and a module serves one network and one batch. (Only the portable kernels of layers.cu are
given widths and rows when they are launched.) The cache knows a module by its text, so texts are
complete: files they include are put in place, and constants are lines at the top.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parent / "cuda"

_LOCAL_INCLUDE = re.compile(r'^[ \t]*#include "([^"]+)"[ \t]*\n', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#pragma once[ \t]*\n", re.MULTILINE)


def source_files() -> dict[str, Path]:
    """Where each kernel file is. A name stands once, whatever the folder, as kernels' names do."""
    return {path.name: path for path in KERNELS.rglob("*.cu*")}


def read_source(name: str) -> str:
    """The text of a kernel file with the local files it includes in place, each once.

    Parameters
    ----------
    name : str
        Such as ``update.cu``, without its folder; so it is in the files' own includes.
    """
    files = source_files()
    included: set[str] = set()

    def text_of(name: str) -> str:
        if name in included:
            return ""
        included.add(name)
        text = _ONCE.sub("", files[name].read_text(encoding="utf-8"))
        return _LOCAL_INCLUDE.sub(lambda match: text_of(match[1]), text)

    return text_of(name)


def define_lines(constants: Mapping[str, Any]) -> str:
    """``#define`` lines; a bool is 0 or 1, and a float is written so that it reads back exactly."""
    plain = {n: int(v) if isinstance(v, bool) else v for n, v in constants.items()}
    return "".join(f"#define {name} {value!s}\n" for name, value in plain.items())


def compile_module(name: str, constants: Mapping[str, Any], prelude: str = "") -> Any:
    """Compile a kernel file for the current card.

    Parameters
    ----------
    name : str
        Such as ``update.cu``.
    constants : mapping of name to int, float, bool or str
        Put before the source.
    prelude : str
        Text between the constants and the file.

    Returns
    -------
    cupy.RawModule
        Loaded; ``get_function`` gives its kernels.
    """
    import cupy

    options = ("--std=c++17",)
    if cupy.cuda.Device().compute_capability == "90":
        options += ("-arch=sm_90a",)  # unlocks this card's own instructions, such as wgmma
    return cupy.RawModule(
        code=define_lines(constants) + prelude + read_source(name), options=options
    )
