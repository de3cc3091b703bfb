"""The gradients of the cuda engine compared with the tape's."""

from typing import Any

import numpy as np
import pytest
from make_objective import SIREN, make_objective

from neuralfield.engines.cuda import field_engine as cuda_engine
from neuralfield.engines.cuda.field_engine import CudaEngine
from neuralfield.engines.cuda.fused.narrow_pass import NarrowPass
from neuralfield.engines.cuda.fused.wgmma import uses_wgmma
from neuralfield.engines.cuda.fused.wide_pass import WidePass
from neuralfield.engines.cuda.portable.layer_pass import LayerPass
from neuralfield.engines.kernel_plan import NotCovered, batch_plan, network_plan
from neuralfield.engines.tape import TapeEngine
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import gpu_is_present, select_device, to_host
from neuralfield.tasks.image.presets import read_preset

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not gpu_is_present(), reason="no NVIDIA driver answers, or no CuPy"),
]

CPU = select_device("cpu")
FREQUENCIES_4X64 = {
    "type": "fourier",
    "frequencies": 20,
    "hidden_layers": 4,
    "width": 64,
    "scale": 2.0,
}
ORIGINAL = read_preset("original")
GRIDS = {
    "type": "hashgrid",
    "levels": 6,
    "base_resolution": 3,
    "log2_table_size": 7,
    "hidden_layers": 2,
    "width": 64,
}
FINER = {"type": "finer", "hidden_layers": 2, "first_omega_0": 20.0, "omega_0": 30.0}
WIRE = {"type": "wire", "hidden_layers": 2, "width": 12}
GAUSS = {"type": "gauss", "hidden_layers": 2}
CAFE = {"type": "cafe", "scale": 2.0}


class PortableNarrowPass(NarrowPass):
    """A narrow pass with the products of other GPUs."""


class PortableWidePass(WidePass):
    """A wide pass with the products of other GPUs."""


PORTABLE = (PortableNarrowPass, PortableWidePass)
PASSES_AND_PRECISIONS = [
    (NarrowPass, "mixed"),
    (WidePass, "mixed"),
    *((pass_type, "mixed") for pass_type in PORTABLE),
    (LayerPass, "mixed"),
    (LayerPass, "float32"),
]
MOST_RELATIVE_ERROR = {"mixed": 1e-2, "float32": 2e-4}
MOST_ERROR_BEHIND_FEATURES = {"mixed": 3e-2, "float32": 2e-4}
"""Rounding to fp16 switches some relus on or off, which causes errors of 0.01 to 0.02 even in
NumPy."""


@pytest.fixture(scope="module")
def gpu():
    return select_device("gpu")


def gradients_of(engine):
    """Return the gradients of the first batch, which the engine's constructor has computed."""
    summed = []
    for partial in engine.stages.own_pass.partial_gradients():
        flat = to_host(partial.array).ravel()[partial.offset :].astype(np.float64)
        summed.append((partial, flat))
    gradients = {}
    tensors = engine.objective.network.parameters
    for (name, tensor), (partial, flat) in zip(tensors.items(), summed, strict=True):
        columns = partial.columns or tensor.shape[-1]
        rows = tensor.data.size // columns
        strides = (8 * partial.part_stride, 8 * partial.row_stride, 8)
        parts = np.lib.stride_tricks.as_strided(flat, (partial.parts, rows, columns), strides)
        gradients[name] = (partial.scale * parts.sum(axis=0)).reshape(tensor.shape)
    return gradients


def reference_gradients(field, settings):
    """Compute the tape's gradients in float64, from a step of plain descent with a rate of 1."""
    plain: dict[str, Any] = {"optimizer": "sgd", "schedule": Schedule("constant", 1.0, 0.0, 10)}
    objective = make_objective(field, dtype="float64", **settings, **plain)
    before = {name: tensor.data.copy() for name, tensor in objective.network.parameters.items()}
    engine = TapeEngine(objective, CPU, 1)
    engine.run(0, 1)
    after = objective.network.parameters
    return {name: array - after[name].data for name, array in before.items()}, engine.totals


def make_cuda_engine(gpu, monkeypatch, pass_type, precision, objective):
    plans = network_plan(objective.network), batch_plan(objective)
    capability = int(gpu.xp.cuda.Device().compute_capability)
    try:
        pass_type.require_kernels(*plans, precision, capability)
        reason = ""
    except NotCovered as lacking:
        reason = str(lacking)
    is_portable = pass_type in PORTABLE
    if is_portable and not uses_wgmma(capability):
        reason = "the same as the pass itself"
    if reason:
        pytest.skip(reason)
    monkeypatch.setattr(cuda_engine, "_PASSES", (pass_type,))
    monkeypatch.setenv("NEURALFIELD_PASS", "portable" if is_portable else "")
    return CudaEngine(objective, gpu, precision)


