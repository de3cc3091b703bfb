"""The cuda engine for fields: fused kernels, in one of several passes."""

from math import prod

from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.buffers import Buffers, PassArguments
from neuralfield.engines.cuda.fused.narrow_pass import NarrowPass
from neuralfield.engines.cuda.fused.wide_pass import WidePass
from neuralfield.engines.cuda.launch import compute_capability
from neuralfield.engines.cuda.portable.complex_pass import make_pass
from neuralfield.engines.cuda.portable.layer_pass import LayerPass
from neuralfield.engines.cuda.recorded_engine import (
    RecordedEngine,
    Stages,
    made_in_memory,
    not_covered,
)
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
    batch_plan,
    network_plan,
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

    The objective's parameters and the optimizer's state become views of flat arrays. A
    `ResourceError` is raised if the GPU has too little memory.
    """

    def __init__(self, objective: ImageObjective, device: Device, precision: str) -> None:
        network, batch = network_plan(objective.network), batch_plan(objective)
        chosen = _choose_pass(network, batch, precision, compute_capability(device))
        assert not isinstance(chosen, str), chosen
        pass_type, precision = chosen
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


def unsupported_reason(objective: ImageObjective, precision: str, device: Device) -> str | None:
    """Return the reason why the cuda engine does not cover an objective, or None; for `precision`
    see `make_engine`.
    """
    found = recorded_engine.unsupported_reason(objective, precision, device)
    if found is not None:
        return found
    network, batch = network_plan(objective.network), batch_plan(objective)
    part = _unsupported_part(network, batch)
    if part is None:
        chosen = _choose_pass(network, batch, precision, compute_capability(device))
        part = chosen if isinstance(chosen, str) else None
    return None if part is None else not_covered(part)


def _unsupported_part(network: NetworkPlan, batch: BatchPlan) -> str | None:
    """Return the name of a part that no pass has code for, or None."""
    if batch.loss not in LOSSES:
        return f"the loss {batch.loss}"
    if batch.points > TILE_ROWS:
        return f"more than {TILE_ROWS} points a pixel"
    if network.levels and prod(network.table_shape) >= _MOST_NUMBERS:
        return f"grids of {prod(network.table_shape):,} numbers"
    return network.unsupported_reason()


def _choose_pass(
    network: NetworkPlan, batch: BatchPlan, precision: str, capability: int
) -> tuple[_PassType, str] | str:
    """Choose a pass and its precision, or return the reason why there is none."""
    reasons = []
    for candidate in ("mixed", "float32") if precision == "auto" else (precision,):
        for pass_type in _PASSES:
            reason = pass_type.unsupported_reason(network, batch, candidate, capability)
            if reason is None:
                return pass_type, candidate
            reasons.append(reason)
    return reasons[-1]


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
