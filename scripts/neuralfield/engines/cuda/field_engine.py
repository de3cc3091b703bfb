"""The cuda engine for fields: fused kernels, in one of several passes."""

from math import prod

from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.buffers import Buffers, PassArguments
from neuralfield.engines.cuda.fused.narrow_pass import NarrowPass
from neuralfield.engines.cuda.fused.wide_pass import WidePass
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.engines.cuda.portable.complex_pass import make_pass
from neuralfield.engines.cuda.portable.layer_pass import LayerPass
from neuralfield.engines.cuda.recorded_engine import RecordedEngine, Stages, made_in_memory
from neuralfield.engines.cuda.recorded_steps import named_range
from neuralfield.engines.cuda.source import compiled_together
from neuralfield.engines.cuda.stages.sampling import SamplingStage
from neuralfield.engines.cuda.stages.update import UpdateStage
from neuralfield.engines.flat_arrays import flatten_parameters
from neuralfield.engines.kernel_plan import (
    LOSSES,
    TILE_ROWS,
    BatchPlan,
    NetworkPlan,
    NotCovered,
    batch_plan,
    network_plan,
    no_kernels_for,
)
from neuralfield.system.device import Device
from neuralfield.tasks.image.image_objective import ImageObjective

_PassType = type[NarrowPass] | type[WidePass] | type[LayerPass]
_PASSES: tuple[_PassType, ...] = (NarrowPass, WidePass, LayerPass)
"""Passes in order of preference: the first one that covers an objective is used."""

_MOST_NUMBERS = 1 << 31
"""Upper bound on the size of one parameter, because kernels count its numbers in 32 bits."""

_REMEDY = "use smaller batches (training: batch_pixels) or a smaller image (images: size)"


class CudaEngine(RecordedEngine):
    """Takes training steps of a field, with a network in float32, entirely on the GPU.

    The objective's parameters and the optimizer's state become views of flat arrays. `NotCovered`
    is raised if there are no kernels for the objective, and `ResourceError` if the GPU has too
    little memory. For `precision` see `make_engine`.
    """

    def __init__(self, objective: ImageObjective, device: Device, precision: str) -> None:
        recorded_engine.require_kernels(objective, precision, device)
        network, batch = network_plan(objective.network), batch_plan(objective)
        pass_type, precision = _choose_pass(network, batch, precision, compute_capability(device))
        with made_in_memory(objective, device, _data_bytes(objective, batch), _REMEDY):
            with named_range(device.xp.cuda, "compile"), compiled_together(device):
                buffers = _make_buffers(objective, batch, device)
                given = PassArguments(device, network, batch, buffers, precision)
                stages = _make_stages(objective, pass_type, given)
            super().__init__(device, objective, stages, precision)


def _make_stages(objective: ImageObjective, pass_type: _PassType, given: PassArguments) -> Stages:
    device, buffers = given.device, given.buffers
    step = device.xp.zeros((), dtype="int64")
    own_pass = make_pass(pass_type, given)
    sampling = SamplingStage(device, objective, given.network, given.batch, buffers, step)
    update = UpdateStage(device, objective, buffers.parameters, own_pass, step, given.precision)
    return Stages(sampling, own_pass, update)


def _choose_pass(
    network: NetworkPlan, batch: BatchPlan, precision: str, capability: int
) -> tuple[_PassType, str]:
    """Choose a pass and its precision; raise `NotCovered` if there is none."""
    if batch.loss not in LOSSES:
        raise no_kernels_for(f"the loss {batch.loss}")
    if batch.points > TILE_ROWS:
        raise no_kernels_for(f"more than {TILE_ROWS} points a pixel")
    if network.levels and prod(network.table_shape) >= _MOST_NUMBERS:
        raise no_kernels_for(f"grids of {prod(network.table_shape):,} numbers")
    reason = NotCovered()
    for candidate in ("mixed", "float32") if precision == "auto" else (precision,):
        for pass_type in _PASSES:
            try:
                pass_type.require_kernels(network, batch, candidate, capability)
            except NotCovered as lacking:
                reason = lacking
            else:
                return pass_type, candidate
    raise reason


def _data_bytes(objective: ImageObjective, batch: BatchPlan) -> int:
    """Count the bytes of the image and of a batch."""
    rows = 8 * batch.rows + 4 * batch.pixels * (batch.channels + int(batch.weighted))
    return objective.values.nbytes + rows


def _make_buffers(objective: ImageObjective, batch: BatchPlan, device: Device) -> Buffers:
    xp, network = device.xp, objective.network
    flat, offsets = flatten_parameters(device, network)
    return Buffers(
        parameters=flat,
        offsets=offsets,
        inputs=xp.zeros((batch.rows, 2), dtype="float32"),
        targets=xp.zeros((batch.pixels, batch.channels), dtype="float32"),
        weights=xp.zeros(batch.pixels, dtype="float32") if batch.weighted else None,
        frequencies=network.buffers.get("encoding.frequencies"),
    )