def mlp(activation, *widths, **settings):
    return {"type": "mlp", "activation": activation, "widths": list(widths), **settings}


CASES = {
    "siren": (SIREN, {}),
    "siren, no hidden layer": ({**SIREN, "hidden_layers": 0}, {}),
    "siren 64, colour": ({**SIREN, "width": 64}, {"channels": 3}),
    "siren 128, transparent": ({**SIREN, "width": 128}, {"channels": 4}),
    "siren 256": ({**SIREN, "width": 256}, {"batch_pixels": 300}),
    "siren 136, uneven halves": (
        {**SIREN, "width": 136, "hidden_layers": 2},
        {"batch_pixels": 300},
    ),
    "siren 96, footprint 4": ({**SIREN, "width": 96}, {"points": 4, "batch_pixels": 200}),
    "siren, footprint 2": (SIREN, {"points": 2, "channels": 3}),
    "siren, footprint 5, density": (
        SIREN,
        {"points": 5, "batch_pixels": 100, "detail_share": 0.5, "channels": 3},
    ),
    "siren, footprint 64": (SIREN, {"points": 64, "batch_pixels": 5}),
    # more tiles than the fused pass processes at the same time
    "siren 256, rounds": ({**SIREN, "width": 256, "hidden_layers": 1}, {"points": 64}),
    "tanh, unequal, rounds": (mlp("tanh", 128, 256, 64), {"points": 64}),
    "tanh, unequal": (mlp("tanh", 40, 17, 64), {}),
    "relu, unequal": (mlp("relu", 33, 80), {"channels": 3}),
    "sigmoid, unequal": (mlp("sigmoid", 50, 20), {}),
    "no bias": (mlp("tanh", 32, 32, bias=False), {}),
    "original": (ORIGINAL, {"batch_pixels": 200}),
    "original, footprint": (ORIGINAL, {"batch_pixels": 100, "points": 3}),
    "fourier": ({"type": "fourier", "frequencies": 20, "width": 48, "scale": 2.0}, {"channels": 3}),
    "fourier, narrow layers": (
        {"type": "fourier", "frequencies": 7, "hidden_layers": 3, "width": 24, "scale": 0.5},
        {"channels": 4},
    ),
    "fourier 4x64": (FREQUENCIES_4X64, {"channels": 3, "width": 80, "height": 50}),
    "fourier 4x64, footprint 4": (
        FREQUENCIES_4X64,
        {"channels": 3, "points": 4, "width": 80, "height": 50},
    ),
    "grids": (GRIDS, {"channels": 3, "width": 80, "height": 50}),
    "grids, cropped": (
        {**GRIDS, "activation": "tanh", "cropped": True},
        {"channels": 3, "width": 80, "height": 50},
    ),
    "grids, cropped, some pixels": (
        {**GRIDS, "activation": "tanh", "cropped": True},
        {"batch_pixels": 100, "width": 30, "height": 70},
    ),
    "grids, one pixel": (GRIDS, {"width": 1, "height": 1}),
    "grids, a line": (GRIDS, {"width": 3, "height": 61, "channels": 4}),
    "grids, some pixels": (GRIDS, {"batch_pixels": 100, "channels": 3}),
    "grids, one of the pixels": (GRIDS, {"batch_pixels": 1}),
    "grids, footprint 4": (GRIDS, {"points": 4}),
    "grids, footprint 3, density": (
        GRIDS,
        {"points": 3, "batch_pixels": 65, "detail_share": 0.5, "channels": 3},
    ),
    "grids of 1 number, narrow": (
        {**GRIDS, "features": 1, "width": 20, "hidden_layers": 1},
        {"channels": 2},
    ),
    "grids of 3 numbers, fine": (
        {**GRIDS, "levels": 3, "features": 3, "finest_resolution": 200, "width": 40},
        {"width": 33, "height": 70},
    ),
    "grids of 4 numbers": (
        {**GRIDS, "levels": 5, "features": 4, "hidden_layers": 3, "width": 32},
        {"channels": 3},
    ),
    "one grid of 8 numbers, wide": ({**GRIDS, "levels": 1, "features": 8, "width": 100}, {}),
    "siren 5x64": ({**SIREN, "width": 64, "hidden_layers": 4}, {"channels": 2}),
    "relu, 8 layers": (mlp("relu", *[32] * 8), {"channels": 3}),
    "tanh, 6 layers": (mlp("tanh", 16, 24, 32, 24, 48, 16), {"channels": 3, "points": 3}),
    "sigmoid 2x64, no bias": (mlp("sigmoid", 64, 64, bias=False), {"points": 2}),
    "finer": ({**FINER, "width": 24}, {}),
    "finer 256, footprint 3": ({**FINER, "width": 256}, {"channels": 3, "points": 3}),
    "finer 64, colour": ({**FINER, "width": 64}, {"channels": 3}),
    "finer 100, transparent": ({**FINER, "width": 100, "hidden_layers": 1}, {"channels": 4}),
    "finer, far out": ({**FINER, "width": 40, "first_bias": 8.0}, {"batch_pixels": 65}),
    "wire": (WIRE, {}),
    "wire, no hidden layer": ({**WIRE, "hidden_layers": 0}, {"channels": 2}),
    "wire 128, footprint 3": ({**WIRE, "width": 128}, {"channels": 3, "points": 3}),
    "wire 90, colour": ({**WIRE, "width": 90, "hidden_layers": 3}, {"channels": 3}),
    "wire 45, transparent": ({**WIRE, "width": 45, "hidden_layers": 1}, {"channels": 4}),
    "wire, narrow bells": (
        {**WIRE, "width": 40, "omega_0": 10.0, "scale": 30.0},
        {"batch_pixels": 65},
    ),
    "wire, wide bells": ({**WIRE, "width": 40, "omega_0": 30.0, "scale": 8.0}, {"channels": 3}),
    "wire, many periods": ({**WIRE, "width": 40, "omega_0": 30.0, "scale": 3.0}, {"channels": 3}),
    "gauss": ({**GAUSS, "width": 24}, {}),
    "gauss 256, footprint 3": ({**GAUSS, "width": 256}, {"channels": 3, "points": 3}),
    "gauss 64, colour": ({**GAUSS, "width": 64}, {"channels": 3}),
    "gauss 100, transparent": ({**GAUSS, "width": 100, "hidden_layers": 1}, {"channels": 4}),
    "cafe": (CAFE, {"channels": 3}),
    "cafe, footprint 3": (CAFE, {"channels": 3, "points": 3, "batch_pixels": 100}),
    "cafe of 7 factors, odd sizes": (
        {**CAFE, "frequencies": 9, "chebyshev_degree": 5, "factors": 7, "width": 33},
        {"channels": 2, "batch_pixels": 63},
    ),
    "cafe, no layer behind": ({**CAFE, "hidden_layers": 0, "width": 40}, {"channels": 3}),
    "cross-entropy": (
        {**SIREN, "output": "sigmoid"},
        {"loss": "binary_cross_entropy", "batch_pixels": 100},
    ),
    "cross-entropy, footprint": (
        {**SIREN, "output": "sigmoid"},
        {"loss": "binary_cross_entropy", "batch_pixels": 64, "points": 3},
    ),
    "huber": (SIREN, {"loss": "huber"}),
    "huber, footprint": (SIREN, {"loss": "huber", "points": 4, "batch_pixels": 100}),
    **{
        f"batch of {pixels}": (SIREN, {"batch_pixels": pixels, "width": 40, "height": 30})
        for pixels in (1, 63, 64, 65, 1000)
    },
    **{
        f"batch of {pixels}, footprint 3": (
            SIREN,
            {"batch_pixels": pixels, "width": 40, "height": 30, "points": 3},
        )
        for pixels in (1, 63, 64, 65, 1000)
    },
}


