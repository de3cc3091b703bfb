"""SIREN: a network of sines (Sitzmann et al., "Implicit neural representations with periodic
activation functions", NeurIPS 2020)."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from neuralfield.fields.coordinate_network import CoordinateNetwork, Identity
from neuralfield.fields.settings import DirectField, frequency
from neuralfield.images.image import ImageShape
from neuralfield.nn.layers import Activation, Linear, make_linear, siren_weights
from neuralfield.system.settings import setting


def initial_weight_scale() -> Any:
    """Declare the setting `weight_scale`."""
    return setting(
        1.0,
        "factor on the initial weights of all layers but the last: with 1.25 to 2 the fit needs"
        " fewer steps, but renders are worse between the pixels",
        above=0,
    )


@dataclass(frozen=True)
class SineField(DirectField):
    """Settings of networks of sines."""

    first_omega_0: float = frequency(
        30.0,
        "frequency of the first layer: it starts with up to about first_omega_0 / (4 pi) cycles a"
        " unit (the finest pattern of N pixels has N / 4); too high gives specks",
        unit="radians a unit",
    )
    omega_0: float = frequency(30.0, "frequency of the sines of the other layers")

    def sine_layers(
        self, shape: ImageShape, weight_scale: float, generator: np.random.Generator
    ) -> list[Linear]:
        """Create layers with SIREN's initial weights, scaled by a factor in all but the last."""
        first = partial(siren_weights, omega_0=self.first_omega_0, is_first=True)
        hidden = partial(siren_weights, omega_0=self.omega_0, is_first=False)
        layers = [
            make_linear(fan_in, fan_out, hidden if index else first, generator)
            for index, (fan_in, fan_out) in enumerate(self.weight_shapes(shape))
        ]
        for layer in layers[:-1]:
            layer.weight.data *= weight_scale
        return layers


@dataclass(frozen=True)
class Siren(SineField):
    """sin(omega_0 (W x + b)) in every layer but the last, which is linear."""

    title = "A network of sines (SIREN, Sitzmann et al. 2020)"

    weight_scale: float = initial_weight_scale()

    @property
    def suggested_learning_rate(self) -> float:
        """The rate 6 / (width * hidden_layers * omega_0 * weight_scale), rounded to two digits.

        A step may change the arguments of the sines only by a limited amount: at a few times this
        rate, the network does not train. The formula was found with ``benchmarks/field_rates.py``.
        """
        depth = max(self.hidden_layers, 1)
        return float(f"{6 / (self.width * depth * self.omega_0 * self.weight_scale):.2g}")

    def build(self, shape: ImageShape, generator: np.random.Generator) -> CoordinateNetwork:
        layers = self.sine_layers(shape, self.weight_scale, generator)
        sines = [Activation("sine", self.first_omega_0)]
        sines += [Activation("sine", self.omega_0)] * self.hidden_layers
        return self.network(Identity(), layers, sines)
