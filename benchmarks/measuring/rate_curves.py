"""Curves of quality against bits, published ones among them, and BD-rates between curves."""

from collections.abc import Sequence

import numpy as np

Curve = Sequence[tuple[float, float]]
"""Bits per pixel and PSNR in dB, in ascending order of bits."""

PUBLISHED: dict[str, Curve] = {
    "BPG 4:4:4": (
        *((0.161, 28.68), (0.352, 31.59), (0.685, 34.86), (1.200, 38.26)),
        *((1.930, 41.48), (3.058, 44.70), (4.703, 47.63)),
    ),
    "Cool-Chic 5.0": (
        *((0.084, 27.44), (0.219, 30.86), (0.482, 34.52), (0.759, 37.25)),
        (1.357, 41.17),
    ),
}
"""Means over the 24 Kodak images, 768 x 512, of bits per pixel and of PSNR of RGB."""

COOL_CHIC: dict[str, Curve] = {
    "kodim03": ((0.050, 30.30), (0.114, 33.47), (0.229, 37.19), (0.359, 39.53), (0.686, 42.95)),
    "kodim05": ((0.156, 24.42), (0.417, 28.78), (0.843, 33.29), (1.212, 36.39), (1.985, 40.74)),
    "kodim08": ((0.163, 24.38), (0.410, 28.69), (0.813, 32.73), (1.196, 35.54), (2.101, 40.21)),
    "kodim15": ((0.058, 29.23), (0.125, 32.13), (0.282, 35.28), (0.502, 37.77), (1.021, 41.65)),
    "kodim19": ((0.073, 27.81), (0.164, 30.49), (0.421, 33.99), (0.707, 36.80), (1.326, 40.74)),
    "kodim20": ((0.059, 29.66), (0.125, 32.44), (0.282, 35.53), (0.481, 38.33), (0.872, 41.64)),
    "kodim23": ((0.059, 30.76), (0.114, 34.13), (0.223, 37.34), (0.353, 39.35), (0.646, 42.13)),
    "kodim24": ((0.111, 25.38), (0.304, 29.38), (0.655, 33.70), (0.986, 36.78), (1.682, 41.26)),
}
"""Cool-Chic 5.0 on eight of the images, with lambda 2e-2, 4e-3, 1e-3, 4e-4 and 1e-4."""


def bd_rate_percent(curve: Curve, anchor: Curve) -> float:
    """Compute how many percent more bits than an anchor a curve takes at equal quality.

    The mean difference of the logarithms of bits over the range of PSNR that both have (G.
    Bjøntegaard, VCEG-M33, 2001), with piecewise cubic Hermite interpolation (PCHIP); NaN if they
    have no common range or a curve does not rise.
    """
    from scipy.interpolate import PchipInterpolator  # installed for tests and benchmarks only

    logs, ranges = [], []
    for points in (curve, anchor):
        bits, db = np.array(sorted(points)).T
        if len(bits) < 2 or not (np.diff(db) > 0).all():
            return float("nan")
        logs.append(PchipInterpolator(db, np.log(bits)))
        ranges.append((db[0], db[-1]))
    low, high = max(low for low, _ in ranges), min(high for _, high in ranges)
    if low >= high:
        return float("nan")
    own, other = (float(log.integrate(low, high)) for log in logs)
    return 100 * (np.exp((own - other) / (high - low)) - 1)


def mean_curve(curves: Sequence[Curve]) -> Curve:
    """Return the means of bits and of PSNR of images that were coded with the same settings."""
    return [(float(bits), float(db)) for bits, db in np.mean([list(c) for c in curves], axis=0)]
