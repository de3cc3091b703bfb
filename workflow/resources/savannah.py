"""A painted savannah at dusk: sky, sun, clouds, mountains, lake, acacias, grass and birds.

The image is painted back to front with a few thousand semi-transparent brush strokes. Places
are in units of the width of the image (x to the right, y down), and the random numbers do not
depend on the size, so the same image can be painted at any size.
"""

import numpy as np
from painting import blend

SEED = 20
ASPECT = 2 / 3
HORIZON = 0.405
SHORE = 0.545
SUN = np.array((0.615, 0.335))
SUN_RADIUS = 0.043
STROKE_SAMPLES = 17


def palette(*rows):
    """Return a colour ramp, from rows of (place, red, green, blue) with colours up to 255."""
    return np.array(rows) / (1, 255, 255, 255)


# fmt: off
SKY = palette(
    (0.00, 38, 30, 74), (0.10, 70, 42, 104), (0.19, 140, 62, 120), (0.27, 214, 92, 96),
    (0.34, 246, 142, 72), (0.405, 255, 196, 104),
)
SUN_DISC = palette((0.28, 255, 250, 214), (0.335, 255, 238, 160), (0.39, 255, 204, 96))
CLOUD_TOP = palette(
    (0.03, 72, 48, 108), (0.16, 132, 62, 114), (0.27, 196, 84, 98), (0.36, 226, 116, 82)
)
CLOUD_FOOT = palette(
    (0.03, 226, 112, 124), (0.16, 255, 142, 106), (0.27, 255, 190, 114), (0.36, 255, 228, 152)
)
BANK = palette((0.50, 112, 60, 42), (0.57, 70, 38, 36), (0.667, 24, 14, 22))
GLOW = np.array((1.0, 0.84, 0.47))
INK = np.array((0.09, 0.05, 0.09))
HAZY_INK = np.array((0.24, 0.12, 0.20))
EMBER = np.array((0.80, 0.38, 0.20))
STRAW = np.array((0.94, 0.64, 0.28))

# Cloud banks: x, y, half length, half height, number of strokes.
CLOUDS = (
    (0.76, 0.070, 0.30, 0.024, 170), (0.20, 0.105, 0.27, 0.018, 140),
    (0.54, 0.168, 0.24, 0.016, 120), (0.92, 0.195, 0.19, 0.015, 100),
    (0.40, 0.238, 0.20, 0.011, 80), (0.78, 0.285, 0.20, 0.010, 80),
    (0.50, 0.316, 0.15, 0.005, 40), (0.70, 0.352, 0.15, 0.004, 30),
)
# Mountain ranges, the farthest first: foot, relief, colours from crest to foot.
RANGES = (
    (0.372, 0.055, palette((0.30, 150, 78, 118), (0.41, 240, 146, 98))),
    (0.390, 0.034, palette((0.33, 112, 58, 104), (0.41, 200, 106, 92))),
    (0.403, 0.016, palette((0.37, 76, 42, 80), (0.412, 132, 68, 78))),
)
# Acacias: x and y of the foot, height.
FAR_TREES = (
    (0.065, 0.409, 0.036), (0.12, 0.409, 0.022), (0.47, 0.409, 0.026), (0.525, 0.409, 0.042),
    (0.565, 0.409, 0.020), (0.765, 0.409, 0.032), (0.97, 0.409, 0.044),
)
NEAR_TREES = ((0.215, 0.575, 0.355), (0.885, 0.556, 0.20))
# The crown of an acacia of height 1: the middles and half lengths of its layers, from the foot.
CROWN = ((-0.38, -0.69, 0.34), (0.42, -0.74, 0.36), (-0.12, -0.84, 0.46), (0.14, -0.94, 0.36))
# Birds: x, y, half span.
BIRDS = (
    (0.400, 0.125, 0.020), (0.448, 0.108, 0.017), (0.478, 0.137, 0.015), (0.508, 0.117, 0.012),
    (0.430, 0.160, 0.012), (0.540, 0.140, 0.010), (0.700, 0.238, 0.010), (0.726, 0.226, 0.008),
)
# fmt: on


def ramp(colours, places):
    """Look up a place, or an array of places, in a palette."""
    return np.stack([np.interp(places, colours[:, 0], c) for c in colours[:, 1:].T], axis=-1)


