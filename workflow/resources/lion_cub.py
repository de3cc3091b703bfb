"""A line drawing of a sitting lion cub, made of curves only.

The image is a list of parts, painted back to front in a unit square (x to the right, y down),
so it can be drawn at any size. Each part is a smooth curve through a few points; *a point given
twice in a row is a corner*. Parts of the head are given in the head's own coordinates, whose
origin is the middle of the face; symmetric parts are given only for the right-hand side.
"""

from typing import NamedTuple

import numpy as np
from painting import blend

INK, PAPER = 0.0, 1.0
SPAN_SAMPLES = 24

# Pens: width at the start, in the middle and at the end of a stroke, in widths of the image.
PENS = {
    "contour": (0.006, 0.0185, 0.006),
    "lid": (0.006, 0.026, 0.006),
    "mouth": (0.012, 0.012, 0.006),
    "fine": (0.005, 0.009, 0.005),
    "crease": (0.004, 0.013, 0.010),
    "hair": (0.005, 0.011, 0.0035),
    "whisker": (0.0075, 0.0065, 0.005),
    "tail": (0.058, 0.050, 0.046),
    "tail inside": (0.026, 0.018, 0.014),
}
# Maximum width of the middle of a stroke as a fraction of its length; short strokes are thinner.
STOUTEST = 0.2


class Curve(NamedTuple):
    """One curve of the drawing."""

    points: tuple  # the points that the curve passes through; a repeated point is a corner
    tone: float = INK  # grey to paint with: `INK` or `PAPER`
    pen: str | None = None
    """Name of the pen in `PENS` that draws the line, or None to fill the closed curve."""


def line(pen, *points, tone=INK):
    """Return a stroke of a pen."""
    return Curve(points, tone, pen)


def blot(*points, tone=INK):
    """Return a filled shape."""
    return Curve(points, tone)


def disc(x, y, radius_x, radius_y=None, tone=INK):
    """Return a filled ellipse, or a circle if only one radius is given."""
    turn = np.arange(8) * np.pi / 4
    xs, ys = x + radius_x * np.cos(turn), y + (radius_y or radius_x) * np.sin(turn)
    return blot(*zip(xs.tolist(), ys.tolist(), strict=True), tone=tone)


def both_sides(parts):
    """Return the parts together with their mirror images in the line x = 0."""
    mirrored = (part._replace(points=tuple((-x, y) for x, y in part.points)) for part in parts)
    return (*parts, *mirrored)


def symmetric(part):
    """Return the symmetric shape whose right-hand side, from top to bottom, is `part`."""
    left = [(-x, y) for x, y in reversed(part.points) if x > 0.0]
    return part._replace(points=(*part.points, *left))


