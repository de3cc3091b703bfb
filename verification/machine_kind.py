"""The kind of a machine: all hardware and software that the bytes of a result depend on."""

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
"""Names and versions of hardware and software, by category."""


def kind_of_results(results: Path) -> MachineKind:
    """Return the kind of machine that has made the results, which has to be this machine.

    The device and the engines are read from the records of the trainings, and the rest from this
    machine. The processor's name is not included, because the same BLAS kernels and vector
    instructions give the same bytes.
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
    """Return the architecture, the libraries, and their kernels for this processor."""
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
    """Return the BLAS library and its kernels, which determine the order of sums."""
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
    """Return the compiler of the cpu engine's kernels, and its target processor."""
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
    """Join words in their order, without duplicates."""
    return " ".join(dict.fromkeys(word for some in words for word in some if word))