def ribbon(start, bend, end, widths):
    """Outline a stroke along a quadratic Bezier curve.

    `start`, `bend` and `end` are the control points; `widths` are evenly spaced in the parameter of
    the curve. The outline has the shape (2 * STROKE_SAMPLES, 2).
    """
    t = np.linspace(0.0, 1.0, STROKE_SAMPLES)[:, None]
    start, bend, end = np.asarray(start), np.asarray(bend), np.asarray(end)
    curve = (1 - t) ** 2 * start + 2 * t * (1 - t) * bend + t**2 * end
    tangent = (1 - t) * (bend - start) + t * (end - bend)
    normal = tangent[:, ::-1] * (-1, 1) / np.hypot(*tangent.T)[:, None]
    side = np.reshape(widths, (-1, 1)) / 2 * normal
    return np.vstack([curve + side, (curve - side)[::-1]])


def brush(start, bend, end, width):
    """Outline a stroke that is round in the middle and tapers to both ends."""
    return ribbon(start, bend, end, width * np.sqrt(np.sin(np.linspace(0, np.pi, STROKE_SAMPLES))))


def leaf(root, bend, tip, width):
    """Outline a stroke that swells soon after its root and tapers to its tip."""
    t = np.linspace(0.0, 1.0, STROKE_SAMPLES)
    return ribbon(root, bend, tip, 2.6 * width * np.sqrt(t) * (1 - t))


def limb(start, bend, end, width, end_width=0.0):
    """Outline a stroke that tapers evenly from its start to its end."""
    return ribbon(start, bend, end, np.linspace(width, end_width, STROKE_SAMPLES))


def streak(middle, reach, rise, width):
    """Outline a nearly level brush stroke, `rise` higher in the middle than at its ends."""
    x, y = middle
    return brush((x - reach, y), (x, y - 2 * rise), (x + reach, y), width)


def ellipse(middle, radius_x, radius_y):
    """Outline an ellipse."""
    turn = np.linspace(0, 2 * np.pi, 64, endpoint=False)
    return middle + np.stack([radius_x * np.cos(turn), radius_y * np.sin(turn)], axis=1)


def down_to(floor, x, y):
    """Outline the area between the line (x, y) and a level floor."""
    return np.vstack([np.stack([x, y], axis=1), ((x[-1], floor), (x[0], floor))])


def rows_of(canvas):
    """Return the places y of the rows of pixels, as a column."""
    height, width = canvas.shape[:2]
    return (np.arange(height)[:, None] + 0.5) / width


def sky_colour(x, y):
    """Return the colour of the clear sky: the palette of the sky under the glow of the sun."""
    distance = np.hypot((x - SUN[0]) / 1.5, y - SUN[1])[..., None]
    glow = 0.75 * np.exp(-distance / 0.09) + 0.12 * np.exp(-distance / 0.3)
    clear = ramp(SKY, y)
    return clear + glow * (GLOW - clear)


def paint_sky(canvas, rng):
    """Paint the clear sky and the long strokes in it."""
    x = (np.arange(canvas.shape[1]) + 0.5) / canvas.shape[1]
    canvas[:] = sky_colour(x, rows_of(canvas))
    for _ in range(420):
        x, y = rng.uniform(-0.1, 1.1), rng.uniform(-0.01, HORIZON)
        stroke = streak(
            (x, y), rng.uniform(0.06, 0.2), rng.normal(0, 0.006), rng.uniform(0.004, 0.016)
        )
        colour = sky_colour(x, y + rng.normal(0, 0.018)) * rng.normal(1.0, 0.05)
        blend(canvas, [stroke], colour.clip(0, 1), 0.28)


def paint_sun(canvas):
    """Paint the disc of the sun and its halo."""
    for size, opacity in ((1.9, 0.08), (1.45, 0.12), (1.18, 0.2)):
        blend(canvas, [ellipse(SUN, SUN_RADIUS * size, SUN_RADIUS * size)], GLOW, opacity)
    blend(canvas, [ellipse(SUN, SUN_RADIUS, SUN_RADIUS)], ramp(SUN_DISC, rows_of(canvas)))


def paint_clouds(canvas, rng):
    """Paint banks of cloud, dark above and lit from below."""
    for x, y, half_length, half_height, strokes in CLOUDS:
        for low in np.linspace(-1, 1, strokes):
            along = rng.triangular(-1, 0, 1)
            room = np.sqrt(1 - along**2)
            middle = (x + along * half_length, y + low * half_height * (0.25 + 0.75 * room))
            reach = half_length * rng.uniform(0.06, 0.30) * (0.3 + room)
            rise = half_height * rng.normal(0.12, 0.12)
            light = np.clip(0.5 + 0.5 * low + rng.normal(0, 0.2), 0, 1)
            colour = ramp(CLOUD_TOP, y) * (1 - light) + ramp(CLOUD_FOOT, y) * light
            sunlit = 0.86 + 0.22 * np.exp(-np.hypot(*(middle - SUN)) / 0.35) + rng.normal(0, 0.03)
            stroke = streak(middle, reach, rise, half_height * rng.uniform(0.15, 0.5))
            blend(canvas, [stroke], (colour * sunlit).clip(0, 1), rng.uniform(0.25, 0.65))


