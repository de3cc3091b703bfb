"""The part of the update stage that updates hidden matrices with Muon."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.engines.cuda.buffers import WeightCopy
from neuralfield.engines.cuda.launch import Launch
from neuralfield.engines.cuda.source import compile_module
from neuralfield.nn.optimizers import NEWTON_SCHULZ_STEPS
from neuralfield.system.device import Array, Device

_SIDE = 64
"""Side of tiles; matrices are padded to whole tiles."""

_NORMALISING_BLOCKS = 32
_MATRIX = np.dtype(
    [
        *((name, "u8") for name in ("direction", "squares", "weight", "forward", "backward")),
        ("x", "u8", (2,)),
        *((name, "u8") for name in ("square", "polynomial")),
        *((name, "i4") for name in ("parts", "rows", "columns", "length", "width")),
        ("is_transposed", "i4"),
        *((name, "f4") for name in ("copy_factor", "step_length")),
    ],
    align=True,
)
"""The struct Matrix of muon.cu."""


@dataclass(frozen=True)
class HiddenMatrix:
    """A matrix between two hidden layers, and the arrays of its direction."""

    weight: Array  # begins with the matrix
    direction: Array  # shape (rows, columns)
    squares: Array  # their sum is the squared norm of the direction
    copy: WeightCopy | None  # to be written whenever the weight is updated


class MuonStage:
    """Orthogonalises directions and updates the matrices along them; see `muon.cu`.

    `scalars` has the structs Scalars of `step_scalars.cuh` for two steps; `step` has the number of
    finished steps, including this one. In mixed precision, products are of fp16 matrices, with sums
    in float32. `arrays` have been allocated for the products.
    """

    def __init__(
        self,
        device: Device,
        matrices: Sequence[HiddenMatrix],
        scalars: Array,
        step: Array,
        precision: str,
    ) -> None:
        is_mixed = precision == "mixed"
        dtype = np.float16 if is_mixed else np.float32
        sides = [[side // _SIDE for side in _padded(m.direction.shape)] for m in matrices]
        longest, widest = (max(lengths) for lengths in zip(*sides, strict=True))
        are_small = is_mixed and longest == 1
        table = np.zeros(len(matrices), _MATRIX)
        self.arrays: list[Array] = []
        for line, matrix in zip(table, matrices, strict=True):
            length, width = _padded(matrix.direction.shape)
            shapes = [(length, width)] * 2 + [(width, width)] * 2
            arrays = [] if are_small else [device.xp.zeros(shape, dtype) for shape in shapes]
            self.arrays += arrays
            _fill(line, matrix, [array.data.ptr for array in arrays] or [0] * len(shapes))
        on_gpu, count = device.asarray(table.view(np.uint8)), len(matrices)
        constants = {"MIXED": is_mixed, "STEPS": NEWTON_SCHULZ_STEPS}
        module = compile_module("stages/muon.cu", constants)
        if are_small:
            kernel = module.get_function("move_small_weights")
            self._launches = [Launch(kernel, (count,), (on_gpu, scalars, step))]
            return
        names = ("normalise", "multiply_by_itself", "make_polynomial", "take_step", "move_weights")
        normalise, square, polynomial, take_step, move_weights = map(module.get_function, names)
        square_grid, grid = (widest, widest, count), (widest, longest, count)
        self._launches = [Launch(normalise, (_NORMALISING_BLOCKS, count), (on_gpu,))]
        for number in range(NEWTON_SCHULZ_STEPS):
            self._launches += [
                Launch(square, square_grid, (on_gpu, np.int32(number))),
                Launch(polynomial, square_grid, (on_gpu,)),
                Launch(take_step, grid, (on_gpu, np.int32(number))),
            ]
        # the last step's x is not stored, the weights move along it
        last = (on_gpu, np.int32(NEWTON_SCHULZ_STEPS - 1), scalars, step)
        self._launches[-1] = Launch(move_weights, grid, last)

    def launch(self) -> None:
        """Put the stage on the current stream, after the kernel that writes the directions."""
        for launch in self._launches:
            launch()


def largest_bytes(shapes: Sequence[tuple[int, int]]) -> int:
    """Return an upper bound on the bytes of `MuonStage` and of the matrices' directions."""
    padded = [_padded(shape) for shape in shapes]
    return 4 * sum(3 * length * width + 2 * width * width for length, width in padded)


def _padded(shape: tuple[int, int]) -> tuple[int, int]:
    """Return the longer side and the shorter one, each rounded up to whole tiles."""
    shorter, longer = sorted(-(-side // _SIDE) * _SIDE for side in shape)
    return longer, shorter


def _fill(line: Any, matrix: HiddenMatrix, work: Sequence[int]) -> None:
    """Fill in the numbers of one matrix, and the addresses of its working arrays."""
    for name in ("direction", "squares", "weight"):
        line[name] = getattr(matrix, name).data.ptr
    line["forward"], line["backward"] = matrix.copy.addresses if matrix.copy else (0, 0)
    line["x"], (line["square"], line["polynomial"]) = work[:2], work[2:]
    rows, columns = matrix.direction.shape
    line["parts"], line["rows"], line["columns"] = matrix.squares.size, rows, columns
    line["length"], line["width"] = _padded((rows, columns))
    line["is_transposed"] = rows < columns
    line["copy_factor"] = matrix.copy.factor if matrix.copy else 0.0
    # this factor gives steps the same root mean square as Adam's steps
    line["step_length"] = 0.2 * math.sqrt(max(rows, columns))
