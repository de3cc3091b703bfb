"""The operations of the tape, each with forward and backward pass."""

import itertools
import math
from collections.abc import Sequence
from types import ModuleType

import numpy as np

from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of


def as_tensor(value: Tensor | Array | float, like: Tensor) -> Tensor:
    """Convert `value` to a constant with the library and dtype of `like`, unless it is a tensor."""
    if isinstance(value, Tensor):
        return value
    return Tensor(namespace_of(like.data).asarray(value, dtype=like.data.dtype))


def _sum_to_shape(gradient: Array, shape: tuple[int, ...]) -> Array:
    """Reverse broadcasting: sum the gradients of the copies of each element."""
    if gradient.shape == shape:
        return gradient
    leading = gradient.ndim - len(shape)
    stretched = tuple(
        axis + leading
        for axis, size in enumerate(shape)
        if size == 1 and gradient.shape[axis + leading] != 1
    )
    return gradient.sum(axis=tuple(range(leading)) + stretched).reshape(shape)


def add(a: Tensor, b: Tensor | Array | float) -> Tensor:
    """Compute a + b, broadcasting."""
    b = as_tensor(b, a)
    return record(
        a.data + b.data, (a, b), lambda g: (_sum_to_shape(g, a.shape), _sum_to_shape(g, b.shape))
    )


def multiply(a: Tensor, b: Tensor | Array | float) -> Tensor:
    """Compute a * b, element by element, broadcasting."""
    b = as_tensor(b, a)
    return record(
        a.data * b.data,
        (a, b),
        lambda g: (_sum_to_shape(g * b.data, a.shape), _sum_to_shape(g * a.data, b.shape)),
    )


def matmul(a: Tensor, b: Tensor) -> Tensor:
    """Compute the matrix product of a (n, k) and b (k, m)."""
    return record(
        a.data @ b.data,
        (a, b),
        lambda g: (
            g @ b.data.T if a.differentiable else None,
            a.data.T @ g if b.differentiable else None,
        ),
    )


