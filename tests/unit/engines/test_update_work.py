"""The division of the cuda engine's update into work for thread blocks."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from neuralfield.engines.cuda.buffers import PartialGradient
from neuralfield.engines.cuda.stages.update import work_table
from neuralfield.nn.tensor import Tensor


def works_of(shape, size, parts=1, part_stride=None, row_stride=None, columns=None):
    """Return the work for a gradient in an array of `size` numbers; its rows follow each other."""
    stride = part_stride or int(np.prod(shape))
    array: Any = SimpleNamespace(size=size, data=SimpleNamespace(ptr=256))
    row_stride = row_stride or shape[-1]
    gradient = PartialGradient(array, parts, stride, row_stride, 0, 1.0, columns=columns)
    return work_table({"table": Tensor(np.zeros(shape))}, [gradient], {})


@pytest.mark.parametrize("rows", [1, 2, 63, 64, 1000])
@pytest.mark.parametrize("columns", [1, 2, 3, 4, 8])
def test_narrow_rows_are_read_four_numbers_at_a_time_where_the_array_has_them(rows, columns):
    size = rows * columns
    with_room = works_of((rows, columns), -(-size // 4) * 4, part_stride=-(-size // 4) * 4)
    assert with_room["is_vector"].all()
    assert with_room["first"].tolist() == list(range(0, size, 128))
    assert (with_room["columns"] >= size).all()
    exact = works_of((rows, columns), size)
    assert exact["is_vector"].all() == (size % 4 == 0)


def test_the_last_of_several_parts_is_not_read_beyond_the_array():
    assert not works_of((3, 2), 14, parts=2, part_stride=8)["is_vector"].any()
    assert works_of((3, 2), 16, parts=2, part_stride=8)["is_vector"].all()


def test_a_row_of_a_parameter_may_be_several_rows_of_its_gradient():
    """The gradient holds the factors of a product, each of them padded."""
    works = works_of((5, 3 * 96), 5 * 3 * 128, row_stride=128, columns=96)
    assert set(works["columns"]) == {96}
    assert set(works["row_stride"]) == {128}
    assert works["is_vector"].all()
    assert works["first"].tolist() == list(range(0, 5 * 3 * 96, 128))
    unaligned = works_of((5, 3 * 33), 5 * 3 * 64, row_stride=64, columns=33)
    assert not unaligned["is_vector"].any()


def test_blocks_that_add_up_most_come_first():
    array: Any = SimpleNamespace(size=1 << 20, data=SimpleNamespace(ptr=256))
    few, many = (PartialGradient(array, parts, 4096, 32, 0, 1.0) for parts in (22, 132))
    tensors = {
        name: Tensor(np.zeros((rows, 32))) for name, rows in (("a", 32), ("b", 64), ("c", 8))
    }
    works = work_table(tensors, [few, many, many], {})
    assert works["parts"].tolist() == [132] * 18 + [22] * 8
    firsts = range(0, 2048, 128), range(0, 256, 128), range(0, 1024, 128)
    assert works["first"].tolist() == [first for each in firsts for first in each]
