import math

import numpy as np
import pytest
from small_fields import SMALL_FIELDS

from neuralfield.fields import (
    FIELDS,
    ImageShape,
    build_field,
    describe_field,
    field_settings,
)
from neuralfield.fields.hashgrid import HashEncoding, Hashgrid, Level
from neuralfield.images.coordinates import axis_centres, extent, grid, pixel_centres
from neuralfield.nn.losses import make_loss
from neuralfield.nn.tensor import Tensor, gradients
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.presets import read_preset

SHAPE = ImageShape(width=200, height=200, channels=1)


def test_pixel_centres_are_scaled_by_the_longer_side():
    centres = pixel_centres(np, 4, 2)
    np.testing.assert_allclose(centres[0], [-0.75, -0.25])
    np.testing.assert_allclose(centres[-1], [0.75, 0.25])
    np.testing.assert_allclose(centres[1], [-0.25, -0.25], err_msg="x to the right first")


def test_a_redraw_of_twice_the_size_does_not_shift():
    coarse, fine = axis_centres(np, 100, 1.0), axis_centres(np, 200, 1.0)
    np.testing.assert_allclose(coarse, fine.reshape(100, 2).mean(axis=1))


def test_the_original_network_has_its_98752_weights():
    network = build_field(field_settings(read_preset("original")), SHAPE)
    assert network.parameter_count == 98_752
    assert all(layer.bias is None for layer in network.layers)


def test_the_original_network_sees_a_bias_and_corner_coordinates():
    network = build_field(field_settings(read_preset("original")), SHAPE)
    inputs = network.encoding(pixel_centres(np, 200, 200))
    assert not isinstance(inputs, Tensor)
    i, j = np.meshgrid(np.arange(200), np.arange(200))
    expected = np.stack([np.ones(40_000), i.ravel() / 199, j.ravel() / 199], axis=1)
    np.testing.assert_allclose(inputs, expected, atol=1e-12)


def test_siren_starts_with_the_weights_of_its_paper():
    settings = field_settings({"type": "siren", "width": 400, "hidden_layers": 2})
    network = build_field(settings, SHAPE, random_seed=1)
    bounds = [1 / 2, *[math.sqrt(6 / 400) / 30] * 3]
    for layer, bound in zip(network.layers, bounds, strict=True):
        largest = np.abs(layer.weight.data).max()
        assert 0.95 * bound < largest <= bound
    hidden_bias = network.layers[1].bias
    assert hidden_bias is not None
    assert np.abs(hidden_bias.data).max() <= 1 / math.sqrt(400)


def test_siren_keeps_its_spread_through_the_layers():
    """Theorem 1.8 of the supplement: inputs of hidden sines are about N(0, 1) at any depth."""
    settings = field_settings({"type": "siren", "width": 256, "hidden_layers": 4})
    network = build_field(settings, SHAPE)
    first = network.layers[0]
    assert first.bias is not None
    x = np.sin(30 * (pixel_centres(np, 50, 50) @ first.weight.data + first.bias.data))
    for layer in network.layers[1:-1]:
        phase = 30 * (x @ layer.weight.data)
        assert 0.8 < phase.std() < 1.2
        x = np.sin(phase)


def test_fourier_frequencies_have_the_given_scale():
    settings = field_settings({"type": "fourier", "frequencies": 5000, "scale": 7.0})
    network = build_field(settings, SHAPE)
    assert network.buffers["encoding.frequencies"].std() == pytest.approx(7, rel=0.03)
    assert "encoding.frequencies" in network.arrays
    assert "encoding.frequencies" not in network.parameters


def test_finer_chooses_its_frequencies_by_the_first_biases():
    network = build_field(field_settings({"type": "finer", "width": 400, "first_bias": 7.0}), SHAPE)
    first, second = (network.layers[index].bias for index in (0, 1))
    assert first is not None and second is not None
    assert 6.5 < np.abs(first.data).max() <= 7
    assert np.abs(second.data).max() <= 1 / math.sqrt(400)


def test_wire_is_its_formula_in_complex_numbers():
    settings = {"type": "wire", "width": 4, "hidden_layers": 1, "omega_0": 5.0, "scale": 2.0}
    network = build_field(field_settings(settings), ImageShape(5, 4, 3))
    arrays, points = network.arrays, pixel_centres(np, 5, 4)

    def wavelets(z):
        return np.exp(5j * z - np.abs(2 * z) ** 2)

    def complex_layer(index, x):
        matrix = arrays[f"layers.{index}.real"] + 1j * arrays[f"layers.{index}.imaginary"]
        bias = arrays[f"layers.{index}.bias"]
        half = len(bias) // 2
        return x @ matrix + (bias[:half] + 1j * bias[half:] if index == 1 else bias)

    x = wavelets(points @ arrays["layers.0.weight"] + arrays["layers.0.bias"])
    z = complex_layer(2, wavelets(complex_layer(1, x))).real
    np.testing.assert_allclose(network(points).data, (1 + z) / 2, atol=1e-12)


def test_cafe_features_are_frequencies_and_chebyshev_polynomials():
    network = build_field(field_settings({"type": "cafe", "chebyshev_degree": 3}), SHAPE)
    points = np.array([[0.3, -0.8], [1.0, -1.0]])
    features = network.encoding(points)
    assert not isinstance(features, Tensor)
    expected = np.cos(np.arange(4)[:, None] * np.arccos(points)[:, None, :]).reshape(2, 8)
    np.testing.assert_allclose(features[:, -8:], expected, atol=1e-12)
    assert features.shape == (2, network.encoding.size)
    without = build_field(field_settings({"type": "cafe", "chebyshev_degree": 0}), SHAPE)
    assert without.encoding.size == features.shape[1] - 8


