"""From a network and a problem to the plain numbers that kernels are compiled for."""

from dataclasses import replace

from neuralfield.engines.complex_layers import ComplexTensor, complex_layer, real_layer
from neuralfield.engines.plan import BatchPlan, LayerPlan, NetworkPlan
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.cafe import FourierChebyshev, Product
from neuralfield.fields.coordinate_network import CornerBias, FourierFeatures, Identity
from neuralfield.fields.hashgrid import HashEncoding
from neuralfield.fields.wire import ComplexLinear, Gabor
from neuralfield.nn.layers import Layer, Nonlinearity
from neuralfield.tasks.image.image_objective import PictureProblem

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
    plan = NetworkPlan(encoding, layers, output.name, output.steepness, names, levels)
    if not any(isinstance(layer, ComplexLinear) for layer in network.layers):
        return plan
    tensors = _complex_tensors(network)
    names = tuple(tensor.name for tensor in tensors)
    return replace(plan, parameter_names=names, complex_tensors=tuple(tensors))


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


def _layer_plan(layer: Layer, activation: Nonlinearity | None) -> LayerPlan:
    fan_out, has_bias = layer.fan_out, layer.bias is not None
    if activation is None:
        return LayerPlan(layer.fan_in, fan_out, has_bias, None, 1.0)
    factors = activation.factors if isinstance(activation, Product) else 1
    scale = 0.0
    if isinstance(activation, Gabor):
        scale = float(activation.scale)
        fan_out *= 1 if activation.is_complex else 2
    name, frequency = activation.name, float(activation.frequency)
    return LayerPlan(layer.fan_in, fan_out, has_bias, name, frequency, factors, scale)


def _complex_tensors(network: CoordinateNetwork) -> list[ComplexTensor]:
    """Weights and biases, in order."""
    tensors: list[ComplexTensor] = []
    for index, layer in enumerate(network.layers):
        if isinstance(layer, ComplexLinear):
            fan_in, fan_out = layer.real.shape
            only = layer.real_part_only
            tensors += complex_layer(index, fan_in, fan_out, real_part_only=only)
        else:
            tensors += real_layer(index, layer.fan_in, layer.fan_out)
    return tensors