def crest_line(rng, foot, relief):
    """Return x and y of a mountain range, made by displacing midpoints."""
    heights = rng.uniform(0.2, 1.0, 6)
    for level in range(6):
        middles = (heights[1:] + heights[:-1]) / 2
        middles += rng.normal(0, 0.3 * 0.5**level, middles.size)
        heights = np.insert(heights, range(1, heights.size), middles)
    return np.linspace(-0.02, 1.02, heights.size), foot - relief * heights


def paint_mountains(canvas, rng):
    """Paint the ranges, each fading into mist at its foot, with slopes lit from the sun's side."""
    for foot, relief, colours in RANGES:
        xs, ys = crest_line(rng, foot, relief)
        blend(canvas, [down_to(HORIZON + 0.01, xs, ys)], ramp(colours, rows_of(canvas)))
        for _ in range(150):
            pick, side = rng.integers(xs.size), rng.choice((-1, 1))
            top = np.array((xs[pick], ys[pick] + 0.06 * relief))
            end = top + (side * 0.45 * relief, 0.4 * relief) * rng.uniform(0.3, 1.0, 2)
            light = 1.16 if side * (SUN[0] - top[0]) > 0 else 0.86
            colour = (ramp(colours, top[1] + 0.2 * relief) * light).clip(0, 1)
            bend = (top + end) / 2 + (0, 0.05 * relief)
            blend(canvas, [leaf(top, bend, end, 0.10 * relief)], colour, 0.3)


def paint_acacia(canvas, rng, foot, height, bark, lit, leaves):
    """Paint an acacia: a forked trunk under a flat crown in layers.

    `foot` is the base of the trunk, and `height` the distance from there to the top. `bark` and
    `lit` are the colours of the shaded and of the sunlit parts. `leaves` is the number of leaves in
    each layer of the crown; if there are fewer leaves, they are larger.
    """

    def at(x, y):
        return foot + np.array((x, y)) * height

    boughs = [limb(at(0, 0.02), at(-0.03, -0.22), at(0.05, -0.48), 0.10 * height, 0.055 * height)]
    for x, y, half in CROWN:
        bend, end = at(0.04 + 0.35 * x, -0.50), at(x, y)
        boughs.append(limb(at(0.03, -0.38), bend, end, 0.06 * height, 0.012 * height))
        for side in (-0.6, 0.55):
            fork = (bend + end) / 2
            boughs.append(limb(fork, (fork + end) / 2, at(x + side * half, y), 0.02 * height))
    blend(canvas, boughs, bark)
    sunward = np.sign(SUN[0] - foot[0])
    size = 5.0 / np.sqrt(leaves)
    for x, y, half in CROWN:
        for low in np.linspace(-1, 1, leaves):
            along = rng.triangular(-1, 0, 1)
            room = np.sqrt(1 - along**2)
            middle = at(x + along * half, y + (0.08 * low - 0.03) * room)
            light = rng.uniform(0, 0.5) * np.clip(0.3 * low + sunward * along + 0.25, 0, 1)
            reach = np.array((0.11, rng.normal(0, 0.04))) * size * height * rng.uniform(0.5, 1)
            stroke = brush(middle - reach, middle, middle + reach, 0.07 * size * height)
            blend(canvas, [stroke], bark + light * (lit - bark), 0.9)


def paint_far_shore(canvas, rng):
    """Paint scrub and small acacias along the horizon."""
    for _ in range(220):
        middle, size = (rng.uniform(-0.02, 1.02), HORIZON + 0.004), rng.uniform(0.001, 0.006)
        blend(canvas, [ellipse(middle, 2.5 * size, size)], HAZY_INK * rng.uniform(0.8, 1.4), 0.8)
    for x, y, height in FAR_TREES:
        paint_acacia(canvas, rng, np.array((x, y)), height, HAZY_INK, EMBER, 24)