def test_a_grid_that_fits_its_table_interpolates_between_its_corners():
    """A point at a corner has the features of that corner; midway between two, their mean."""
    settings = field_settings({"type": "hashgrid", "levels": 1, "base_resolution": 4})
    network = build_field(settings, SHAPE)
    table = network.arrays["encoding.table"]
    assert table.shape == (25, 2)
    encoded = network.encoding(np.array([[-1.0, -1.0], [1.0, 1.0], [0.5, -1.0], [0.25, -1.0]]))
    assert isinstance(encoded, Tensor)
    between = (table[2] + table[3]) / 2
    np.testing.assert_allclose(encoded.data, [table[0], table[24], table[3], between], atol=1e-18)


def test_hashed_corners_have_the_rows_of_the_paper_s_formula():
    settings = Hashgrid(levels=3, log2_table_size=5, base_resolution=4, finest_resolution=64)
    grids = settings.grids(SHAPE)
    assert grids == (Level(4, 0, 25), Level(16, 25, 32), Level(64, 57, 32))
    x, y = np.array([3, 60]), np.array([11, 7])
    expected = 57 + (x ^ (y * 2654435761)) % 32
    np.testing.assert_array_equal(grids[2].row_of(x, y), expected)
    assert settings.weight_shapes(SHAPE)[0] == (89, 2)


@pytest.mark.parametrize(("width", "height"), [(30, 7), (7, 30), (16, 12), (9, 9), (5, 1)])
def test_cropped_grids_have_the_corners_that_an_image_needs_and_the_same_values(width, height):
    shape, plain = ImageShape(width, height, 1), {"type": "hashgrid", "log2_table_size": 9}
    whole, cropped = (
        build_field(field_settings(plain | {"cropped": is_cropped}), shape).encoding
        for is_cropped in (False, True)
    )
    assert isinstance(whole, HashEncoding) and isinstance(cropped, HashEncoding)
    edge = np.linspace(-1, 1, 2 * max(width, height) + 1)
    points = grid(*(edge * half for half in extent(width, height))).astype(np.float32)
    (rows, weights), (own_rows, own_weights) = whole.corners(points), cropped.corners(points)
    np.testing.assert_array_equal(own_weights, weights)
    used = np.unique(own_rows)
    assert used[0] >= 0 and used[-1] < len(cropped.table.data)
    for index, (level, own) in enumerate(zip(whole.levels, cropped.levels, strict=True)):
        pairs = np.unique(np.stack([rows[:, index].ravel(), own_rows[:, index].ravel()]), axis=1)
        assert own.start <= pairs[1].min() and pairs[1].max() < own.start + own.rows
        if own.is_hashed or not level.is_hashed:  # rows correspond one to one
            assert len(set(pairs[0])) == len(set(pairs[1])) == pairs.shape[1]
        if not own.is_hashed:  # one more line at each edge, because of rounding to float32
            assert own.rows <= len(set(pairs[1])) + 2 * (own.columns + own.rows // own.columns)


@pytest.mark.parametrize("kind", FIELDS)
@pytest.mark.parametrize("output", ["linear", "sigmoid"])
def test_gradients_of_whole_fields_against_finite_differences(kind, output):
    settings = field_settings({"type": kind, "output": output, **SMALL_FIELDS[kind]})
    network = build_field(settings, ImageShape(5, 4, 3), random_seed=3)
    points, target = pixel_centres(np, 5, 4), np.random.default_rng(0).uniform(size=(20, 3))

    def loss():
        return make_loss("mse")(network(points), target, target.size)

    leaves = list(network.parameters.values())
    for leaf, gradient in zip(leaves, gradients(loss(), leaves), strict=True):
        flat = leaf.data.reshape(-1)
        for position in range(0, flat.size, max(1, flat.size // 5)):
            start, values = flat[position], []
            for sign in (1, -1):
                flat[position] = start + sign * 1e-6
                values.append(float(loss().data))
            flat[position] = start
            expected = (values[0] - values[1]) / 2e-6
            assert gradient.reshape(-1)[position] == pytest.approx(expected, rel=1e-4, abs=1e-8)


@pytest.mark.parametrize("kind", FIELDS)
def test_settings_survive_being_written_down(kind):
    settings = field_settings({"type": kind, "steepness": 3.0})
    assert field_settings(describe_field(settings)) == settings


def test_the_same_seed_gives_the_same_weights_and_another_seed_others():
    settings = field_settings({"type": "siren", "width": 8})
    first, again, other = (build_field(settings, SHAPE, seed) for seed in (1, 1, 2))
    for name, array in first.arrays.items():
        np.testing.assert_array_equal(array, again.arrays[name])
    assert not np.array_equal(first.arrays["layers.0.weight"], other.arrays["layers.0.weight"])


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ({"type": "sirene"}, "'sirene'; expected one of siren, finer, wire"),
        ({"type": "siren", "widht": 3}, r"unknown \['widht'\]; expected some of hidden_layers"),
        ({"type": "wire", "omega_0": 1e30}, r"omega_0: 1e\+30; expected a number > 0 and at most"),
        ({"type": "mlp", "activation": "gelu"}, "'gelu'; expected sine, tanh"),
    ],
)
def test_bad_settings_are_named(description, message):
    with pytest.raises(ConfigError, match=message):
        field_settings(description)
