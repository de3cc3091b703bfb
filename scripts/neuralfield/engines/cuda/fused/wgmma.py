"""The choice of the back-end of matrix products, and CUDA functions for the instruction ``wgmma``.

The instruction, a warpgroup's matrix product, has one form for every number of columns, and lists
up to 128 accumulators. Therefore the source text of the functions is generated.
"""

import os
from collections.abc import Iterable

from neuralfield.system.errors import ConfigError

_CAPABILITY = 90

_PASS_VARIABLE = "NEURALFIELD_PASS"
"""Environment variable that excludes ``wgmma``, if it is ``portable``."""


def uses_wgmma(compute_capability: int) -> bool:
    """Return whether products are those of ``wgmma`` on a GPU; if not, they are of ``mma.sync``."""
    asked = os.environ.get(_PASS_VARIABLE, "")
    if asked not in ("", "portable"):
        raise ConfigError(_PASS_VARIABLE, asked, "portable, or no value")
    return compute_capability == _CAPABILITY and not asked


def wgmma_source(columns: Iterable[int]) -> str:
    """Write CUDA functions for products with these numbers of columns, multiples of 8 up to 256.

    They are specialisations of ``TileProduct<columns>``, whose functions ``set<transposed>`` and
    ``add<transposed>`` get `sums` (float32), `a` and `b`, and set `sums` to, or add to it, the
    product of a 64 x 16 and a 16 x columns matrix (float16). `a` and `b` describe matrices in
    shared memory: `b` by rows, `a` by rows or, where `transposed`, by columns.
    """
    return _struct("TileProduct", columns, in_registers=False)


def operand_wgmma_source(columns: Iterable[int]) -> str:
    """Write CUDA functions for products whose left matrix is in registers.

    They are specialisations of ``OperandProduct<columns>`` with the functions that `wgmma_source`
    describes, except that `a` is four words of each thread, and that `b` is by rows if
    `transposed`, otherwise by columns.
    """
    return _struct("OperandProduct", columns, in_registers=True)


def _struct(name: str, columns: Iterable[int], *, in_registers: bool) -> str:
    forms = ""
    for n in sorted(set(columns)):
        functions = "".join(_form(kind, n, in_registers) for kind in ("set", "add"))
        forms += f"template <> struct {name}<{n}> {{{functions}}};\n"
    return f"template <int columns> struct {name};\n" + forms


def _form(name: str, columns: int, in_registers: bool) -> str:
    """Write one function; as outputs only, registers of ``set`` are free for other uses before."""
    count, constraint = columns // 2, "=f" if name == "set" else "+f"
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"{constraint}"(sums[{i}])' for i in range(count))
    if in_registers:
        a_type, words = "const unsigned int*", ", ".join(f"%{count + i}" for i in range(4))
        operands = f"{{{words}}}, %{count + 4}, p, 1, 1, %{count + 5}"
        inputs = '"r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])'
    else:
        a_type, inputs = "unsigned long long", '"l"(a)'
        operands = f"%{count}, %{count + 1}, p, 1, 1, %{count + 2}, 1"
    instruction = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"
    return f"""
    template <int transposed>
    static __device__ __forceinline__ void {name}(
        float* sums, {a_type} a, unsigned long long b) {{
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, {int(name == "add")}, 0; {instruction} "
            "{{{sums}}}, {operands}; }}"
            : {outputs} : {inputs}, "l"(b), "n"(transposed));
    }}
"""