# fmt: off
# Body, in the coordinates of the image.
TAIL_CURVE = (
    (0.73, 0.89), (0.81, 0.925), (0.89, 0.90), (0.924, 0.825), (0.903, 0.75), (0.885, 0.695),
    (0.892, 0.63),
)
TAIL = (
    line("tail", *TAIL_CURVE),
    line("tail inside", *TAIL_CURVE, tone=PAPER),
    blot(
        (0.858, 0.688), (0.858, 0.688), (0.842, 0.655), (0.832, 0.61), (0.838, 0.572),
        (0.838, 0.572), (0.848, 0.588), (0.857, 0.594), (0.857, 0.594), (0.862, 0.55),
        (0.88, 0.512), (0.918, 0.48), (0.918, 0.48), (0.911, 0.515), (0.916, 0.55), (0.916, 0.55),
        (0.932, 0.543), (0.955, 0.527), (0.955, 0.527), (0.957, 0.58), (0.944, 0.638),
        (0.917, 0.688), (0.917, 0.688), (0.907, 0.675), (0.902, 0.66), (0.902, 0.66),
        (0.897, 0.678), (0.888, 0.697), (0.888, 0.697), (0.88, 0.682), (0.877, 0.664),
        (0.877, 0.664), (0.869, 0.678),
    ),
)
TORSO = blot(
    (0.27, 0.50), (0.255, 0.62), (0.275, 0.80), (0.30, 0.93), (0.50, 0.94), (0.74, 0.94),
    (0.788, 0.87), (0.775, 0.74), (0.735, 0.62), (0.65, 0.48), tone=PAPER,
)
FAR_HIND_PAW = (
    blot((0.30, 0.865), (0.235, 0.872), (0.195, 0.905), (0.20, 0.94), (0.25, 0.953), (0.31, 0.945),
         tone=PAPER),
    line("contour", (0.275, 0.862), (0.225, 0.875), (0.193, 0.91), (0.206, 0.945), (0.265, 0.953)),
)
HAUNCH = (
    blot((0.585, 0.80), (0.61, 0.725), (0.67, 0.695), (0.735, 0.73), (0.765, 0.82), (0.74, 0.90),
         (0.72, 0.955), (0.60, 0.96), (0.53, 0.945), (0.535, 0.90), (0.59, 0.88), tone=PAPER),
    line("contour", (0.613, 0.872), (0.588, 0.80), (0.607, 0.735), (0.66, 0.70), (0.72, 0.715)),
    line("contour", (0.655, 0.53), (0.71, 0.575), (0.757, 0.66), (0.787, 0.77), (0.79, 0.86),
         (0.76, 0.93), (0.69, 0.962), (0.61, 0.965), (0.555, 0.952), (0.545, 0.91), (0.585, 0.88),
         (0.64, 0.876)),
    line("crease", (0.594, 0.914), (0.588, 0.933), (0.594, 0.956)),
    line("crease", (0.633, 0.914), (0.628, 0.934), (0.634, 0.956)),
    line("hair", (0.72, 0.875), (0.69, 0.908), (0.645, 0.917)),
)
SPOTS = (
    disc(0.665, 0.765, 0.011, 0.008),
    disc(0.70, 0.79, 0.012, 0.009),
    disc(0.655, 0.81, 0.010, 0.008),
    disc(0.695, 0.835, 0.009, 0.007),
    disc(0.735, 0.83, 0.008, 0.007),
)
LEFT_LEG = (
    blot((0.275, 0.60), (0.262, 0.70), (0.272, 0.82), (0.252, 0.90), (0.265, 0.955), (0.325, 0.972),
         (0.385, 0.957), (0.392, 0.90), (0.42, 0.80), (0.43, 0.66), (0.34, 0.58), tone=PAPER),
    line("contour", (0.266, 0.592), (0.26, 0.65), (0.268, 0.74), (0.276, 0.82), (0.262, 0.87),
         (0.246, 0.915), (0.262, 0.957), (0.318, 0.972), (0.37, 0.965), (0.41, 0.945)),
    line("hair", (0.295, 0.66), (0.30, 0.70), (0.292, 0.74)),
    line("crease", (0.297, 0.915), (0.291, 0.937), (0.297, 0.96)),
    line("crease", (0.345, 0.915), (0.341, 0.939), (0.347, 0.962)),
)
RIGHT_LEG = (
    blot((0.42, 0.64), (0.412, 0.80), (0.400, 0.90), (0.41, 0.955), (0.47, 0.975), (0.54, 0.955),
         (0.555, 0.90), (0.532, 0.82), (0.545, 0.70), (0.54, 0.62), (0.48, 0.58), tone=PAPER),
    line("contour", (0.404, 0.725), (0.416, 0.79), (0.41, 0.85), (0.393, 0.905), (0.402, 0.953),
         (0.455, 0.978), (0.515, 0.973), (0.555, 0.945), (0.557, 0.90), (0.536, 0.85),
         (0.536, 0.78), (0.55, 0.71), (0.566, 0.655)),
    line("crease", (0.448, 0.918), (0.443, 0.942), (0.449, 0.966)),
    line("crease", (0.502, 0.918), (0.499, 0.942), (0.505, 0.964)),
)
CHEST = (
    line("hair", (0.345, 0.65), (0.35, 0.68), (0.37, 0.705)),
    line("hair", (0.378, 0.655), (0.382, 0.69), (0.402, 0.725)),
    line("hair", (0.44, 0.65), (0.43, 0.69), (0.404, 0.727)),
    line("hair", (0.475, 0.65), (0.47, 0.675), (0.452, 0.70)),
)
BODY = (*TAIL, TORSO, *FAR_HIND_PAW, *HAUNCH, *SPOTS, *LEFT_LEG, *RIGHT_LEG, *CHEST)

