"""Complex layers as real layers of twice the width; see `complex_layers.cu`.

A value a + i b is stored as two neighbouring real numbers, and a weight A + i B as [[A, B],
[-B, A]]. If a layer's inputs are real, only the first row of this block is stored; if only the real
parts of its outputs are used, only the first column. Kernels work on the real network. Its
parameters are computed from those of the complex network, and its gradients are converted to
gradients of the complex parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from neuralfield.system.device import Array, namespace_of


@dataclass(frozen=True)
class ComplexTensor:
    """A weight or bias of complex numbers, and its layout in the real network's tensor."""

    name: str  # the name of the real network's tensor
    rows: int  # complex numbers; a bias is one row
    columns: int
    real: str  # the parameter that holds the real parts
    imaginary: str | None  # None: they are 0; a bias has them in `real`, after all real parts
    row_step: int  # rows of the real tensor per complex number: 1 or 2
    column_step: int  # columns of the real tensor per complex number: 1 or 2

    @property
    def size(self) -> int:
        """The number of complex numbers."""
        return self.rows * self.columns

    @property
    def parameter_sizes(self) -> dict[str, int]:
        """The size of each of its parameters, by name."""
        if self.imaginary in (None, self.real):
            return {self.real: self.size * (1 if self.imaginary is None else 2)}
        return {self.real: self.size, self.imaginary: self.size}

    @property
    def first_imaginary(self) -> int:
        """The index at which the imaginary parts begin in their parameter."""
        return self.size if self.imaginary == self.real else 0


def real_layer(index: int, fan_in: int, fan_out: int) -> list[ComplexTensor]:
    """Describe the weight and bias of a real layer; its outputs have the imaginary part 0."""
    weight, bias = f"layers.{index}.weight", f"layers.{index}.bias"
    return [
        ComplexTensor(weight, fan_in, fan_out, weight, None, 1, 2),
        ComplexTensor(bias, 1, fan_out, bias, None, 1, 2),
    ]


def complex_layer(
    index: int, fan_in: int, fan_out: int, *, real_part_only: bool
) -> list[ComplexTensor]:
    """Describe the weight and bias of a layer from `fan_in` to `fan_out` complex values."""
    weight, bias, step = f"layers.{index}.weight", f"layers.{index}.bias", 2 - real_part_only
    real, imaginary = f"layers.{index}.real", f"layers.{index}.imaginary"
    return [
        ComplexTensor(weight, fan_in, fan_out, real, imaginary, 2, step),
        ComplexTensor(bias, 1, fan_out, bias, None if real_part_only else bias, 1, step),
    ]


def real_parameters(
    tensors: Sequence[ComplexTensor], parameters: Mapping[str, Array]
) -> dict[str, Array]:
    """Compute the parameters of the real network from the complex network's, in the order of
    `tensors`; each has the shape (row_step * rows, column_step * columns).
    """
    made = {}
    for tensor in tensors:
        shape, rows, columns = (tensor.rows, tensor.columns), tensor.row_step, tensor.column_step
        real = parameters[tensor.real].ravel()[: tensor.size].reshape(shape)
        imaginary = namespace_of(real).zeros_like(real)
        if tensor.imaginary is not None:
            imaginary = parameters[tensor.imaginary].ravel()[tensor.first_imaginary :]
        blocks = [[real, imaginary.reshape(shape)], [-imaginary.reshape(shape), real]]
        xp = namespace_of(real)
        whole = xp.zeros((rows * shape[0], columns * shape[1]), real.dtype)
        for i in range(rows):
            for j in range(columns):
                whole[i::rows, j::columns] = blocks[i][j]
        made[tensor.name] = whole
    return made
