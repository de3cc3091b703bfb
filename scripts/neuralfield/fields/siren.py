"""SIREN: a network of sines (Sitzmann et al., "Implicit neural representations with periodic
activation functions", NeurIPS 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity, Output
from neuralfield.images.image import PictureShape
from neuralfield.nn.layers import Activation, Linear, make_linear, siren_weights
from neuralfield.system.setting_checks import require_positive, require_whole


@dataclass(frozen=True)
class Siren:
    """sin(omega_0 (W x + b)) in every layer but the last, which is linear.

    Attributes
    ----------
    hidden_layers : int
        Layers between the first and the last.
    width : int
        Values in each.
    first_omega_0 : float
        Frequency of the first layer: it starts with at most about first_omega_0 / (4 pi) cycles a
        unit, where the finest pattern of N pixels has N / 4. Higher: finer detail, more specks.
    omega_0 : float
        Frequency of the other sines.
    weight_scale : float
        Factor on the initial weights of all layers but the last. 1 is the paper's; 1.5 to 2 reach a
        given error in fewer steps, at some cost between the pixels.
    output, steepness
        See `neuralfield.fields.coordinate_network.Output`.
    """

    hidden_layers: int = 3
    width: int = 128
    first_omega_0: float = 30.0
    omega_0: float = 30.0
    weight_scale: float = 1.0
    output: str = "linear"
    steepness: float = 4.0

    def __post_init__(self) -> None:
        require_positive(self, "first_omega_0", "omega_0", "weight_scale", "steepness")
        require_whole(self, "width", at_least=1)
        require_whole(self, "hidden_layers", at_least=0)

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon: 6 / (width * hidden_layers * omega_0 * weight_scale), two digits of it.

        How far a step may move the arguments of sines bounds it; a few times as much, and nothing
        is learned. Found by ``benchmarks/field_rates.py``.
        """
        depth = max(self.hidden_layers, 1)
        return float(f"{6 / (self.width * depth * self.omega_0 * self.weight_scale):.2g}")

    def weight_shapes(self, shape: PictureShape) -> list[tuple[int, int]]:
        """Shape of each layer's matrix."""
        return list(pairwise((2, *[self.width] * (1 + self.hidden_layers), shape.channels)))

    def build(self, shape: PictureShape, generator: np.random.Generator) -> CoordinateNetwork:
        """A network with fresh weights."""
        layers = make_sine_layers(
            self.weight_shapes(shape),
            (self.first_omega_0, self.omega_0),
            self.weight_scale,
            generator,
        )
        sines = [Activation("sine", self.first_omega_0)]
        sines += [Activation("sine", self.omega_0)] * self.hidden_layers
        return CoordinateNetwork(Identity(), layers, sines, Output(self.output, self.steepness))


def make_sine_layers(
    shapes: Sequence[tuple[int, int]],
    omegas: tuple[float, float],
    weight_scale: float,
    generator: np.random.Generator,
) -> list[Linear]:
    """Layers with the initial weights of a network of sines.

    Parameters
    ----------
    shapes : sequence of (fan_in, fan_out)
    omegas : (first, others)
        Frequency of the first sine, and of the others.
    weight_scale : float
        Factor on the weights of all layers but the last.
    generator : numpy.random.Generator
    """
    first = partial(siren_weights, omega_0=omegas[0], is_first=True)
    hidden = partial(siren_weights, omega_0=omegas[1], is_first=False)
    initializers = [first] + [hidden] * (len(shapes) - 1)
    layers = [
        make_linear(fan_in, fan_out, initializer, generator)
        for (fan_in, fan_out), initializer in zip(shapes, initializers, strict=True)
    ]
    for layer in layers[:-1]:
        layer.weight.data *= weight_scale
    return layers
