"""Edges of images of every kind, compared with SciPy."""

import json

import numpy as np
import pytest
import scipy.ndimage
from noise_images import FORMATS, noise

from find_edges import main
from neuralfield.images import (
    ImageData,
    edges,
    read_image,
    write_facts,
    write_image,
    write_pixel_file,
)
from neuralfield.images.edges import LAPLACIAN, EdgeFilter
from neuralfield.system.errors import ConfigError, InputError

LUMA = np.array([0.2989, 0.5870, 0.1140])


def grey_of(image):
    light = image.pixels / image.max_value
    if image.mode == "rgba":
        light = light[..., :3] * light[..., 3:] + 1 - light[..., 3:]
    return light[..., 0] if light.shape[2] == 1 else light @ LUMA / LUMA.sum()


def expected_edges(grey, sigma, kernel_size=None):
    """Compute edges with SciPy's own kernel or, if its size is given, with SciPy's correlation."""
    if kernel_size is None:
        smooth = scipy.ndimage.gaussian_filter(grey, sigma, mode="nearest")
        return scipy.ndimage.laplace(smooth, mode="nearest")
    offset = np.arange(kernel_size) - kernel_size // 2
    along = np.exp(-(offset**2) / (2 * sigma**2))
    square = np.outer(along, along) / along.sum() ** 2
    smooth = scipy.ndimage.correlate(grey, square, mode="nearest")
    return scipy.ndimage.convolve(smooth, LAPLACIAN, mode="nearest")


def found_edges(folder, image, *, pixels="resized.png", **settings):
    settings = {"sigma": 1.4, **settings}
    write_facts(folder / "picture.json", image, image)
    if pixels.endswith("npy"):
        write_pixel_file(folder / pixels, image.width, image.height, [image])
    else:
        write_image(folder / pixels, image)
    files = [folder / name for name in (pixels, "picture.json", "edges.png", "edges.npy")]
    main(*files, **settings)
    return np.load(folder / "edges.npy"), read_image(folder / "edges.png", mode="grey")


@pytest.mark.parametrize(("mode", "bit_depth"), FORMATS)
def test_edges_are_those_that_scipy_finds(tmp_path, mode, bit_depth):
    image = noise(45, 31, mode, bit_depth)
    found, _ = found_edges(tmp_path, image)
    np.testing.assert_allclose(found, expected_edges(grey_of(image), 1.4), atol=2e-6)
    assert found.dtype == np.float32


@pytest.mark.parametrize("size", [(1, 1), (1, 7), (5, 1), (2, 3), (97, 64)])
@pytest.mark.parametrize("settings", [{"sigma": 0.6}, {"sigma": 2.3, "kernel_size": 5}])
def test_any_size_and_kernel(tmp_path, size, settings):
    image = noise(size[0], size[1], "grey", 8)
    found, _ = found_edges(tmp_path, image, **settings)
    np.testing.assert_allclose(found, expected_edges(grey_of(image), **settings), atol=2e-6)


@pytest.mark.parametrize("pixels", ["resized.png", "pixels.npy"])
def test_bands_make_no_difference(tmp_path, monkeypatch, pixels):
    image = noise(45, 31, "rgb", 8)
    whole, rendered = found_edges(tmp_path, image)
    monkeypatch.setattr(edges, "BAND_VALUES", 4 * image.width)
    found, in_bands = found_edges(tmp_path, image, pixels=pixels)
    np.testing.assert_allclose(found, whole, atol=1e-6)
    assert np.abs(in_bands.pixels.astype(int) - rendered.pixels).max() <= 1


@pytest.mark.parametrize("bit_depth", [8, 16])
def test_greys_say_which_side_is_light(tmp_path, bit_depth):
    """The map is grey far from an edge, black on the light side, and white on the dark side."""
    pixels = np.zeros((30, 40, 1), np.uint8)
    pixels[:, 20:] = 1
    _, rendered = found_edges(tmp_path, ImageData(pixels, "bilevel", 1), bit_depth=bit_depth)
    row = rendered.values()[11, :, 0]
    assert rendered.bit_depth == bit_depth
    assert row[3] == row[36] == pytest.approx(0.5, abs=0.003)
    assert row.max() == 1 and row.argmax() in (18, 19)
    assert row.min() == 0 and row.argmin() in (20, 21)
    np.testing.assert_allclose(row + row[::-1], 1, atol=0.005)


def test_settings_that_make_no_kernel_are_refused():
    with pytest.raises(ConfigError, match="kernel_size: 4; expected an odd number"):
        EdgeFilter(1.0, 4)
    with pytest.raises(ConfigError, match="sigma: 0; expected a number of pixels > 0"):
        EdgeFilter(0)


def test_facts_are_of_the_image(tmp_path):
    """The error names the file that is wrong: changed facts, or another image."""
    found_edges(tmp_path, noise(45, 31, "grey", 8))
    facts, resized = tmp_path / "picture.json", tmp_path / "resized.png"
    about = json.loads(facts.read_text())
    about["resized"]["height"] += 5
    own = facts.read_text()
    facts.write_text(json.dumps(about))
    names = ("resized.png", "picture.json", "edges.png", "edges.npy")
    before = (tmp_path / "edges.npy").read_bytes()
    with pytest.raises(InputError, match=r"picture\.json: its content does not match"):
        main(*(tmp_path / name for name in names), sigma=1.4)
    facts.write_text(own)
    write_image(resized, noise(45, 31, "grey", 8, seed=1))
    with pytest.raises(InputError, match=r"resized\.png: .* belongs to another image"):
        main(*(tmp_path / name for name in names), sigma=1.4)
    assert (tmp_path / "edges.npy").read_bytes() == before
