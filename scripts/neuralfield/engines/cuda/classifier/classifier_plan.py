"""The plain numbers that a classifier's kernels are compiled for: its layers and its batch."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any

from neuralfield.engines.cuda.convolution.convolution_plan import ConvolutionShape
from neuralfield.nn import ops
from neuralfield.nn.dropout import Dropout
from neuralfield.nn.layers import Conv2d, Linear
from neuralfield.nn.network import Operation
from neuralfield.nn.pooling import max_pool2d
from neuralfield.tasks.classifier.classifier_objective import ClassifierObjective

_WEIGHTS_OFFSET_ELEMENTS = 4
"""Parts of a layer's gradient begin at multiples of this, because they are added up four at a
time."""


@dataclass(frozen=True)
class ClassifierPlan:
    """Convolutions, each with pooling and relu, and then linear layers."""

    convolutions: tuple[ConvolutionShape, ...]
    sizes: tuple[int, ...]  # values into each linear layer, and the classes
    dropout: float  # rate of the dropout after each linear layer except the last
    batch: int  # images
    pixels: int  # of an image

    @property
    def part_offsets(self) -> list[int]:
        """The indices at which the parts of each linear layer's gradient begin, and the end."""
        offsets = [0]
        for into, out in pairwise(self.sizes):
            end = offsets[-1] + (into + 1) * out
            offsets.append(-(-end // _WEIGHTS_OFFSET_ELEMENTS) * _WEIGHTS_OFFSET_ELEMENTS)
        return offsets

    def head_constants(self) -> dict[str, Any]:
        return {
            "LAYERS": len(self.sizes) - 1,
            "SIZES": self.sizes,
            "BATCH": self.batch,
        }


def classifier_plan(objective: ClassifierObjective) -> ClassifierPlan | str:
    """Make the plan of a classifier and its batches, or return the name of an unsupported part.

    The network's operations have to be convolutions, each with max pooling and relu, and then
    linear layers, each except the last with relu and dropout.
    """
    operations = iter(objective.network.operations)
    shape = objective.labelled.shape
    sides = (shape.channels, shape.height, shape.width)
    convolutions: list[ConvolutionShape] = []
    operation = next(operations, None)
    while isinstance(operation, Conv2d):
        found = _convolution(operation, next(operations, None), sides)
        activation = next(operations, None)
        if isinstance(found, str) or activation is not ops.relu:
            return found if isinstance(found, str) else _name(activation)
        convolutions.append(found)
        sides = (found.channels_out, *found.sides_out)
        operation = next(operations, None)
    if operation is not ops.flatten:
        return _name(operation)
    return _with_linear_layers(objective, convolutions, operations)


def _convolution(
    layer: Conv2d, pooling: Operation | None, sides: tuple[int, int, int]
) -> ConvolutionShape | str:
    """Return the shape of a convolution and its pooling, or the name of an unsupported part."""
    channels, height, width = sides
    kernel, across, _, channels_out = layer.weight.shape
    if kernel != across or layer.bias is None:
        return "a convolution without biases, or whose kernel is not square"
    if not isinstance(pooling, partial) or pooling.func is not max_pool2d:
        return _name(pooling)
    sizes = (kernel, layer.padding, pooling.keywords["window"])
    return ConvolutionShape(channels, height, width, channels_out, *sizes, is_last=False)


def _with_linear_layers(
    objective: ClassifierObjective,
    convolutions: list[ConvolutionShape],
    operations: Iterator[Operation],
) -> ClassifierPlan | str:
    sizes: list[int] = []
    rates: set[float] = set()
    for operation in operations:
        if not isinstance(operation, Linear) or operation.bias is None:
            return _name(operation)
        sizes += operation.weight.shape if not sizes else operation.weight.shape[1:]
        activation = next(operations, None)
        if activation is None:
            break
        dropout = next(operations, None)
        if activation is not ops.relu or not isinstance(dropout, Dropout):
            return _name(dropout if activation is ops.relu else activation)
        rates.add(dropout.rate)
    else:
        return "a network without a last linear layer"
    if len(rates) > 1:
        return "several rates of dropout"
    if convolutions:
        convolutions[-1] = replace(convolutions[-1], is_last=True)
    return ClassifierPlan(
        tuple(convolutions),
        tuple(sizes),
        dropout=rates.pop() if rates else 0.0,
        batch=objective.batches.size,
        pixels=objective.labelled.shape.width * objective.labelled.shape.height,
    )


def _name(operation: Any) -> str:
    if operation is None:
        return "a network with fewer operations than a classifier's"
    function = operation.func if isinstance(operation, partial) else operation
    return f"the operation {getattr(function, '__name__', type(function).__name__)} in its place"
