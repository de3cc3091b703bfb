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

_LOCAL_INCLUDE = re.compile(r'^[ \t]*#include "([^"]+)"[ \t]*\n', re.MULTILINE)
_ONCE = re.compile(r"^[ \t]*#pragma once[ \t]*\n", re.MULTILINE)


def read_source(path: Path) -> str:
    """Read a CUDA file with the local files it includes in place, each once."""
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
    """``#define`` lines; a bool is 0 or 1, and a float is written so that it reads back exactly."""
    plain = {n: int(v) if isinstance(v, bool) else v for n, v in constants.items()}
    return "".join(f"#define {name} {value!s}\n" for name, value in plain.items())


def compile_module(path: Path, constants: Mapping[str, Any], prelude: str = "") -> Any:
    """Compile a kernel file for the current card.

    Parameters
    ----------
    path : Path
        The CUDA file, which lies beside the module that launches its kernels.
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
        code=define_lines(constants) + prelude + read_source(path), options=options
    )