# Head, in its own coordinates.
EAR = (
    blot((0.105, -0.19), (0.128, -0.265), (0.19, -0.302), (0.258, -0.282), (0.287, -0.215),
         (0.272, -0.145), (0.235, -0.09), (0.16, -0.12), tone=PAPER),
    line("contour", (0.108, -0.212), (0.138, -0.275), (0.195, -0.302), (0.258, -0.282),
         (0.287, -0.215), (0.277, -0.155), (0.25, -0.108)),
    line("fine", (0.15, -0.232), (0.172, -0.259), (0.21, -0.267), (0.243, -0.245),
         (0.253, -0.20), (0.243, -0.16)),
)
EAR_FUR = (
    line("hair", (0.138, -0.178), (0.15, -0.205), (0.175, -0.228)),
    line("hair", (0.155, -0.152), (0.175, -0.187), (0.213, -0.217)),
    line("hair", (0.195, -0.135), (0.207, -0.158), (0.225, -0.175)),
)
FACE_EDGE = (
    (0.25, -0.108), (0.287, -0.055), (0.303, 0.005), (0.305, 0.055), (0.33, 0.098), (0.33, 0.098),
    (0.307, 0.101), (0.285, 0.094), (0.285, 0.094), (0.291, 0.127), (0.315, 0.161), (0.315, 0.161),
    (0.286, 0.166), (0.256, 0.157), (0.256, 0.157), (0.258, 0.186), (0.272, 0.216), (0.272, 0.216),
    (0.235, 0.219), (0.20, 0.205),
)
FACE = symmetric(
    blot((0.0, -0.235), (0.10, -0.222), (0.18, -0.18), *FACE_EDGE, (0.16, 0.235), (0.09, 0.262),
         (0.0, 0.27), tone=PAPER)
)
CHIN = (
    line("contour", (-0.20, 0.205), (-0.16, 0.235), (-0.09, 0.262), (0.0, 0.27), (0.09, 0.262),
         (0.16, 0.235), (0.20, 0.205)),
    line("hair", (-0.035, 0.244), (0.0, 0.249), (0.035, 0.244)),
)
CHEEK = (
    line("contour", *FACE_EDGE),
    line("hair", (0.235, -0.005), (0.252, 0.022), (0.277, 0.038)),
    line("hair", (0.208, 0.134), (0.222, 0.152), (0.245, 0.163)),
)
EYE = (
    blot((0.066, 0.024), (0.066, 0.024), (0.082, -0.032), (0.122, -0.06), (0.162, -0.044),
         (0.18, -0.012), (0.18, -0.012), (0.158, 0.03), (0.118, 0.044), (0.085, 0.036), tone=PAPER),
    disc(0.122, -0.008, 0.046, 0.05),
    line("lid", (0.056, 0.04), (0.065, 0.016), (0.082, -0.032), (0.122, -0.06), (0.162, -0.044),
         (0.192, -0.002)),
    line("fine", (0.066, 0.024), (0.085, 0.038), (0.118, 0.046), (0.158, 0.032), (0.18, -0.01)),
    line("hair", (0.075, -0.085), (0.115, -0.108), (0.165, -0.095)),
)
HIGHLIGHTS = (
    disc(-0.138, -0.028, 0.017, tone=PAPER),
    disc(-0.106, 0.017, 0.008, tone=PAPER),
    disc(0.106, -0.028, 0.017, tone=PAPER),
    disc(0.138, 0.017, 0.008, tone=PAPER),
)
NOSE = (
    blot((-0.07, 0.066), (-0.04, 0.055), (0.0, 0.06), (0.04, 0.055), (0.07, 0.066), (0.06, 0.09),
         (0.025, 0.115), (0.0, 0.124), (-0.025, 0.115), (-0.06, 0.09)),
    line("mouth", (0.0, 0.115), (0.0, 0.14), (0.0, 0.162)),
    line("hair", (-0.045, 0.072), (-0.02, 0.068), (0.01, 0.072), tone=PAPER),
)
MOUTH = (
    blot((-0.05, 0.178), (-0.05, 0.178), (-0.025, 0.175), (0.0, 0.16), (0.025, 0.175),
         (0.05, 0.178), (0.05, 0.178), (0.034, 0.217), (0.0, 0.23), (-0.034, 0.217)),
    blot((-0.026, 0.211), (0.0, 0.2), (0.026, 0.211), (0.0, 0.222), tone=PAPER),
)
MUZZLE = (
    line("mouth", (0.0, 0.16), (0.025, 0.178), (0.065, 0.18), (0.095, 0.166), (0.108, 0.145)),
    line("hair", (0.092, 0.056), (0.113, 0.065), (0.128, 0.084)),
    line("hair", (0.04, -0.09), (0.032, -0.055), (0.034, -0.015)),
    disc(0.056, 0.126, 0.0055),
    disc(0.084, 0.112, 0.0055),
    disc(0.080, 0.146, 0.0055),
)
WHISKERS = (
    line("whisker", (0.112, 0.105), (0.23, 0.062), (0.385, 0.055)),
    line("whisker", (0.118, 0.126), (0.24, 0.116), (0.385, 0.137)),
    line("whisker", (0.122, 0.147), (0.22, 0.172), (0.335, 0.235)),
)
FOREHEAD = (
    line("hair", (-0.035, -0.205), (-0.034, -0.175), (-0.022, -0.145)),
    line("hair", (0.002, -0.215), (0.003, -0.18), (0.0, -0.14)),
    line("hair", (0.036, -0.205), (0.033, -0.175), (0.02, -0.148)),
)
TUFT_EDGE = (
    (-0.108, -0.217), (-0.09, -0.224), (-0.072, -0.228), (-0.072, -0.228), (-0.095, -0.25),
    (-0.106, -0.285), (-0.106, -0.285), (-0.082, -0.265), (-0.058, -0.258), (-0.058, -0.258),
    (-0.062, -0.298), (-0.035, -0.332), (-0.035, -0.332), (-0.02, -0.30), (0.003, -0.276),
    (0.003, -0.276), (0.018, -0.302), (0.062, -0.315), (0.062, -0.315), (0.055, -0.29),
    (0.06, -0.258), (0.06, -0.258), (0.085, -0.27), (0.108, -0.27), (0.108, -0.27), (0.092, -0.25),
    (0.088, -0.228), (0.088, -0.228), (0.10, -0.224), (0.108, -0.217),
)
TUFT = (
    blot(*TUFT_EDGE, tone=PAPER),
    line("contour", *TUFT_EDGE),
    line("hair", (-0.03, -0.245), (-0.032, -0.275), (-0.026, -0.30)),
    line("hair", (0.03, -0.242), (0.03, -0.265), (0.038, -0.285)),
)
HEAD = (
    *both_sides(EAR), FACE, *both_sides((*CHEEK, *EAR_FUR)), *CHIN, *TUFT, *FOREHEAD,
    *both_sides((*EYE, *MUZZLE)), *HIGHLIGHTS, *MOUTH, *NOSE, *both_sides(WHISKERS),
)
# fmt: on
HEAD_PLACE = (0.44, 0.368)
HEAD_TILT = np.radians(-4.0)