@pytest.mark.parametrize(("pass_type", "precision"), PASSES_AND_PRECISIONS)
@pytest.mark.parametrize("case", CASES)
def test_gradients_are_those_of_the_tape(gpu, monkeypatch, case, pass_type, precision):
    field, settings = CASES[case]
    objective = make_objective(field, device=gpu, **settings)
    engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, objective)
    gradients = gradients_of(engine)
    expected, expected_totals = reference_gradients(field, settings)
    errors = {
        name: np.linalg.norm(gradients[name] - array) / np.linalg.norm(array)
        for name, array in expected.items()
    }
    opens_relus = field["type"] in ("fourier", "hashgrid", "cafe")
    limits = MOST_ERROR_BEHIND_FEATURES if opens_relus else MOST_RELATIVE_ERROR
    assert max(errors.values()) < limits[precision], errors
    engine.run(0, 1)
    tolerance = MOST_RELATIVE_ERROR[precision]
    np.testing.assert_allclose(to_host(engine.totals), expected_totals, rtol=tolerance, atol=1e-5)
    engine.close()


class LayersInChunks(LayerPass):
    """A layer pass with a small memory budget."""

    memory_budget_bytes = 1 << 19


@pytest.mark.parametrize("precision", ["mixed", "float32"])
@pytest.mark.parametrize("settings", [{}, {"points": 3}, {"batch_pixels": 1111}], ids=str)
def test_chunks_change_no_bit_of_the_gradient_of_grids(gpu, monkeypatch, settings, precision):
    found = []
    for pass_type in (LayerPass, LayersInChunks):
        objective = make_objective(GRIDS, device=gpu, width=80, height=50, **settings)
        engine = make_cuda_engine(gpu, monkeypatch, pass_type, precision, objective)
        found.append(gradients_of(engine)["encoding.table"])
        engine.close()
    np.testing.assert_array_equal(*found)
