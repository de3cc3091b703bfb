"""Closed curves as points at equal distances, with their corners and tangents.

All curves of a drawing are processed at a time, as arrays. Lengths are in training pixels.
"""

from collections.abc import Sequence

import numpy as np

SPACING_PX = 0.2
"""Distance of the points along a curve."""

_SIDE = 1, 3, 5
"""Distances from a corner, in points, at which the curve on either side of it is measured."""

_LEAST_TURN = 0.6
"""Minimum angle of a corner in radians, beyond what the curvature of its sides explains."""

_FARTHEST_PX = 0.4
"""Maximum distance of the tip of a corner from the curve, which networks round."""

_WINDOW = np.arange(-4, 5)
_DILATIONS = 1, 2, 4, 8
"""Offsets of the points that a tangent is estimated from, and the factors on them."""

_FEWEST_POINTS = 8

_NOISE_WINDOW = 12
"""Points on either side of a point whose distances from a cubic curve are the noise of a contour;
real shapes hardly differ from cubic curves there."""

_LEAST_NOISE_PX, _POINTS_PER_NOISE, _FEWEST_AROUND, _MOST_AROUND = 0.01, 400, 3, 10
"""Noise that sharp renders have, points on either side of a point that are smoothed for each pixel
of further noise, and their minimum and maximum."""


