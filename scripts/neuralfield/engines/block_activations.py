"""Activations over a block's values, in place: one entry each, with the value and its slope."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

_HALF = np.float32(0.5)


@dataclass(frozen=True)
class BlockActivation:
    """A function applied to every element, and its derivative.

    Attributes
    ----------
    value : callable (argument, out)
        `out` may be `argument` itself.
    slope : callable (argument, value, out)
        From what is left of the argument after `value`, and the value. `out` may be `argument`.
    needs_argument : bool
        Whether `slope` looks at the argument: it is then kept from the way forward.
    """

    value: Callable[[np.ndarray, np.ndarray], object]
    slope: Callable[[np.ndarray, np.ndarray, np.ndarray], object]
    needs_argument: bool


def _tanh_slope(_: np.ndarray, value: np.ndarray, out: np.ndarray) -> None:
    np.multiply(value, value, out=out)
    np.subtract(np.float32(1), out, out=out)


def _sigmoid(argument: np.ndarray, out: np.ndarray) -> None:
    np.multiply(argument, _HALF, out=out)
    np.tanh(out, out=out)
    out *= _HALF
    out += _HALF


def _sigmoid_slope(_: np.ndarray, value: np.ndarray, out: np.ndarray) -> None:
    np.subtract(np.float32(1), value, out=out)
    out *= value


BLOCK_ACTIVATIONS: dict[str, BlockActivation] = {
    "sine": BlockActivation(
        lambda argument, out: np.sin(argument, out=out),
        lambda argument, value, out: np.cos(argument, out=out),
        needs_argument=True,
    ),
    "tanh": BlockActivation(
        lambda argument, out: np.tanh(argument, out=out), _tanh_slope, needs_argument=False
    ),
    "relu": BlockActivation(
        lambda argument, out: np.maximum(argument, 0, out=out),
        lambda argument, value, out: np.sign(value, out=out),
        needs_argument=False,
    ),
    "sigmoid": BlockActivation(_sigmoid, _sigmoid_slope, needs_argument=False),
}
"""What the cpu engine has code for; another activation is trained on the tape."""