def placed(part):
    """Return a part of the head in the coordinates of the image."""
    cos, sin = np.cos(HEAD_TILT), np.sin(HEAD_TILT)
    turned = np.array(part.points) @ ((cos, sin), (-sin, cos)) + HEAD_PLACE
    return part._replace(points=tuple(map(tuple, turned)))


def span(before, start, end, after):
    """Sample a centripetal Catmull-Rom curve from `start`, which is excluded, to `end`.

    If there is no neighbour (`before` is `start`, or `after` is `end`), the curve is a parabola.
    """
    gaps = [np.sqrt(np.hypot(*gap)) for gap in (start - before, end - start, after - end)]
    leave = arrive = end - start
    if gaps[0] > 0:
        bend = (start - before) / gaps[0] - (end - before) / (gaps[0] + gaps[1])
        leave = leave + gaps[1] * bend
    if gaps[2] > 0:
        bend = (after - end) / gaps[2] - (after - start) / (gaps[1] + gaps[2])
        arrive = arrive + gaps[1] * bend
    if gaps[0] == 0:
        leave = 2 * (end - start) - arrive
    if gaps[2] == 0:
        arrive = 2 * (end - start) - leave
    t = np.linspace(0, 1, SPAN_SAMPLES + 1)[1:, None]
    cubic, square = 2 * (start - end) + leave + arrive, 3 * (end - start) - 2 * leave - arrive
    return ((cubic * t + square) * t + leave) * t + start


