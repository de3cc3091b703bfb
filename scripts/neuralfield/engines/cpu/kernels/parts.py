"""Functions that are compiled into the kernels that call them, and that Python cannot call.

Numba would generate wrappers and machine code for each of them, which nothing calls, and which take
half of the time of a kernel's first compilation.
"""

from collections.abc import Callable
from typing import Any

from numba import njit
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler


def kernel_part(function: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Compile a function into the kernels that call it; `options` are those of `numba.njit`."""
    without = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    decorate = njit(nogil=True, pipeline_class=_PartCompiler, **without, **options)
    return decorate if function is None else decorate(function)


class _PartLibrary(JITCodeLibrary):
    """Optimized code that is linked into the code of kernels, without machine code of its own."""

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True


class _PartCompiler(Compiler):
    """Numba's compiler, which stops at the code that is linked into other functions."""

    def __init__(self, typing: Any, target: Any, library: Any, *rest: Any) -> None:
        super().__init__(typing, target, _PartLibrary(target.codegen(), "part"), *rest)
        self.state.flags.no_compile = True

    def compile_extra(self, func: Callable[..., Any]) -> Any:
        """Compile a function, and register its code for the functions that call it."""
        # Numba identifies the code by its Python entry point: here a function that only raises
        found = super().compile_extra(func)._replace(entry_point={}.__getitem__)
        libraries = [found.library]
        self.state.targetctx.insert_user_function(found.entry_point, found.fndesc, libraries)
        return found
