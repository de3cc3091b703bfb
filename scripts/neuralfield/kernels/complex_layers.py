"""Layers of complex numbers as real ones of twice the width: twin of `complex_layers.cu`.

(a + i b) (A + i B) is the pair (a, b) times [[A, B], [-B, A]]. The two parts of a number are
neighbours: complex value j is real values 2 j and 2 j + 1. Kernels work on the real network, whose
parameters are made of the complex one's, and whose gradients are taken back to these.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neuralfield.device import Array, namespace_of


@dataclass(frozen=True)
class Place:
    """Where the first number of a parameter stands in a tensor of the real network.

    Attributes
    ----------
    row, column : int
    sign : {1, -1}
        Of all numbers there.
    """

    row: int
    column: int
    sign: int = 1


@dataclass(frozen=True)
class ComplexPart:
    """A parameter, and where its numbers stand in the real network.

    Number (i, j) is ``row_step * i`` rows and ``across * i + column_step * j`` columns away from
    the first, in all places. Biases are rows here.

    Attributes
    ----------
    name : str
    rows, columns : int
        Of the parameter.
    tensor : str
        Of the real network.
    places : tuple of Place
        One or two.
    row_step, column_step, across : int
    """

    name: str
    rows: int
    columns: int
    tensor: str
    places: tuple[Place, ...]
    row_step: int = 1
    column_step: int = 1
    across: int = 0


def parts_of_real_layer(index: int, fan_in: int, fan_out: int) -> list[ComplexPart]:
    """Of a layer whose real outputs have an imaginary part of 0: weight and bias."""
    weight, bias = f"layers.{index}.weight", f"layers.{index}.bias"
    places = (Place(0, 0),)
    return [
        ComplexPart(weight, fan_in, fan_out, weight, places, column_step=2),
        ComplexPart(bias, 1, fan_out, bias, places, column_step=2),
    ]


def parts_of_complex_layer(
    index: int, fan_in: int, fan_out: int, *, real_part_only: bool
) -> list[ComplexPart]:
    """Of a complex layer: A, B and the bias, which is [real parts, imaginary parts].

    Parameters
    ----------
    index : int
    fan_in, fan_out : int
        Complex values.
    real_part_only : bool
        Whether imaginary parts of the outputs are left out.
    """
    layer = f"layers.{index}"
    weight, bias = f"{layer}.weight", f"{layer}.bias"
    shape = (fan_in, fan_out, weight)
    if real_part_only:
        return [
            ComplexPart(f"{layer}.real", *shape, (Place(0, 0),), row_step=2),
            ComplexPart(f"{layer}.imaginary", *shape, (Place(1, 0, -1),), row_step=2),
            ComplexPart(bias, 1, fan_out, bias, (Place(0, 0),)),
        ]
    steps = {"row_step": 2, "column_step": 2}
    return [
        ComplexPart(f"{layer}.real", *shape, (Place(0, 0), Place(1, 1)), **steps),
        ComplexPart(f"{layer}.imaginary", *shape, (Place(0, 1), Place(1, 0, -1)), **steps),
        ComplexPart(bias, 2, fan_out, bias, (Place(0, 0),), row_step=0, column_step=2, across=1),
    ]


def real_parameters(
    parts: Sequence[ComplexPart],
    shapes: Mapping[str, tuple[int, int]],
    parameters: Mapping[str, Array],
) -> dict[str, Array]:
    """Parameters of the real network.

    Parameters
    ----------
    parts : sequence of ComplexPart
    shapes : mapping of name to (rows, columns)
        Of the real network's tensors.
    parameters : mapping of name to array
        Of the complex one.

    Returns
    -------
    dict of name to array, shape (rows, columns)
        In the order of `shapes`.
    """
    first = parameters[parts[0].name]
    xp = namespace_of(first)
    tensors = {name: xp.zeros(shape, first.dtype) for name, shape in shapes.items()}
    for part in parts:
        numbers = parameters[part.name].reshape(part.rows, part.columns)
        for place in part.places:
            tensors[part.tensor][_indices(xp, part, place)] = place.sign * numbers
    return tensors


def complex_gradients(
    parts: Sequence[ComplexPart], gradients: Mapping[str, Array]
) -> dict[str, Array]:
    """Gradients of the complex network's parameters, from those of the real one's.

    Parameters
    ----------
    parts : sequence of ComplexPart
    gradients : mapping of name to array

    Returns
    -------
    dict of name to array, shape (rows, columns)
    """
    found = {}
    for part in parts:
        tensor = gradients[part.tensor]
        tensor = tensor.reshape(-1, tensor.shape[-1])
        xp = namespace_of(tensor)
        found[part.name] = sum(
            place.sign * tensor[_indices(xp, part, place)] for place in part.places
        )
    return found


def _indices(xp: Array, part: ComplexPart, place: Place) -> tuple[Array, Array]:
    """Row and column of each number, to index a tensor with."""
    i, j = xp.arange(part.rows)[:, None], xp.arange(part.columns)
    rows = place.row + part.row_step * i + 0 * j
    return rows, place.column + part.across * i + part.column_step * j