def paint_lake(canvas, rng):
    """Mirror everything above the horizon, then paint ripples and the path of the sun."""
    first = round(HORIZON * canvas.shape[1])
    mirrored = first - 1 - 1.5 * np.arange(canvas.shape[0] - first)
    canvas[first:] = canvas[mirrored.clip(0).astype(int)] * (0.82, 0.75, 0.80)
    for _ in range(700):
        depth = rng.uniform() ** 1.5
        x, y = rng.uniform(-0.05, 1.05), HORIZON + 0.006 + 0.19 * depth
        colour = sky_colour(x, HORIZON - (y - HORIZON) * rng.uniform(0.6, 3.0)) * rng.uniform(
            0.55, 1
        )
        reach, rise = rng.uniform(0.01, 0.05) * (0.5 + depth), rng.normal(0, 0.0012)
        blend(canvas, [streak((x, y), reach, rise, 0.0015 + 0.005 * depth)], colour, 0.4)
    for _ in range(240):
        depth = rng.uniform()
        x, y = SUN[0] + rng.normal(0, 0.014 + 0.03 * depth), HORIZON + 0.003 + 0.17 * depth
        reach = rng.uniform(0.004, 0.024) * (0.5 + depth)
        glint = streak((x, y), reach, 0.0005, 0.0016 + 0.003 * depth)
        blend(canvas, [glint], np.minimum(GLOW * rng.uniform(0.95, 1.15), 1), rng.uniform(0.3, 0.8))


def bank_line(x):
    """Return the height of the near bank of the lake at x."""
    return SHORE + 0.012 * np.sin(9 * x + 1) - 0.05 * np.abs(2 * x - 1.1) ** 2.2


def paint_bank(canvas, rng):
    """Paint the earth of the near bank."""
    xs = np.linspace(-0.02, 1.02, 160)
    blend(canvas, [down_to(0.7, xs, bank_line(xs))], ramp(BANK, rows_of(canvas)))
    for _ in range(380):
        x = rng.uniform(-0.05, 1.05)
        y = bank_line(x) + rng.uniform(0.006, 0.14)
        stroke = streak((x, y), rng.uniform(0.02, 0.07), 0.002, rng.uniform(0.003, 0.010))
        blend(canvas, [stroke], ramp(BANK, y) * rng.uniform(0.7, 1.6), 0.35)


def paint_grass(canvas, rng, blades, nearest):
    """Paint leaves of grass from the bank (depth 0) towards the viewer (depth `nearest`)."""
    for depth in nearest * np.linspace(0, 1, blades) ** 0.8:
        x = rng.uniform(-0.03, 1.03)
        y = bank_line(x) + 0.004 + 0.15 * depth
        tall = (0.018 + 0.085 * depth) * rng.uniform(0.5, 1.25)
        lean = rng.normal(0.12, 0.35) * tall
        sunlit = np.exp(-np.abs(x - SUN[0]) / 0.22) * rng.uniform() ** 3
        light = np.clip((0.75 - 0.8 * depth) * rng.uniform(0.2, 1) + 0.35 * sunlit, 0, 1)
        bend, tip = (x + 0.15 * lean, y - 0.6 * tall), (x + lean, y - tall)
        stroke = leaf((x, y), bend, tip, 0.0022 + 0.005 * depth)
        blend(canvas, [stroke], INK + light * (STRAW - INK), 0.9)


def paint_birds(canvas):
    """Paint a flock: two bent wings for each bird."""
    for x, y, span in BIRDS:
        wings = [
            brush(
                (x, y), (x + 0.4 * side, y - 0.75 * span), (x + side, y - 0.1 * span), 0.15 * span
            )
            for side in (-span, span)
        ]
        blend(canvas, wings, INK, 0.9)


def draw_savannah(width_px):
    """Paint the savannah as RGB in [0, 1], float32; the height is two thirds of the width."""
    rng = np.random.default_rng(SEED)
    canvas = np.empty((round(width_px * ASPECT), width_px, 3), dtype=np.float32)
    paint_sky(canvas, rng)
    paint_sun(canvas)
    paint_clouds(canvas, rng)
    paint_mountains(canvas, rng)
    paint_far_shore(canvas, rng)
    paint_lake(canvas, rng)
    paint_bank(canvas, rng)
    paint_grass(canvas, rng, 500, 0.5)
    for x, y, height in NEAR_TREES:
        paint_acacia(canvas, rng, np.array((x, y)), height, INK, EMBER, 1000)
    paint_grass(canvas, rng, 900, 1.0)
    paint_birds(canvas)
    return canvas
