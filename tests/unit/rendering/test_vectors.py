"""Drawings as SVG: shapes, corners, holes, tones, and images without any of them."""

import io
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from PIL import Image

from neuralfield.rendering.vectors.drawing_svg import PER_PIXEL, TOLERANCE_PX, drawing_svg
from neuralfield.system.errors import InputError

WIDTH, HEIGHT = 60, 50
SVG = "{http://www.w3.org/2000/svg}"

_rows, _columns = np.mgrid[: PER_PIXEL * HEIGHT, : PER_PIXEL * WIDTH]
X, Y = (_columns + 0.5) / PER_PIXEL, (_rows + 0.5) / PER_PIXEL


def inside(distance):
    """Return an edge as soft as those of networks; `distance` is positive inside, in pixels."""
    return 1 / (1 + np.exp(-np.clip(distance / 0.1, -50, 50)))


def disc(x, y, radius):
    return inside(radius - np.hypot(X - x, Y - y))


def rectangle(left, top, right, bottom):
    return inside(np.minimum(np.minimum(X - left, right - X), np.minimum(Y - top, bottom - Y)))


def painted(*shapes, paper=(1.0,)):
    """Return the render of a drawing, given by pairs of a shape and its colour."""
    values = np.ones((*X.shape, len(paper))) * paper
    for shape, colour in shapes:
        values += shape[..., None] * (np.array(colour) - values)
    return values.astype(np.float32)


def traced(values, *, only_two_tones=False, tolerance_px=TOLERANCE_PX, paper=True):
    return drawing_svg(
        values, only_two_tones=only_two_tones, tolerance_px=tolerance_px, paper=paper
    )


def paths(svg):
    """Return the data of the paths of each layer, by colour; without the paper."""
    groups = ElementTree.fromstring(svg).findall(f"{SVG}g")
    return {group.get("fill"): [p.get("d", "") for p in group] for group in groups}


def segments(path):
    return len(re.findall("[cl]", path))


def points(path):
    """Return the nodes of a path in training pixels."""
    place, found = np.zeros(2), []
    for command, text in re.findall(r"([Mcl])([^a-zA-Z]*)", path):
        numbers = np.array(re.findall(r"-?\d+", text), float)[-2:] / 100
        place = numbers if command == "M" else place + numbers
        found.append(place)
    return np.array(found)


def rasterized(svg, scale=4):
    """Return the image that rsvg-convert or CairoSVG makes of a drawing, from 0 to 1."""
    size = WIDTH * scale, HEIGHT * scale
    if shutil.which("rsvg-convert"):
        command = ["rsvg-convert", "--width", str(size[0]), "--height", str(size[1])]
        png = subprocess.run(command, input=svg.encode(), capture_output=True, check=True).stdout
    else:
        reason = "neither rsvg-convert nor CairoSVG is installed"
        cairosvg = pytest.importorskip("cairosvg", reason=reason)
        png = cairosvg.svg2png(svg.encode(), output_width=size[0], output_height=size[1])
    image = Image.open(io.BytesIO(png)).convert("RGBA")
    return np.asarray(image, float) / 255


def test_a_disc_needs_few_segments_and_keeps_its_area():
    (path,) = paths(traced(painted((disc(30.3, 24.6, 15), [0]))))["#000000"]
    assert segments(path) <= 6
    assert np.abs(np.hypot(*(points(path) - (30.3, 24.6)).T) - 15).max() < 0.06
    ink = 1 - rasterized(traced(painted((disc(30.3, 24.6, 15), [0]))))[..., 0]
    assert ink.sum() / 16 == pytest.approx(np.pi * 15**2, rel=0.003)


def test_corners_of_a_square_are_sharp():
    (path,) = paths(traced(painted((rectangle(10.3, 8.2, 40.6, 38.7), [0]))))["#000000"]
    assert segments(path) <= 8
    for corner in ((10.3, 8.2), (40.6, 8.2), (40.6, 38.7), (10.3, 38.7)):
        assert np.hypot(*(points(path) - corner).T).min() < 0.1


def test_a_ring_is_one_path_with_a_hole():
    svg = traced(painted((disc(30, 25, 20), [0]), (disc(30, 25, 12), [1])))
    (path,) = paths(svg)["#000000"]
    assert path.count("M") == path.count("z") == 2
    shown = rasterized(svg)[..., 0]
    assert shown[4 * 25, 4 * 30] == 1 and shown[4 * 25, 4 * 14] == 0
    assert (1 - shown).sum() / 16 == pytest.approx(np.pi * (20**2 - 12**2), rel=0.003)


def test_connected_regions_are_paths():
    drawing = painted((disc(15, 25, 8), [0]), (disc(45, 25, 8), [0]))
    assert len(paths(traced(drawing))["#000000"]) == 2


