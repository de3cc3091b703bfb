"""Coded images with random latents and weights, which tests write, read and decode."""

import numpy as np

from neuralfield.coding.coded_image import LARGEST_WEIGHT, CodedImage, Layer
from neuralfield.coding.context import INPUTS, SURROUNDINGS, grid_shapes, usual_grids

BICUBIC = (-0.0703, 0.8672, 0.2266, -0.0234)
"""Weights a, b, c, d of the cubic filter of Keys (a = -0.5) at a quarter from a sample, rounded."""


def rounded_layer(weights, bias, weight_bits, bias_bits):
    """Return a layer of float weights and biases, rounded to multiples of the steps."""
    rounded = [
        np.rint(np.clip(values * 2.0**bits, -LARGEST_WEIGHT, LARGEST_WEIGHT)).astype(np.int32)
        for values, bits in ((weights, weight_bits), (bias, bias_bits))
    ]
    return Layer(rounded[0], rounded[1], weight_bits, bias_bits)


def random_coded_image(height, width, channels=3, *, seed=0, hidden=16, zeros=0.6):
    """Return a coded image whose values use the range of the arithmetic, but rarely clamp."""
    random = np.random.default_rng(seed)
    grids = usual_grids(height, width)
    inputs = grids + len(SURROUNDINGS)

    def layer(outputs, inputs, gain, weight_bits=7, bias_bits=6):
        weights = random.normal(0, gain / inputs**0.5, (outputs, inputs))
        return rounded_layer(weights, random.normal(0, 0.3, outputs), weight_bits, bias_bits)

    latents = [
        np.where(random.random(shape) < zeros, 0, np.rint(random.laplace(0, 3, shape)))
        .clip(-64, 63)
        .astype(np.int8)
        for shape in grid_shapes(height, width, grids)
    ]
    filters = np.tile(BICUBIC, (grids - 1, 1)) + random.normal(0, 0.02, (grids - 1, 4))
    output = layer(channels, hidden + inputs, 8.0, 5)
    output.bias[:] += 30 << 6
    return CodedImage(
        height,
        width,
        channels,
        latents,
        [layer(INPUTS, INPUTS, 0.5), layer(INPUTS, INPUTS, 0.5), layer(2, INPUTS, 0.5)],
        rounded_layer(filters, np.zeros(0), 9, 0),
        layer(hidden, inputs, 1.0),
        output,
    )


def is_same(one, other):
    """Check whether two coded images hold the same integers."""
    return _parts(one) == _parts(other)


def _parts(image):
    layers = [
        (values.tolist(), bits if values.size else None)
        for layer in image.layers
        for values, bits in ((layer.weights, layer.weight_bits), (layer.bias, layer.bias_bits))
    ]
    grids = [grid.tolist() for grid in image.latents]
    return image.height, image.width, image.channels, grids, layers
