"""The kind of a machine: everything that the bytes of a result depend on, besides the settings."""

import hashlib
import importlib.metadata
import json
import platform
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

MachineKind = dict[str, str]
"""Names of hardware and software, by what they are."""


def kind_of_results(results: Path) -> MachineKind:
    """Return the kind of machine that has made the results, which has to be this one.

    The device and the engines are read from the records of the trainings, the rest is found here. A
    processor's name is not part of it: the same BLAS kernels and vector instructions give the same
    bytes.
    """
    records = [json.loads(path.read_text()) for path in sorted(results.rglob("training.json"))]
    on_gpu = any("cupy" in record["versions"] for record in records)
    return {
        "device": _joined(r["device"] for r in records) if on_gpu else "cpu",
        "engine": _joined(map(_engine, records)),
        **kind_of_software(),
        **(_kind_of_numba() if any(record["engine"] == "cpu" for record in records) else {}),
        **(_kind_of_cuda() if on_gpu else {}),
    }


def kind_of_software() -> MachineKind:
    """Return architecture, libraries, and which of their kernels this processor gets."""
    return {
        "architecture": platform.machine(),
        "libc": " ".join(platform.libc_ver()),
        "numpy": np.__version__,
        "numpy_kernels": _numpy_kernels(),
        "blas": _blas(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        "pillow": importlib.metadata.version("pillow"),
        "av": importlib.metadata.version("av"),
    }


def _engine(record: dict[str, Any]) -> str:
    return _joined([record["engine"]], [record["engine_variant"]], [record["precision"]])


def _blas() -> str:
    """Return library and kernels: each sums matrix products in another order."""
    found = [info for info in threadpool_info() if info["user_api"] == "blas"]
    return "; ".join(
        f"{info['internal_api']} {info['version']} {info.get('architecture', '')}".strip()
        for info in found
    )


def _numpy_kernels() -> str:
    """Return the vector instructions that NumPy has kernels for, and that this processor has."""
    targets = np.show_config(mode="dicts")["SIMD Extensions"]  # type: ignore[index]
    return _joined(targets["baseline"], targets.get("found", []))


def _kind_of_numba() -> MachineKind:
    """Return the compiler of the cpu engine's kernels, and the processor that it compiles for."""
    import numba
    from llvmlite import binding

    version = ".".join(map(str, binding.llvm_version_info))
    name = numba.config.CPU_NAME or binding.get_host_cpu_name()  # type: ignore[attr-defined]
    features = numba.config.CPU_FEATURES  # type: ignore[attr-defined]
    if features is None:
        features = binding.get_host_cpu_features().flatten()
    digest = hashlib.sha256(features.encode()).hexdigest()[:8]
    return {
        "numba": f"{numba.__version__} LLVM {version}",
        "compiled_for": f"{name}, features {digest}",
    }


def _kind_of_cuda() -> MachineKind:
    import cupy

    runtime = cupy.cuda.runtime
    return {
        "compute_capability": cupy.cuda.Device().compute_capability,
        "cupy": cupy.__version__,
        "cuda": str(runtime.runtimeGetVersion()),
        "nvrtc": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
    }


def _joined(*words: Iterable[str]) -> str:
    """Join words in their order, each once."""
    return " ".join(dict.fromkeys(word for some in words for word in some if word))
