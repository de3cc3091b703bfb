"""The arithmetic of values that are not plain arrays.

A network's `formula` computes the same as the network, but with the operators of the values that it
is given: jets (values with derivatives), PyTorch tensors, or nodes of an ONNX graph.
"""

from collections.abc import Sequence
from typing import Any, Protocol

Value = Any
"""A matrix with the operators +, -, * and @; for whole numbers also & and ^."""


class Arithmetic(Protocol):
    """Functions that formulas apply to the values of a network."""

    def parameter(self, name: str) -> Value:
        """Return an array of the network, by its name in the file."""
        ...

    def sin(self, x: Value, /) -> Value: ...
    def cos(self, x: Value, /) -> Value: ...
    def exp(self, x: Value, /) -> Value: ...
    def tanh(self, x: Value, /) -> Value: ...
    def relu(self, x: Value, /) -> Value: ...
    def absolute(self, x: Value, /) -> Value: ...

    def cell(self, x: Value, first: list[int], last: list[int]) -> Value:
        """Return the floor of x, clipped to bounds for each column; its derivative is 0."""
        ...

    def whole(self, x: Value) -> Value:
        """Return a whole-numbered value as a 64-bit integer."""
        ...

    def rows(self, table: Value, index: Value) -> Value:
        """Return the rows of a table at integer indices of shape (n, 1)."""
        ...

    def columns(self, x: Value, start: int, stop: int) -> Value: ...
    def concatenate(self, parts: Sequence[Value], axis: int = 1) -> Value: ...
