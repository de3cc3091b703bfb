"""Matrix products of small float32 matrices that lie in cache, through tiles held in registers."""

from itertools import chain
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic, register_jitable

VECTOR = 16
"""Rows are padded to a multiple of this: one register of AVX-512, two of AVX, four of NEON."""

_WORD_BYTES = 4
_WORD, _NUMBER, _INDEX = ir.IntType(64), ir.FloatType(), ir.IntType(32)
_NUMBERS, _VECTOR_BYTES = ir.VectorType(_NUMBER, VECTOR), _WORD(VECTOR * _WORD_BYTES)


def _tile_shape() -> tuple[int, int]:
    """Choose the rows, and vectors per row, of a tile that fills this processor's registers.

    Results do not depend on them, because every sum has the same order in all tiles.
    """
    return (6, 4) if _FEATURES.get("avx512f") else (6, 1)


_FEATURES = llvmlite.binding.get_host_cpu_features()
_FUSES = _FEATURES.get("fma", not _FEATURES.get("sse2", False))
"""Whether the processor has fused multiply-add instructions: all except old ones with SSE2."""

TILE_ROWS, TILE_VECTORS = _tile_shape()


def _tile(rows: int, vectors: int) -> Any:
    """Make a function for a product of `rows` times ``16 * vectors`` sums, held in registers."""

    @intrinsic
    def tile(typing_context, a, a_row, a_step, b, b_step, c, c_row, depth, add):
        """Compute C (+)= A B for addresses and strides in bytes; `a_step` and `b_step` are strides
        from one factor of a sum to the next, and `depth`, at least 1, is the number of factors."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, a_row, a_step, b, b_step, c, c_row, depth, add = arguments
            given = (a, a_row, a_step), (b, _VECTOR_BYTES, b_step), (c, c_row), depth
            _generate_sums(builder, rows, vectors, *given, add)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 9), generate

    return tile


def _sum_tile(rows: int, columns: int) -> Any:
    """Make a function for `rows` times `columns` sums over rows of numbers, held in registers."""

    @intrinsic
    def tile(typing_context, a, a_row, b, b_row, c, c_row, depth):
        """Add the products of rows of A and of B to C: `depth` vectors, each number's sum apart."""

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            a, a_row, b, b_row, c, c_row, depth = arguments
            given = (a, a_row, _VECTOR_BYTES), (b, b_row, _VECTOR_BYTES), (c, c_row), depth
            _generate_sums(builder, rows, columns, *given, None)
            return context.get_dummy_value()

        return types.void(*[types.int64] * 7), generate

    return tile


def _generate_sums(
    builder: Any, rows: int, columns: int, left: Any, right: Any, target: Any, depth: Any, add: Any
) -> None:
    """Generate code for sums of products, of vectors, in rows and columns.

    Factors are given by an address, the stride of rows or columns and that of the factors of a sum,
    and the target by an address and the stride of rows. If there is `add`, factors of rows are
    single numbers, and the sums are written to the target, or added to it if `add` is not 0;
    otherwise, they begin with the target's numbers.
    """
    kind = ir.FunctionType(_NUMBERS, [_NUMBERS] * 3)
    name = f"llvm.fma.v{VECTOR}f32"
    multiply_add = cgutils.get_or_insert_function(builder.module, kind, name)

    def multiplied_and_added(factor: Any, other: Any, total: Any) -> Any:
        if _FUSES:
            return builder.call(multiply_add, [factor, other, total])
        return builder.fadd(builder.fmul(factor, other), total)

    def places(address: Any, stride: Any, count: int) -> list[Any]:
        return [builder.add(address, builder.mul(stride, _WORD(i))) for i in range(count)]

    def load(address: Any, what: Any = _NUMBERS) -> Any:
        loaded = builder.load(builder.inttoptr(address, what.as_pointer()))
        loaded.align = _WORD_BYTES
        return loaded

    def load_everywhere(address: Any) -> Any:
        undefined = ir.Constant(_NUMBERS, ir.Undefined)
        everywhere = ir.Constant(ir.VectorType(_INDEX, VECTOR), [0] * VECTOR)
        factor = builder.insert_element(undefined, load(address, _NUMBER), _INDEX(0))
        return builder.shuffle_vector(factor, undefined, everywhere)

    (a, a_row, a_step), (b, b_column, b_step), (c, c_row) = left, right, target
    targets = [places(row, _VECTOR_BYTES, columns) for row in places(c, c_row, rows)]
    zeros = ir.Constant(_NUMBERS, [0.0] * VECTOR)
    starts = [[zeros if add else load(place) for place in row] for row in targets]
    before = builder.block
    loop, after = builder.append_basic_block("sum"), builder.append_basic_block("store")
    builder.branch(loop)
    builder.position_at_end(loop)
    done, a_now, b_now = (builder.phi(_WORD) for _ in range(3))
    sums = [[builder.phi(_NUMBERS) for _ in range(columns)] for _ in range(rows)]
    of_columns = [load(place) for place in places(b_now, b_column, columns)]
    following = []
    for row, place in zip(sums, places(a_now, a_row, rows), strict=True):
        factor = load_everywhere(place) if add else load(place)
        pairs = zip(of_columns, row, strict=True)
        following.append([multiplied_and_added(factor, other, total) for other, total in pairs])
    for phi, start, step in ((done, _WORD(0), _WORD(1)), (a_now, a, a_step), (b_now, b, b_step)):
        phi.add_incoming(start, before)
        phi.add_incoming(builder.add(phi, step), loop)
    for phi, value, start in zip(chain(*sums), chain(*following), chain(*starts), strict=True):
        phi.add_incoming(start, before)
        phi.add_incoming(value, loop)
    more = builder.icmp_signed("<", builder.add(done, _WORD(1)), depth)
    builder.cbranch(more, loop, after)
    builder.position_at_end(after)

    def store(adds: bool) -> None:
        for value, place in zip(chain(*following), chain(*targets), strict=True):
            total = builder.fadd(load(place), value) if adds else value
            pointer = builder.inttoptr(place, _NUMBERS.as_pointer())
            builder.store(total, pointer).align = _WORD_BYTES

    if not add:
        store(False)
        return
    with builder.if_else(builder.icmp_signed("!=", add, _WORD(0))) as (then, otherwise):
        with then:
            store(True)
        with otherwise:
            store(False)