class ClosedCurves:
    """Points of closed curves, one curve after another.

    Contours of noisy images have waves of about a pixel. Their points are moved to local cubic
    curves (Savitzky and Golay 1964), over the more points, the stronger the noise is.

    Parameters
    ----------
    lines : sequence of ndarray, each of shape (n, 2)
        Closed polylines, without their first point at the end; at least one.
    tolerance_px : float
        Maximum distance between the curve and the parabolas that tangents are estimated from.

    Attributes
    ----------
    points, tangents : ndarray of float64, shape (points, 2)
        Tangents have length 1.
    is_corner : ndarray of bool, shape (points,)
    sizes : ndarray of int, shape (curves,)
        Number of points of each curve.
    noise_px : float
        Median deviation of contours from smooth curves before they are smoothed.
    """

    def __init__(self, lines: Sequence[np.ndarray], tolerance_px: float) -> None:
        spaced = [_evenly_spaced(line) for line in lines]
        self.sizes = np.array([len(points) for points in spaced])
        self.points = np.concatenate(spaced)
        self._starts = np.cumsum(self.sizes) - self.sizes
        self._curve = np.repeat(np.arange(len(spaced)), self.sizes)
        self._place = np.arange(len(self.points)) - self._starts[self._curve]
        self.is_corner = self._corners()
        self.noise_px = self._noise_px()
        around = round(_POINTS_PER_NOISE * (self.noise_px - _LEAST_NOISE_PX))
        if around >= _FEWEST_AROUND:
            around = min(around, _MOST_AROUND)
            is_long = self.sizes[self._curve] >= 3 * around
            self.points[is_long] = self._local_curves(around)[0][is_long]
            self.is_corner = self._corners()
        self._sharpen()
        self.tangents = self._tangents(tolerance_px)

    def index(self, curve: np.ndarray, place: np.ndarray) -> np.ndarray:
        """Return indices of points, whose places are counted around their curves."""
        return self._starts[curve] + place % self.sizes[curve]

    def corners(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the curve and the place of each corner."""
        where = self.is_corner.nonzero()[0]
        return self._curve[where], self._place[where]

    def _beside(self, offset: int) -> np.ndarray:
        """Return, for all points, the index of the point `offset` places further on."""
        return self.index(self._curve, self._place + offset)

    def _local_curves(self, around: int) -> tuple[np.ndarray, np.ndarray]:
        """Fit a cubic curve to the points around each; return its middle and the points' RMS
        distance from it, across its direction.
        """
        offsets = np.arange(-around, around + 1)
        basis, _ = np.linalg.qr(np.vander(offsets / around, 4))
        window = np.stack([self.points[self._beside(o)] for o in offsets.tolist()])
        fitted = np.tensordot(basis @ basis.T, window, 1)
        direction = np.tensordot(offsets, window, 1)
        direction /= np.maximum(np.hypot(*direction.T), 1e-12)[:, None]
        distances = _cross(window - fitted, direction)
        return fitted[around], np.sqrt((distances**2).mean(axis=0))

    def _noise_px(self) -> float:
        """Return the median distance of contours from cubic curves, away from corners."""
        is_near_corner = np.zeros(len(self.points), bool)
        for offset in range(-_NOISE_WINDOW, _NOISE_WINDOW + 1):
            is_near_corner |= self.is_corner[self._beside(offset)]
        is_counted = ~is_near_corner & (self.sizes[self._curve] > 4 * _NOISE_WINDOW)
        found = self._local_curves(_NOISE_WINDOW)[1][is_counted]
        return float(np.median(found)) if found.size else 0.0

    def _sides(self) -> tuple[list[np.ndarray], list[np.ndarray]]:
        """Return, for all points, those at three distances on either side."""
        ahead, behind = ([self.points[self._beside(s * d)] for d in _SIDE] for s in (1, -1))
        return ahead, behind

    def _corners(self) -> np.ndarray:
        """Return which points are corners."""
        ahead, behind = self._sides()
        near, middle, far = _SIDE
        turn = np.abs(_angle(behind[0] - behind[2], ahead[2] - ahead[0]))
        for side in (ahead, behind):
            bend = np.abs(_angle(side[1] - side[0], side[2] - side[1])) / (middle - near)
            turn -= 0.5 * (near + far) * bend
        turn[self.sizes[self._curve] < 4 * far] = 0
        is_corner = turn >= _LEAST_TURN
        for offset in range(1, far):
            is_corner &= (turn >= turn[self._beside(offset)]) & (turn > turn[self._beside(-offset)])
        return is_corner

    def _sharpen(self) -> None:
        """Move corners from the rounded curve to the tips of their sides."""
        where = self.is_corner.nonzero()[0]
        ahead, behind = self._sides()
        (p, _, p_far), (q, _, q_far) = ([part[where] for part in s] for s in (ahead, behind))
        u, v = p - p_far, q - q_far
        across = _cross(u, v)
        across[across == 0] = np.inf
        tips = p + u * (_cross(q - p, v) / across)[:, None]
        is_near = np.hypot(*(tips - self.points[where]).T) <= _FARTHEST_PX
        self.points[where[is_near]] = tips[is_near]

    def _tangents(self, tolerance_px: float) -> np.ndarray:
        """Return tangents, each from the widest window in which the curve is a parabola."""
        room = self._steps_to_corner()
        found = self.points[self._beside(1)] - self.points[self._beside(-1)]
        bend = _WINDOW**2 - (_WINDOW**2).mean()
        for dilation in _DILATIONS:
            window = np.stack([self.points[self._beside(dilation * o)] for o in _WINDOW.tolist()])
            slope = np.tensordot(_WINDOW / (_WINDOW**2).sum(), window, 1)
            curvature = np.tensordot(bend / (bend**2).sum(), window, 1)
            parabola = window.mean(axis=0) + np.multiply.outer(_WINDOW, slope)
            parabola += np.multiply.outer(bend, curvature)
            errors = np.hypot(*np.moveaxis(window - parabola, 2, 0)).max(axis=0)
            reach = dilation * _WINDOW[-1]
            is_good = (errors <= tolerance_px / 2) | (dilation == 1)
            is_good &= (room >= reach) & (3 * reach <= self.sizes[self._curve])
            found[is_good] = slope[is_good]
        return found / np.maximum(np.hypot(*found.T), 1e-12)[:, None]

    def _steps_to_corner(self) -> np.ndarray:
        """Return the steps from each point to the nearest corner, at most those of a window."""
        farthest = _DILATIONS[-1] * int(_WINDOW[-1])
        room = np.full(len(self.points), farthest)
        curve, place = self.corners()
        for steps in range(farthest, -1, -1):
            for sign in (1, -1):
                room[self.index(curve, place + sign * steps)] = steps
        return room


def _evenly_spaced(line: np.ndarray) -> np.ndarray:
    """Return points at equal distances along a closed polyline."""
    closed = np.concatenate([line, line[:1]])
    along = np.concatenate([[0], np.cumsum(np.hypot(*np.diff(closed, axis=0).T))])
    count = max(_FEWEST_POINTS, round(along[-1] / SPACING_PX))
    at = np.arange(count) * along[-1] / count
    return np.stack([np.interp(at, along, closed[:, axis]) for axis in (0, 1)], axis=1)


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]


def _angle(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return the signed angle from one direction to another in radians."""
    return np.arctan2(_cross(a, b), (a * b).sum(axis=-1))