def smooth_runs(points, closed):
    """Sample the smooth curve through at least two different points, and cut it at its corners.

    Repeated points are corners. A closed curve returns to its first point.
    """
    knots = np.array(points)
    if closed:
        knots = np.vstack([knots[-1:], knots, knots[:2]])
    else:
        knots = np.vstack([knots[:1], knots, knots[-1:]])
    runs = [[knots[1]]]
    for before, start, end, after in zip(knots, knots[1:], knots[2:], knots[3:], strict=False):
        if np.array_equal(start, end):
            runs.append([end])
        else:
            runs[-1].append(span(before, start, end, after))
    return [np.vstack(run) for run in runs if len(run) > 1]


def stroke_pieces(curve, pen):
    """Cut a stroke into convex polygons: a disc at each sample, and the area between neighbours.

    `curve`, shape (n, 2), is the centre line of the stroke, and `pen` its width at the start, in
    the middle and at the end.
    """
    steps = np.diff(curve, axis=0)
    lengths = np.hypot(*steps.T)
    t = np.r_[0, np.cumsum(lengths)] / lengths.sum()
    first, middle, last = pen
    middle = min(middle, max(first, last, STOUTEST * lengths.sum()))
    widths = first * (1 - t) * (1 - 2 * t) + 4 * middle * t * (1 - t) + last * t * (2 * t - 1)
    radii = widths[:, None] / 2
    turn = np.linspace(0, 2 * np.pi, 32, endpoint=False)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    discs = [centre + radius * circle for centre, radius in zip(curve, radii, strict=True)]
    normals = steps[:, ::-1] * (-1, 1) / lengths[:, None]
    one, other = normals * radii[:-1], normals * radii[1:]
    a, b = curve[:-1], curve[1:]
    return [*discs, *np.stack([a + one, b + other, b - other, a - one], axis=1)]


def draw_lion_cub(width_px):
    """Draw the lion cub: float32 of shape (width_px, width_px), 0 is ink and 1 is paper."""
    canvas = np.full((width_px, width_px), PAPER, dtype=np.float32)
    for part in (*BODY, *map(placed, HEAD)):
        runs = smooth_runs(part.points, closed=part.pen is None)
        if part.pen is None:
            outlines = [np.vstack(runs)]
        else:
            outlines = [piece for run in runs for piece in stroke_pieces(run, PENS[part.pen])]
        blend(canvas, outlines, part.tone)
    return canvas
