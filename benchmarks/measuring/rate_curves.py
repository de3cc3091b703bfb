"""Curves of quality against bits, of other codecs among them, and BD-rates between curves."""

from collections.abc import Sequence

import numpy as np

Curve = Sequence[tuple[float, float]]
"""Bits per pixel and PSNR in dB, in ascending order of bits."""

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
"""Cool-Chic 5.0 on eight Kodak images of 768 x 512 pixels, as published: bits per pixel and PSNR of
RGB, with lambda 2e-2, 4e-3, 1e-3, 4e-4 and 1e-4."""

BPG: dict[str, Curve] = {
    "kodim03": (
        *((0.099, 32.12), (0.188, 34.51), (0.324, 36.98), (0.526, 39.41)),
        *((0.819, 41.76), (1.223, 43.76), (1.872, 45.64)),
    ),
    "kodim05": (
        *((0.437, 27.47), (0.740, 30.32), (1.167, 33.36), (1.738, 36.50)),
        *((2.443, 39.55), (3.330, 42.37), (4.468, 44.98)),
    ),
    "kodim08": (
        *((0.443, 27.59), (0.722, 30.29), (1.133, 33.12), (1.699, 36.04)),
        *((2.451, 39.05), (3.451, 42.10), (4.707, 45.02)),
    ),
    "kodim15": (
        *((0.121, 30.88), (0.237, 33.09), (0.433, 35.48), (0.737, 37.98)),
        *((1.179, 40.57), (1.794, 43.06), (2.693, 45.49)),
    ),
    "kodim19": (
        *((0.167, 29.78), (0.321, 31.99), (0.592, 34.63), (0.988, 37.39)),
        *((1.504, 39.99), (2.224, 42.41), (3.373, 45.22)),
    ),
    "kodim20": (
        *((0.117, 31.37), (0.217, 33.57), (0.392, 36.13), (0.652, 38.74)),
        *((0.983, 40.99), (1.489, 43.03), (2.408, 45.74)),
    ),
    "kodim23": (
        *((0.114, 32.83), (0.187, 35.03), (0.305, 37.23), (0.479, 39.23)),
        *((0.751, 41.14), (1.216, 42.97), (2.160, 45.27)),
    ),
    "kodim24": (
        *((0.343, 28.17), (0.609, 30.87), (0.997, 33.81), (1.522, 36.96)),
        *((2.171, 40.02), (2.973, 42.83), (4.008, 45.45)),
    ),
}
"""The same images by libbpg 0.9.8 (x265), 4:4:4 (`measuring.bpg`)."""


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
