"""Compilation of kernels from their sources, as far as it can be tested without a GPU."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from make_objective import SIREN, make_objective

from neuralfield.engines.cuda import source
from neuralfield.engines.cuda.buffers import PartialGradient
from neuralfield.engines.cuda.stages.sampling import (
    block_constants,
    part_starts,
)
from neuralfield.engines.cuda.stages.update import (
    work_table,
)
from neuralfield.engines.flat_arrays import flatten_arrays
from neuralfield.engines.kernel_plan import network_plan
from neuralfield.nn.blocks import Blocks
from neuralfield.nn.optimizers import state_keys
from neuralfield.system.device import select_device

CPU = select_device("cpu")


PACKAGE = Path(source.__file__).parents[2]


def test_included_files_of_any_folder_are_put_in_place_once(tmp_path):
    (tmp_path / "folder").mkdir()
    first = tmp_path / "folder" / "a.cu"
    first.write_text('#include "b.cuh"\n#include "../c.cuh"\n#include <x.h>\nlast\n')
    (tmp_path / "folder" / "b.cuh").write_text('#pragma once\n#include "../c.cuh"\nb\n')
    (tmp_path / "c.cuh").write_text("// c\n#pragma once\nc\n")
    assert source.read_source(first) == "// c\nc\nb\n#include <x.h>\nlast\n"


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.cu*")), ids=lambda path: path.name)
def test_every_kernel_finds_what_it_includes(path):
    assert '#include "' not in source.read_source(path)


def test_constants_are_written_so_that_they_read_back():
    lines = source.define_lines({"A": 3, "B": 0.1, "C": True, "D": "5ull", "E": 1e-8})
    assert lines == ("#define A 3\n#define B 0.1\n#define C 1\n#define D 5ull\n#define E 1e-08\n")
    assert source.define_lines({"F": [(1, "2u"), (True, 0.5)]}) == "#define F {{1, 2u}, {1, 0.5}}\n"


@pytest.mark.parametrize(
    ("field", "encoding", "sizes"),
    [
        (SIREN, "identity", [(2, 24), (24, 24), (24, 24), (24, 3)]),
        ({"type": "mlp", "widths": [8, 6]}, "identity", [(2, 8), (8, 6), (6, 3)]),
        ({"type": "mlp", "widths": [8], "coordinates": "corners"}, "corners", [(3, 8), (8, 3)]),
        (
            {"type": "fourier", "frequencies": 5, "width": 8, "hidden_layers": 1},
            "fourier",
            [(10, 8), (8, 3)],
        ),
    ],
)
def test_a_network_is_described_by_its_plan(field, encoding, sizes):
    network = make_objective(field, channels=3).network
    plan = network_plan(network)
    assert plan.encoding == encoding
    assert [(layer.fan_in, layer.fan_out) for layer in plan.layers] == sizes
    assert [layer.has_bias for layer in plan.layers] == [True] * len(sizes)
    assert plan.layers[-1].activation is None
    assert plan.parameter_names == tuple(network.parameters)
    if field is SIREN:
        assert {(layer.activation, layer.frequency) for layer in plan.layers[:-1]} == {("sine", 30)}


@pytest.mark.parametrize(
    ("width", "height", "count", "expected"),
    [
        (384, 256, 4096, (52, ["16u", "20u", "25u"], ["9u", "13u", "16u"], "unsigned int")),
        (300, 300, 1, (1, ["90000u"], ["55627u"], "unsigned long long")),
        (60_000, 1, 50_000, (1, ["1u", "2u"], ["1u", "1u"], "unsigned int")),
        (90_000, 1, 50_000, (1, ["1u", "2u"], ["1u", "1u"], "unsigned long long")),
    ],
)
def test_kernels_know_the_blocks_and_use_64_bits_where_products_need_them(
    width, height, count, expected
):
    assert tuple(block_constants(Blocks(np, width, height, count)).values()) == expected


def test_samples_by_density_stay_in_their_parts():
    objective = make_objective(batch_pixels=50, detail_share=1.0)
    starts = part_starts(np, objective.batches.cumulative_density, 50)
    for step in range(100):
        pixels = objective.batches.indices(step)
        assert (starts[:-1] <= pixels).all()
        assert (pixels <= np.minimum(starts[1:], 23 * 17 - 1)).all()


def test_arrays_become_views_of_one():
    state = {"a": np.arange(6.0).reshape(2, 3), "b": np.array([7.0])}
    flat = flatten_arrays(CPU, [(state, "a"), (state, "b")])
    flat += 1
    assert state["a"].tolist() == [[1, 2, 3], [4, 5, 6]]
    assert state["b"].tolist() == [8]


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_blocks_of_the_update_cover_each_parameter_once(optimizer):
    objective = make_objective(channels=3, optimizer=optimizer)
    array = SimpleNamespace(data=SimpleNamespace(ptr=1 << 20), size=9 * 4096)
    tensors, state = objective.network.parameters, objective.optimizer.state
    gradients = [
        PartialGradient(array, 9, 4096, tensor.shape[-1], 0, 1.0) for tensor in tensors.values()
    ]
    hidden = objective.network.hidden_matrices if optimizer == "muon" else ()
    directions: dict[str, Any] = dict.fromkeys(hidden, array)
    places = [
        [state[key] for key in keys] for keys in state_keys(objective.optimizer, list(tensors))
    ]
    first, second = (np.zeros(sum(part.size for part in parts), int) for parts in places)
    assert first.size == objective.network.parameter_count
    for work in work_table(tensors, gradients, directions):
        own = np.arange(work["first"], min(work["first"] + work["elements"], work["size"]))
        first[work["parameter_offset"] + own] += 1
        if not work["direction"]:
            second[work["moment2_offset"] + own] += 1
        assert not work["is_vector"] or work["columns"] % 4 == 0
    assert (first == 1).all()
    assert (second == 1).all()