def test_tones_are_layers_and_edges_have_no_slivers():
    grey, black = rectangle(5.3, 8.2, 30.7, 40.1), disc(45, 25, 10)
    svg = traced(painted((grey, [0.6]), (black, [0]), (disc(18, 24, 6), [0])))
    layers = paths(svg)
    assert list(layers) == ["#999999", "#000000"]
    # there is no grey around the black disc on white paper
    assert [len(found) for found in layers.values()] == [1, 2]
    shown = rasterized(svg)[..., 0]
    assert shown[4 * 24, 4 * 9] == pytest.approx(0.6) and shown[4 * 24, 4 * 18] == 0


def test_colours_on_coloured_paper():
    shapes = (disc(20, 20, 12), [0.9, 0.2, 0.1]), (rectangle(10, 36, 50, 40), [0, 0, 0])
    values = painted(*shapes, paper=(1.0, 1.0, 0.9))
    shown = rasterized(traced(values))[..., :3]
    expected = values[1::2, 1::2][: 3 * HEIGHT, : 3 * WIDTH]
    picture = rasterized(traced(values), scale=3)[..., :3]
    assert shown.shape == (4 * HEIGHT, 4 * WIDTH, 3)
    assert np.abs(picture - expected).mean() < 0.01


def test_a_blurred_scan_has_two_tones():
    ink = 1 / (1 + np.exp(-(2 - np.abs(Y - 25 - 8 * np.sin(X / 6))) / 0.4))
    noise = np.random.default_rng(0).normal(0, 0.01, X.shape)
    svg = traced((0.9 - 0.7 * ink + noise)[..., None].astype(np.float32))
    assert [len(found) for found in paths(svg).values()] == [1]


def test_the_paper_can_be_transparent():
    svg = traced(painted((disc(30, 25, 10), [0])), paper=False)
    alpha = rasterized(svg)[..., 3]
    assert alpha[0, 0] == 0 and alpha[4 * 25, 4 * 30] == 1


def test_the_same_drawing_is_the_same_file():
    drawing = painted((disc(30, 25, 10), [0]), (rectangle(2, 2, 58, 3), [0]))
    assert traced(drawing) == traced(drawing.copy())


def test_a_larger_tolerance_needs_fewer_segments():
    wave = painted((inside(2 - np.abs(Y - 25 - 8 * np.sin(X / 3))), [0]))
    counts = [
        sum(segments(path) for path in paths(traced(wave, tolerance_px=t))["#000000"])
        for t in (0.02, 0.3)
    ]
    assert counts[1] < counts[0]


def test_waves_of_noisy_contours_are_smoothed():
    waves = np.random.default_rng(0).standard_normal((HEIGHT, WIDTH)).astype(np.float32)
    wide = Image.fromarray(0.15 * waves).resize((X.shape[1], X.shape[0]), Image.Resampling.BICUBIC)
    noisy = inside(15 + np.asarray(wide) - np.hypot(X - 30.3, Y - 24.6))
    (path,) = paths(traced(painted((noisy, [0]))))["#000000"]
    assert segments(path) <= 30  # 73 without smoothing
    assert np.abs(np.hypot(*(points(path) - (30.3, 24.6)).T) - 15).std() < 0.06


@pytest.mark.parametrize("value", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("shape", [(HEIGHT, WIDTH, 1), (1, 1, 1), (1, 9, 3), (3, 2, 4)])
@pytest.mark.parametrize("only_two_tones", [False, True])
def test_an_image_of_one_tone_is_paper_alone(value, shape, only_two_tones):
    size = PER_PIXEL * shape[0], PER_PIXEL * shape[1], shape[2]
    svg = traced(np.full(size, value, np.float32), only_two_tones=only_two_tones)
    assert not paths(svg)
    root = ElementTree.fromstring(svg)
    assert (root.get("width"), root.get("height")) == (str(shape[1]), str(shape[0]))


def test_specks_are_left_out():
    svg = traced(painted((disc(30, 25, 10), [0]), (disc(5, 5, 0.2), [0])))
    assert len(paths(svg)["#000000"]) == 1


def test_a_photograph_is_no_drawing():
    noise = np.random.default_rng(0).random((HEIGHT, WIDTH), np.float32)
    smooth = Image.fromarray(noise).resize((X.shape[1], X.shape[0]), Image.Resampling.BICUBIC)
    with pytest.raises(InputError, match="without flat tones"):
        traced(np.asarray(smooth).clip(0, 1)[..., None])


def test_random_ink_is_a_valid_file():
    noise = (np.random.default_rng(1).random(X.shape) < 0.5).astype(np.float32)
    ElementTree.fromstring(traced(noise[..., None], only_two_tones=True))
