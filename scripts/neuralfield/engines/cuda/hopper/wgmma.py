"""CUDA functions for one instruction: a warpgroup's matrix product, which names each register.

There is one form for every number of columns, and it lists up to 128 accumulators: text to be
written by a program.
"""

from collections.abc import Iterable


def wgmma_source(columns: Iterable[int]) -> str:
    """CUDA functions for products with the given numbers of columns.

    Parameters
    ----------
    columns : iterable of int
        Multiples of 8 up to 256.

    Returns
    -------
    str
        Specialisations of ``Wgmma<columns>`` whose functions ``set<transposed>(sums, a, b)`` and
        ``add<transposed>(sums, a, b)`` set `sums` (float32) to, or add to it, the product of a
        64 x 16 and a 16 x columns matrix (float16). `a` and `b` describe matrices in shared
        memory: `b` by rows, `a` by rows or, where `transposed`, by columns.
    """
    forms = "".join(_specialisation(n) for n in sorted(set(columns)))
    return "template <int columns> struct Wgmma;\n" + forms


def operand_wgmma_source(columns: Iterable[int]) -> str:
    """CUDA functions for products whose left matrix is in registers.

    Parameters
    ----------
    columns : iterable of int
        Multiples of 8 up to 256.

    Returns
    -------
    str
        Specialisations of ``OperandWgmma<columns>`` as `wgmma_source` has them, but for `a`: four
        words of each thread; `b` is by rows where `transposed`, else by columns.
    """
    forms = "".join(_operand_specialisation(n) for n in sorted(set(columns)))
    return "template <int columns> struct OperandWgmma;\n" + forms


def _specialisation(columns: int) -> str:
    forms = _form("set", columns, "=f") + _form("add", columns, "+f")
    return f"template <> struct Wgmma<{columns}> {{{forms}}};\n"


def _form(name: str, columns: int, constraint: str) -> str:
    """One function; registers that are only set are free for other uses until then."""
    count = columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"{constraint}"(sums[{i}])' for i in range(count))
    instruction = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"
    return f"""
    template <int transposed>
    static __device__ __forceinline__ void {name}(
        float* sums, unsigned long long a, unsigned long long b) {{
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, {int(name == "add")}, 0; {instruction} "
            "{{{sums}}}, %{count}, %{count + 1}, p, 1, 1, %{count + 2}, 1; }}"
            : {outputs} : "l"(a), "l"(b), "n"(transposed));
    }}
"""


def _operand_specialisation(columns: int) -> str:
    forms = _operand_form("set", columns, "=f") + _operand_form("add", columns, "+f")
    return f"template <> struct OperandWgmma<{columns}> {{{forms}}};\n"


def _operand_form(name: str, columns: int, constraint: str) -> str:
    count = columns // 2
    sums = ", ".join(f"%{i}" for i in range(count))
    outputs = ", ".join(f'"{constraint}"(sums[{i}])' for i in range(count))
    words = ", ".join(f"%{count + i}" for i in range(4))
    instruction = f"wgmma.mma_async.sync.aligned.m64n{columns}k16.f32.f16.f16"
    return f"""
    template <int transposed>
    static __device__ __forceinline__ void {name}(
        float* sums, const unsigned int* a, unsigned long long b) {{
        asm volatile("{{ .reg .pred p; setp.ne.b32 p, {int(name == "add")}, 0; {instruction} "
            "{{{sums}}}, {{{words}}}, %{count + 4}, p, 1, 1, %{count + 5}; }}"
            : {outputs} : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(transposed));
    }}
"""
