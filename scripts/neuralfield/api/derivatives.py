"""Derivatives of networks with respect to position, by forward-mode differentiation."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.fields import CoordinateNetwork
from neuralfield.system.device import Array, namespace_of


class Jet:
    """Values, shape (n, k), with their first and second derivatives by x and by y, shape (2, n, k).
    Mixed derivatives are not computed.
    """

    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __init__(self, value: Array, first: Array, second: Array) -> None:
        self.value, self.first, self.second = value, first, second

    def __add__(self, other: Any) -> "Jet":
        if isinstance(other, Jet):
            value, first = self.value + other.value, self.first + other.first
            return Jet(value, first, self.second + other.second)
        return Jet(self.value + other, self.first, self.second)

    def __mul__(self, other: Any) -> "Jet":
        if not isinstance(other, Jet):
            return Jet(self.value * other, self.first * other, self.second * other)
        first = self.first * other.value + self.value * other.first
        second = self.second * other.value + self.value * other.second
        second = second + 2 * self.first * other.first
        return Jet(self.value * other.value, first, second)

    def __matmul__(self, matrix: Array) -> "Jet":
        return Jet(self.value @ matrix, self.first @ matrix, self.second @ matrix)

    def __sub__(self, other: Any) -> "Jet":
        return self + other * -1.0

    def __rsub__(self, other: Any) -> "Jet":
        return self * -1.0 + other

    __radd__, __rmul__ = __add__, __mul__

    def through(self, value: Array, first: Array, second: Array | float) -> "Jet":
        """Apply a scalar function, given its value and derivatives at this jet's value."""
        return Jet(value, first * self.first, second * self.first**2 + first * self.second)


@dataclass(frozen=True)
class JetArithmetic:
    """Implementation of `neuralfield.nn.arithmetic.Arithmetic` for jets.

    `arrays` are the network's arrays by name.
    """

    arrays: dict[str, Array]

    def parameter(self, name: str) -> Array:
        return self.arrays[name]

    def sin(self, x: Jet) -> Jet:
        xp = namespace_of(x.value)
        value = xp.sin(x.value)
        return x.through(value, xp.cos(x.value), -value)

    def cos(self, x: Jet) -> Jet:
        xp = namespace_of(x.value)
        value = xp.cos(x.value)
        return x.through(value, -xp.sin(x.value), -value)

    def exp(self, x: Jet) -> Jet:
        value = namespace_of(x.value).exp(x.value)
        return x.through(value, value, value)

    def tanh(self, x: Jet) -> Jet:
        value = namespace_of(x.value).tanh(x.value)
        return x.through(value, 1 - value**2, -2 * value * (1 - value**2))

    def relu(self, x: Jet) -> Jet:
        return x.through(x.value * (x.value > 0), (x.value > 0) * 1.0, 0.0)

    def absolute(self, x: Jet) -> Jet:
        xp = namespace_of(x.value)
        return x.through(xp.abs(x.value), xp.sign(x.value), 0.0)

    def cell(self, x: Jet, first: list[int], last: list[int]) -> Array:
        xp = namespace_of(x.value)
        bounds = (xp.asarray(bound, x.value.dtype) for bound in (first, last))
        return xp.clip(xp.floor(x.value), *bounds)

    def whole(self, x: Array) -> Array:
        return x.astype(np.int64)

    def rows(self, table: Array, index: Array) -> Array:
        return table[index[:, 0]]

    def columns(self, x: Any, start: int, stop: int) -> Any:
        if not isinstance(x, Jet):
            return x[:, start:stop]
        return Jet(*(part[..., start:stop] for part in (x.value, x.first, x.second)))

    def concatenate(self, parts: Sequence[Any], axis: int = 1) -> Any:
        if not isinstance(parts[0], Jet):
            return namespace_of(parts[0]).concatenate(parts, axis=axis)
        xp = namespace_of(parts[0].value)
        return Jet(
            *(
                xp.concatenate([getattr(part, name) for part in parts], axis=-1)
                for name in ("value", "first", "second")
            )
        )


def derivatives(network: CoordinateNetwork, xy: Array) -> tuple[Array, Array]:
    """Return the first and the second derivatives by x and by y, each of shape (n, channels, 2).

    At points where the network is not differentiable, they are one-sided derivatives.
    """
    xp = namespace_of(xy)
    first = xp.zeros((2, *xy.shape), xy.dtype)
    first[0, :, 0] = first[1, :, 1] = 1
    jet = Jet(xy, first, xp.zeros_like(first))
    found = network.formula(jet, JetArithmetic(network.arrays))
    return xp.moveaxis(found.first, 0, -1), xp.moveaxis(found.second, 0, -1)
