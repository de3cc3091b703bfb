"""From a network and a problem to the plain numbers that kernels are compiled for."""

from neuralfield.engines.picture_problem import PictureProblem
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.fields.network import CornerBias, FourierFeatures, Identity
from neuralfield.kernels.plan import BatchPlan, LayerPlan, NetworkPlan

_ENCODINGS = {
    Identity: "identity",
    CornerBias: "corners",
    FourierFeatures: "fourier",
    HashEncoding: "hashgrid",
}


def network_plan(network: CoordinateNetwork) -> NetworkPlan:
    """What kernels have to know of a network."""
    activations = [(a.name, a.frequency) for a in network.activations] + [(None, 1.0)]
    layers = tuple(
        LayerPlan(layer.fan_in, layer.fan_out, layer.bias is not None, name, float(frequency))
        for layer, (name, frequency) in zip(network.layers, activations, strict=True)
    )
    kind = type(network.encoding)
    encoding = _ENCODINGS.get(kind, kind.__name__)
    grids = network.encoding.levels if isinstance(network.encoding, HashEncoding) else ()
    levels = tuple((grid.resolution, grid.start, grid.rows) for grid in grids)
    output, names = network.output, tuple(network.parameters)
    return NetworkPlan(encoding, layers, output.name, output.steepness, names, levels)


def batch_plan(problem: PictureProblem) -> BatchPlan:
    """What kernels have to know of a problem's batches."""
    footprint, batches, shape = problem.footprint, problem.batches, problem.shape
    is_picture = footprint is None and batches.is_everything
    return BatchPlan(
        pixels=batches.size,
        points=problem.points,
        footprint=footprint is not None,
        loss=problem.loss,
        huber_delta=problem.huber_delta,
        channels=shape.channels,
        weighted=batches.is_weighted,
        picture=(shape.width, shape.height) if is_picture else None,
    )