_FULL = [_tile(TILE_ROWS, min(vectors, TILE_VECTORS)) for vectors in (1, 2, 3, 4)]
_SINGLE = [_tile(1, min(vectors, TILE_VECTORS)) for vectors in (1, 2, 3, 4)]
_full_1, _full_2, _full_3, _full_4 = _FULL
_single_1, _single_2, _single_3, _single_4 = _SINGLE


@register_jitable
def product(a, a_row, a_step, b, b_step, c, c_row, rows, columns, depth, add):
    """Compute C = A B, or C += A B if `add`, in float32, in order, by fused multiply-adds.

    `a`, `b` and `c` are addresses. `a_row`, `b_step` and `c_row` are the strides of rows in bytes,
    `a_step` is that of a sum's factors, so that A may be stored transposed. B and C have columns up
    to the next multiple of `VECTOR`; `depth` products are summed. Constants are passed as
    `np.int64`, because Numba would compile the function again for each literal.
    """
    left = (columns + VECTOR - 1) // VECTOR
    while left > 0:
        # as even as possible, because a tile of few vectors computes few sums at the same time
        vectors = left
        if TILE_VECTORS == 1:
            vectors = 1
        elif left == 5 or left == 6:
            vectors = 3
        elif left > 4:
            vectors = 4
        row = 0
        while row + TILE_ROWS <= rows:
            i, k = a + row * a_row, c + row * c_row
            if vectors == 4:
                _full_4(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            elif vectors == 3:
                _full_3(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            elif vectors == 2:
                _full_2(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            else:
                _full_1(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            row += TILE_ROWS
        while row < rows:
            i, k = a + row * a_row, c + row * c_row
            if vectors == 4:
                _single_4(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            elif vectors == 3:
                _single_3(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            elif vectors == 2:
                _single_2(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            else:
                _single_1(i, a_row, a_step, b, b_step, k, c_row, depth, add)
            row += 1
        b += vectors * VECTOR * 4
        c += vectors * VECTOR * 4
        left -= vectors


SUM_ROWS, SUM_COLUMNS = (6, 3) if _FEATURES.get("avx512f") else (3, 2)
_sums_full, _sums_column = _sum_tile(SUM_ROWS, SUM_COLUMNS), _sum_tile(SUM_ROWS, 1)
_sums_row, _sums_single = _sum_tile(1, SUM_COLUMNS), _sum_tile(1, 1)


@register_jitable
def add_row_products(a, a_row, b, b_row, c, rows, columns, depth):
    """Add the products of the rows of A with those of B to C, in vectors: C is not yet summed up.

    C has shape (rows, columns, `VECTOR`); number v of C[i, j] is the sum of A[i, l] B[j, l] over
    all l that are v modulo `VECTOR`. `a`, `b` and `c` are addresses, `a_row` and `b_row` strides in
    bytes; rows have `depth` numbers, a multiple of `VECTOR`. See `product` for constants.
    """
    vectors, c_row = depth // VECTOR, columns * VECTOR * 4
    row = 0
    while row < rows:
        is_full = row + SUM_ROWS <= rows
        column = 0
        while column < columns:
            left, right = a + row * a_row, b + column * b_row
            target = c + row * c_row + column * VECTOR * 4
            if column + SUM_COLUMNS <= columns:
                if is_full:
                    _sums_full(left, a_row, right, b_row, target, c_row, vectors)
                else:
                    _sums_row(left, a_row, right, b_row, target, c_row, vectors)
                column += SUM_COLUMNS
            else:
                if is_full:
                    _sums_column(left, a_row, right, b_row, target, c_row, vectors)
                else:
                    _sums_single(left, a_row, right, b_row, target, c_row, vectors)
                column += 1
        row += SUM_ROWS if is_full else 1


@register_jitable
def multiply(a, b, c, columns, add):
    """Compute the first `columns` of C = A B, or of C += A B if `add`, of arrays; see `product`."""
    product(
        *(np.int64(a.ctypes.data), a.strides[0], a.strides[1], np.int64(b.ctypes.data)),
        *(b.strides[0], np.int64(c.ctypes.data), c.strides[0], a.shape[0], columns, a.shape[1]),
        add,
    )


@register_jitable
def add_rows_multiplied(a, b, c, depth):
    """Add the products of rows of two arrays to C, for `depth` columns; see `add_row_products`."""
    add_row_products(
        *(np.int64(a.ctypes.data), a.strides[0], np.int64(b.ctypes.data), b.strides[0]),
        *(np.int64(c.ctypes.data), a.shape[0], b.shape[0], depth),
    )


@register_jitable
def sum_vectors(sums, totals):
    """Sum up the vectors of `add_row_products`."""
    for i in range(totals.size):
        total = np.float32(0)
        for number in sums[i]:
            total += number
        totals[i] = total


@register_jitable
def add(source, target):
    """Add numbers to those of another array."""
    for i in range(source.size):
        target[i] += source[i]
