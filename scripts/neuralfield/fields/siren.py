"""SIREN: a network of sines (Sitzmann et al., "Implicit neural representations with periodic
activation functions", NeurIPS 2020)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity
from neuralfield.fields.settings import FieldSettings, layer_count, layer_width
from neuralfield.images.shape import PictureShape
from neuralfield.nn.layers import Activation, Linear, make_linear, siren_weights
from neuralfield.system.settings import setting


@dataclass(frozen=True)
class Siren(FieldSettings):
    """sin(omega_0 (W x + b)) in every layer but the last, which is linear.

    A unit of position holds at most N / 4 cycles of the finest pattern of N pixels.
    """

    hidden_layers: int = layer_count(3, "layers between the first and the last")
    width: int = layer_width(128)
    first_omega_0: float = setting(
        30.0,
        "frequency of the first layer: it starts with up to about first_omega_0 / (4 pi) cycles a"
        " unit; higher gives finer detail, and specks",
        unit="radians a unit",
        above=0,
    )
    omega_0: float = setting(30.0, "frequency of the other sines", above=0)
    weight_scale: float = setting(
        1.0,
        "factor on the initial weights of all layers but the last; 1 is the paper's, 1.5 to 2 reach"
        " a given error in fewer steps, at some cost between the pixels",
        above=0,
    )

    @property
    def suggested_learning_rate(self) -> float:
        """Of Adam and Muon: 6 / (width * hidden_layers * omega_0 * weight_scale), two digits of it.

        How far a step may move the arguments of sines bounds it; a few times as much, and nothing
        is learned. Found by ``benchmarks/field_rates.py``.
        """
        depth = max(self.hidden_layers, 1)
        return float(f"{6 / (self.width * depth * self.omega_0 * self.weight_scale):.2g}")

    @property
    def sizes(self) -> list[int]:
        """Values into the first layer, and out of each layer but the last."""
        return [2, *[self.width] * (1 + self.hidden_layers)]

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
        return self.network(Identity(), layers, sines)


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
