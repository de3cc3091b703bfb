"""SVG files of fitted drawings: layers of flat tones, bordered by lines and cubic curves."""

import numpy as np

from neuralfield.images.image import MODES, ImageData
from neuralfield.images.kind import Kind, kind_of
from neuralfield.rendering.render import render
from neuralfield.rendering.vectors.curve_fitting import fit_curves
from neuralfield.rendering.vectors.flat_tones import flat_tones, layers
from neuralfield.rendering.vectors.regions import positive_regions
from neuralfield.system.device import Device
from neuralfield.system.errors import InputError
from neuralfield.tasks.image.mosaic import Trained

PER_PIXEL = 6
"""Number of pixels along a side of a training pixel in the render that is traced."""

_MOST_MEGAPIXELS = 1.5
"""Maximum size of the training image; the render is 36 times as large."""

TOLERANCE_PX = 0.05
"""Default maximum distance of curves from borders, in training pixels."""

_UNITS = 100
"""Units of coordinates in a training pixel; they are whole numbers, so that files are small."""

_LEAST_AREA, _LEAST_AREA_OF_TONES = 0.25, 1.0
"""Minimum area of a region or a hole, in training pixels; smaller ones are specks. In drawings of
more than two tones specks are larger, because JPEG has less resolution for colours."""


def field_svg(
    model: Trained, *, tolerance_px: float, paper: bool, device: Device, threads: int
) -> str:
    """Return a fitted drawing as an SVG image; for the parameters see `drawing_svg`."""
    width, height = model.width, model.height
    if width * height > 1e6 * _MOST_MEGAPIXELS:
        found, expected = f"{width:,} x {height:,} pixels", f"at most {_MOST_MEGAPIXELS} megapixels"
        raise InputError("image", found, expected, "fit a smaller training image")
    small = render(model, width, height, device=device, threads=threads)
    kind = kind_of(ImageData.from_values(np.clip(small, 0, 1), MODES[model.channels], 8))
    size = PER_PIXEL * width, PER_PIXEL * height
    # single samples, because the means of pixels would be smoothed twice
    values = render(model, *size, samples=1, device=device, threads=threads)
    is_line_art = kind in (Kind.LINE_ART, Kind.GREY_LINES)
    return drawing_svg(values, only_two_tones=is_line_art, tolerance_px=tolerance_px, paper=paper)


def drawing_svg(
    values: np.ndarray, *, only_two_tones: bool, tolerance_px: float, paper: bool
) -> str:
    """Return a render of a drawing as an SVG image.

    Parameters
    ----------
    values : ndarray of float32, shape (`PER_PIXEL` height, `PER_PIXEL` width, 1, 3 or 4)
        The render; height and width are those of the training image.
    only_two_tones : bool
        Whether the drawing is known to have one ink on its paper.
    tolerance_px : float
        Maximum distance of curves from borders, in training pixels.
    paper : bool
        Whether to fill the background; otherwise it is transparent.

    Raises
    ------
    InputError
        The image is not of flat tones, as photographs are not.
    """
    if values.shape[2] == 4:  # over white
        alpha = values[..., 3:]
        values = alpha * values[..., :3] + (1 - alpha)
    tones = flat_tones(values, PER_PIXEL, only_two=only_two_tones)
    if tones is None:
        found, expected = "an image without flat tones, like a photograph", "a drawing"
        raise InputError("image", found, expected, "render it as PNG, or write the viewer")
    least_area = _LEAST_AREA if len(tones) == 2 else _LEAST_AREA_OF_TONES
    height, width = (side // PER_PIXEL for side in values.shape[:2])
    right, bottom = _UNITS * width, _UNITS * height
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}"'
        f' viewBox="0 0 {right} {bottom}">'
    ]
    if paper:
        lines.append(f'<path fill="{_colour(tones[0])}" d="M0 0h{right}v{bottom}h-{right}z"/>')
    for tone, layer in zip(tones[1:], layers(values, tones, PER_PIXEL), strict=True):
        regions = positive_regions(layer, PER_PIXEL, least_area)
        found = iter(fit_curves([line for region in regions for line in region], tolerance_px))
        paths = ["".join(_path(next(found), tolerance_px) for _ in region) for region in regions]
        group = f'<g fill="{_colour(tone)}" fill-rule="evenodd">'
        lines += [group, *(f'<path d="{path}"/>' for path in paths), "</g>"]
    return "\n".join([*lines, "</svg>\n"])


def _colour(tone: np.ndarray) -> str:
    return "#" + bytes(np.rint(255 * np.broadcast_to(tone, 3).clip(0, 1)).astype(np.uint8)).hex()


def _path(controls: np.ndarray, tolerance_px: float) -> str:
    """Return the commands of a closed outline, given the controls of its segments."""
    is_line = _are_straight(controls, tolerance_px / 2).tolist()
    points = np.rint(_UNITS * controls).astype(int)
    commands = ["M" + _numbers(points[0, 0])]
    for number, (segment, line) in enumerate(zip(points, is_line, strict=True), 1):
        if line and number == len(points):
            break  # "z" draws the last line
        commands.append("cl"[line] + _numbers(segment[3 if line else 1 :] - segment[0]))
    return "".join(commands) + "z"


def _are_straight(controls: np.ndarray, distance_px: float) -> np.ndarray:
    """Return which segments have all controls near the line between their ends."""
    along = controls[:, 3:] - controls[:, :1]
    inner = controls[:, 1:3] - controls[:, :1]
    share = (inner * along).sum(axis=2) / np.maximum((along**2).sum(axis=2), 1e-12)
    away = np.linalg.norm(inner - share[..., None] * along, axis=2)
    return ((away <= distance_px) & (share >= 0) & (share <= 1)).all(axis=1)


def _numbers(values: np.ndarray) -> str:
    """Return whole numbers as text; a minus sign also separates them."""
    return " ".join(map(str, values.ravel().tolist())).replace(" -", "-")
