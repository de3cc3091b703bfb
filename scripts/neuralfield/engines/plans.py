"""From a network and a problem to the plain numbers that kernels are compiled for."""

from neuralfield.engines.picture_problem import PictureProblem
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.cafe import FourierChebyshev, Product
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.fields.network import CornerBias, FourierFeatures, Identity
from neuralfield.kernels.plan import BatchPlan, LayerPlan, NetworkPlan
from neuralfield.layers import Layer, Nonlinearity

_ENCODINGS = {
    Identity: "identity",
    CornerBias: "corners",
    FourierFeatures: "fourier",
    HashEncoding: "hashgrid",
    FourierChebyshev: "chebyshev",
}


def network_plan(network: CoordinateNetwork) -> NetworkPlan:
    """What kernels have to know of a network."""
    layers = tuple(map(_layer_plan, network.layers, [*network.activations, None]))
    kind = type(network.encoding)
    encoding = _ENCODINGS.get(kind, kind.__name__)
    grids = network.encoding.levels if isinstance(network.encoding, HashEncoding) else ()
    levels = tuple((grid.resolution, grid.start, grid.rows) for grid in grids)
    output, names = network.output, tuple(network.parameters)
    return NetworkPlan(encoding, layers, output.name, output.steepness, names, levels)


def _layer_plan(layer: Layer, activation: Nonlinearity | None) -> LayerPlan:
    name, frequency = (activation.name, activation.frequency) if activation else (None, 1.0)
    factors = activation.factors if isinstance(activation, Product) else 1
    has_bias = layer.bias is not None
    return LayerPlan(layer.fan_in, layer.fan_out, has_bias, name, float(frequency), factors)


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