def affine(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Compute x @ weight + bias; shapes (n, fan_in), (fan_in, fan_out) and (fan_out,)."""
    if bias is None:
        return matmul(x, weight)
    data = x.data @ weight.data
    data += bias.data
    ones = namespace_of(data).ones(len(data), dtype=data.dtype)
    return record(
        data,
        (x, weight, bias),
        lambda g: (
            g @ weight.data.T if x.differentiable else None,
            x.data.T @ g,
            ones @ g,  # the sum over rows, several times faster than a reduction
        ),
    )


def sine(x: Tensor) -> Tensor:
    """Compute sin(x)."""
    xp = namespace_of(x.data)

    def backward(g: Array) -> tuple[Array]:
        gradient = xp.cos(x.data)
        gradient *= g
        return (gradient,)

    return record(xp.sin(x.data), (x,), backward)


def variable_sine(x: Tensor, omega: float) -> Tensor:
    """Compute sin(omega * (|x| + 1) * x), a sine whose frequency grows with its input."""
    xp, number = namespace_of(x.data), x.data.dtype.type
    size = xp.abs(x.data)
    phase = number(omega) * (size + 1) * x.data

    def backward(g: Array) -> tuple[Array]:
        gradient = xp.cos(phase)
        gradient *= number(omega) * (2 * size + 1)
        gradient *= g
        return (gradient,)

    return record(xp.sin(phase), (x,), backward)


def gaussian(x: Tensor) -> Tensor:
    """Compute exp(-x ** 2)."""
    y = _bell(-(x.data * x.data))
    return record(y, (x,), lambda g: (-2 * g * x.data * y,))


_LEAST_EXPONENT = -40.0
"""Minimum exponent; smaller exponents give 0. Such values vanish in rounding, and CPUs compute
products of such small (subnormal) numbers many times more slowly."""


def _bell(exponent: Array) -> Array:
    """Compute exp(exponent), or 0 below the minimum exponent."""
    xp = namespace_of(exponent)
    return xp.exp(exponent) * (exponent > _LEAST_EXPONENT)


def gabor(x: Tensor, omega: float, scale: float, *, is_complex: bool) -> Tensor:
    """Compute exp(i * omega * z - |scale * z| ** 2), with complex numbers as pairs of real numbers.

    x is [Re z, Im z], shape (n, 2 * width), or, unless `is_complex`, a real z of shape (n, width).
    The result is [real parts, imaginary parts], shape (n, 2 * width).
    """
    xp, number = namespace_of(x.data), x.data.dtype.type
    width = x.shape[1] // 2 if is_complex else x.shape[1]
    a, b = x.data[:, :width], x.data[:, width:]
    exponent = number(-(scale**2)) * (x.data * x.data)
    if is_complex:
        exponent = exponent[:, :width] + exponent[:, width:] - number(omega) * b
    size, phase = _bell(exponent), number(omega) * a
    y = xp.concatenate([size * xp.cos(phase), size * xp.sin(phase)], axis=1)

    def backward(g: Array) -> tuple[Array]:
        product = g * y
        # derivatives along the size and along the phase
        along = product[:, :width] + product[:, width:]
        across = g[:, width:] * y[:, :width] - g[:, :width] * y[:, width:]
        gradient = number(-2 * scale**2) * a * along + number(omega) * across
        if not is_complex:
            return (gradient,)
        return (
            xp.concatenate(
                [gradient, number(-2 * scale**2) * b * along - number(omega) * along], 1
            ),
        )

    return record(y, (x,), backward)


def product_of_parts(x: Tensor, count: int) -> Tensor:
    """Multiply `count` equal parts of each row: (n, count * c) -> (n, c)."""
    xp = namespace_of(x.data)
    parts = xp.split(x.data, count, axis=1)
    before = list(itertools.accumulate(parts, lambda p, q: p * q))

    def backward(g: Array) -> tuple[Array]:
        gradients, after = [], g
        for index in range(count - 1, 0, -1):
            gradients.append(before[index - 1] * after)
            after = after * parts[index]
        return (xp.concatenate([after, *gradients[::-1]], axis=1),)

    return record(before[-1], (x,), backward)


def weighted_rows(table: Tensor, rows: Array, weights: Array) -> Tensor:
    """Compute weighted sums of rows of a table, shape (count, features).

    `rows` are indices; `rows` and `weights` have the shape (n, groups, k). The sums over k are
    concatenated to the shape (n, groups * features). The gradient is deterministic.
    """
    points, groups, _ = rows.shape
    count, features = table.shape

    def backward(g: Array) -> tuple[Array]:
        parts = g.reshape(points, groups, 1, features) * weights[..., None]
        return (_sums_by_row(rows.reshape(-1), parts.reshape(-1, features), count),)

    values = (table.data[rows] * weights[..., None]).sum(axis=2)
    return record(values.reshape(points, groups * features), (table,), backward)


def _sums_by_row(rows: Array, values: Array, count: int) -> Array:
    """Sum the values that belong to each row: (n,), (n, c) -> (count, c).

    The order of additions is fixed, so that the result is deterministic: on the CPU one after
    another, on a GPU in a tree over the values sorted by row, without atomic additions.
    """
    xp = namespace_of(values)
    if xp is np:
        columns = [np.bincount(rows, column, minlength=count) for column in values.T]
        return np.stack(columns, axis=1).astype(values.dtype)
    return _sums_by_sorting(xp, rows, values, count)


def _sums_by_sorting(xp: ModuleType, rows: Array, values: Array, count: int) -> Array:
    """Compute `_sums_by_row` by sorting, and adding runs of equal rows with doubling strides."""
    order = xp.argsort(rows, kind="stable")
    rows, sums = rows[order], values[order]
    ends = xp.concatenate([xp.flatnonzero(rows[1:] != rows[:-1]), xp.asarray([len(rows) - 1])])
    longest = int(xp.diff(ends, prepend=xp.asarray([-1])).max())
    stride = 1
    while stride < longest:
        same = (rows[stride:] == rows[:-stride])[:, None]
        sums[stride:] = sums[stride:] + xp.where(same, sums[:-stride], 0)
        stride *= 2
    result = xp.zeros((count, values.shape[1]), values.dtype)
    result[rows[ends]] = sums[ends]
    return result


def tanh(x: Tensor) -> Tensor:
    """Compute the hyperbolic tangent."""
    y = namespace_of(x.data).tanh(x.data)
    return record(y, (x,), lambda g: (g * (1 - y * y),))


def relu(x: Tensor) -> Tensor:
    """Compute max(x, 0); the derivative at 0 is 0."""
    xp = namespace_of(x.data)
    return record(xp.maximum(x.data, 0), (x,), lambda g: (g * (x.data > 0),))


def sigmoid(x: Tensor, steepness: float = 1.0) -> Tensor:
    """Compute 1 / (1 + exp(-steepness * x)) with tanh, which cannot overflow."""
    half = x.data.dtype.type(0.5)
    y = namespace_of(x.data).tanh(x.data * (half * x.data.dtype.type(steepness)))
    y *= half
    y += half
    return record(y, (x,), lambda g: (g * (y * (1 - y)) * y.dtype.type(steepness),))


def mean_axis(x: Tensor, axis: int) -> Tensor:
    """Compute the mean along one axis, which is removed."""
    xp = namespace_of(x.data)
    count = x.shape[axis]
    return record(
        x.data.mean(axis=axis),
        (x,),
        lambda g: (xp.broadcast_to(xp.expand_dims(g / count, axis), x.shape),),
    )


def group_means(x: Tensor, sizes: Sequence[int]) -> Tensor:
    """Compute means of consecutive rows: (n * sum(sizes), c) -> (n, len(sizes), c)."""
    xp = namespace_of(x.data)
    columns = x.shape[1]
    rows = x.data.reshape(-1, sum(sizes), columns)
    ends = list(itertools.accumulate(sizes))
    means = [rows[:, end - size : end].mean(axis=1) for size, end in zip(sizes, ends, strict=True)]

    def backward(g: Array) -> tuple[Array]:
        parts = [
            xp.broadcast_to(g[:, [group]] / size, (len(g), size, columns))
            for group, size in enumerate(sizes)
        ]
        return (xp.concatenate(parts, axis=1).reshape(x.shape),)

    return record(xp.stack(means, axis=1), (x,), backward)


def reshape(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Return the same elements in another shape."""
    return record(x.data.reshape(shape), (x,), lambda g: (g.reshape(x.shape),))


def transpose(x: Tensor) -> Tensor:
    """Transpose a matrix."""
    return record(x.data.T, (x,), lambda g: (g.T,))


def flatten(x: Tensor) -> Tensor:
    """Flatten each sample to a row: (n, ...) -> (n, values)."""
    return reshape(x, (len(x.data), math.prod(x.shape[1:])))


def concatenate(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Concatenate tensors along one axis."""
    xp = namespace_of(parts[0].data)
    ends = list(itertools.accumulate((part.shape[axis] for part in parts), initial=0))

    def backward(g: Array) -> tuple[Array, ...]:
        return tuple(
            g.take(xp.arange(start, end), axis=axis) for start, end in itertools.pairwise(ends)
        )

    return record(xp.concatenate([part.data for part in parts], axis=axis), tuple(parts), backward)
