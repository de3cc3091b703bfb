"""The compiled decoder and the reference decoder give the same pixels, on every machine."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from coded_images import random_coded_image

from neuralfield.coding import nfz, reference_decoder
from neuralfield.coding.coded_image import Layer
from neuralfield.coding.decoding import pixels_of

DIGEST = "25331cc7195f738ca3c03dda78b57c5c7e6b8a9ef0a4568ccc29f39628d13a6a"


@pytest.mark.parametrize("size", [(1, 1), (2, 3), (1, 40), (40, 1), (51, 38), (30, 90)])
def test_the_reference_decoder_gives_the_same_pixels(size):
    for channels in (1, 3, 4):
        seed = sum(size) + channels
        image = random_coded_image(size[0], size[1], channels, seed=seed)
        content = nfz.to_bytes(image)
        pixels = pixels_of(nfz.from_bytes(content))
        assert np.array_equal(pixels, reference_decoder.decode(content))
        assert pixels.std() > 1 or pixels.size < 20


def test_values_that_are_clamped_are_the_same():
    image = random_coded_image(33, 47, zeros=0.1)
    for grid in image.latents:
        grid[:] = np.clip(grid.astype(int) * 9, -64, 63)
    for layer in image.layers:
        layer.weights[:] = layer.weights * 4
    content = nfz.to_bytes(image)
    pixels = pixels_of(nfz.from_bytes(content))
    assert np.array_equal(pixels, reference_decoder.decode(content))


def test_a_stored_file_gives_the_same_pixels_on_every_machine():
    content = Path(__file__).with_name("stored.nfz").read_bytes()
    pixels = pixels_of(nfz.from_bytes(content))
    assert np.array_equal(pixels, reference_decoder.decode(content))
    assert hashlib.sha256(pixels.tobytes()).hexdigest() == DIGEST


def test_layers_whose_sums_overflow_are_refused():
    weights, bias = np.full((1, 40), 2000, np.int32), np.zeros(1, np.int32)
    with pytest.raises(ValueError, match="32 bits"):
        Layer(weights, bias, 8, 8)
    Layer(weights[:, :32], bias, 8, 8)
    with pytest.raises(ValueError, match="32 bits"):
        Layer(weights[:, :32], bias + 2000, 15, 0)
