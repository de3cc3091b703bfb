"""Fitting closed curves by cubic Bezier segments, to a tolerance, with few segments.

Curves are divided at their corners, and where a segment is too far from its points (Schneider, "An
algorithm for automatically fitting digitized curves", Graphics Gems, 1990). Neighbours are then
joined wherever one segment does for two. All segments of a drawing are fitted at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from neuralfield.rendering.vectors.closed_curves import SPACING_PX, ClosedCurves

_PROJECTIONS = 4
"""Number of times that points are projected on a segment, which is then fitted again."""

_SHORTEST = 2
"""Steps between points of the shortest segment that is divided."""

_OF_NOISE = 3.5
"""Minimum tolerance as a multiple of the noise of contours, which no segments are spent on."""

_PULL = 1e-6
"""Weight of controls at thirds of a segment, where its points do not determine them."""


@dataclass(frozen=True)
class Segments:
    """Parts of closed curves, sorted; `first` is the place of the first point, `steps` the number
    of steps to the last, and `controls`, shape (segments, 4, 2), those of the Bezier segment.
    """

    curve: np.ndarray
    first: np.ndarray
    steps: np.ndarray
    controls: np.ndarray
    errors: np.ndarray  # largest distance of a point from the segment
    worst: np.ndarray  # number of steps to this point

    def __getitem__(self, which: np.ndarray | slice) -> "Segments":
        return Segments(*(getattr(self, name)[which] for name in self.__dataclass_fields__))

    def with_others(self, others: "Segments") -> "Segments":
        names = self.__dataclass_fields__
        both = Segments(*(np.concatenate([getattr(s, n) for s in (self, others)]) for n in names))
        return both[np.lexsort((both.first, both.curve))]


def fit_curves(lines: Sequence[np.ndarray], tolerance_px: float) -> list[np.ndarray]:
    """Fit closed polylines; return the controls of each, of shape (segments, 4, 2)."""
    if not lines:
        return []
    curves = ClosedCurves(lines, tolerance_px)
    tolerance_px = max(tolerance_px, _OF_NOISE * curves.noise_px)
    found = _joined(curves, _divided(curves, tolerance_px), tolerance_px)
    return [found.controls[found.curve == number] for number in range(len(lines))]


def _divided(curves: ClosedCurves, tolerance_px: float) -> Segments:
    """Divide curves until all segments are within the tolerance."""
    curve, place = curves.corners()
    count = len(curves.sizes)
    # a curve needs two segments at least
    for number in np.flatnonzero(np.bincount(curve, minlength=count) < 2).tolist():
        start = place[curve == number][:1].tolist() or [0]
        more = [start[0], (start[0] + curves.sizes[number] // 2) % curves.sizes[number]]
        is_other = curve != number
        curve = np.concatenate([curve[is_other], [number, number]])
        place = np.concatenate([place[is_other], more])
    order = np.lexsort((place, curve))
    curve, place = curve[order], place[order]
    pending = _fitted(curves, curve, place, _steps_to_next(curves, curve, place))
    done = pending[:0]
    while len(pending.curve):
        is_done = (pending.errors <= tolerance_px) | (pending.steps < 2 * _SHORTEST)
        done, rest = done.with_others(pending[is_done]), pending[~is_done]
        cut = rest.worst.clip(_SHORTEST, rest.steps - _SHORTEST)
        first = np.concatenate([rest.first, rest.first + cut])
        steps = np.concatenate([cut, rest.steps - cut])
        pending = _fitted(curves, np.tile(rest.curve, 2), first, steps)
    return done


def _steps_to_next(curves: ClosedCurves, curve: np.ndarray, place: np.ndarray) -> np.ndarray:
    following = _next(curve)
    return (place[following] - place - 1) % curves.sizes[curve] + 1


def _next(curve: np.ndarray) -> np.ndarray:
    """Return, for segments sorted by curve, the number of the segment that follows on the curve."""
    begins = np.flatnonzero(np.diff(curve, prepend=-1))
    following = np.arange(1, len(curve) + 1)
    following[np.append(begins[1:], len(curve)) - 1] = begins
    return following


def _joined(curves: ClosedCurves, segments: Segments, tolerance_px: float) -> Segments:
    """Replace two neighbours by one segment, or three by two, where these are good enough."""
    ways, failures = [(1.0,), (0.5, 0.5), (0.4, 0.6), (0.6, 0.4)], 0
    while failures < len(ways):
        found = _replaced(curves, segments, ways[0], tolerance_px)
        failures = failures + 1 if len(found.curve) == len(segments.curve) else 0
        segments = found
        ways.append(ways.pop(0))
    return segments


def _replaced(
    curves: ClosedCurves, segments: Segments, shares: tuple[float, ...], tolerance_px: float
) -> Segments:
    """Replace runs of neighbours by one segment fewer, which have these shares of their steps."""
    following = _next(segments.curve)
    runs = [np.arange(len(following))]
    for _ in shares:
        runs.append(following[runs[-1]])
    joints = np.stack([curves.index(segments.curve[run], segments.first[run]) for run in runs[1:]])
    # a closed curve has two segments at least
    left = np.bincount(segments.curve)
    is_open = left[segments.curve] > max(2, len(shares))
    which = (is_open & ~curves.is_corner[joints].any(axis=0)).nonzero()[0]
    runs = np.stack(runs)[:, which]
    steps = segments.steps[runs].sum(axis=0)
    ends = np.rint(np.multiply.outer(np.cumsum([0, *shares]), steps)).astype(np.int64)
    fits = [
        _fitted(curves, segments.curve[which], segments.first[which] + start, end - start)
        for start, end in pairwise(ends)
    ]
    errors = np.max([fit.errors for fit in fits], axis=0, initial=0)
    is_kept, chosen = np.ones(len(segments.curve), bool), []
    for number in np.argsort(errors, kind="stable").tolist():
        run = runs[:, number]
        if errors[number] > tolerance_px:
            break
        if is_kept[run].all() and left[segments.curve[run[0]]] > 2:
            is_kept[run] = False
            left[segments.curve[run[0]]] -= 1
            chosen.append(number)
    found = segments[is_kept]
    for fit in fits:
        found = found.with_others(fit[np.array(chosen, np.int64)])
    return found


def _fitted(
    curves: ClosedCurves, curve: np.ndarray, first: np.ndarray, steps: np.ndarray
) -> Segments:
    """Fit segments to their points by least squares.

    At a corner, the control next to the end is free; elsewhere it is on the curve's tangent.
    """
    first = first % curves.sizes[curve]
    counts = steps + 1
    begins = np.cumsum(counts) - counts
    owner = np.repeat(np.arange(len(curve)), counts)
    step = np.arange(len(owner)) - begins[owner]
    points = curves.points[curves.index(curve[owner], first[owner] + step)]
    ends = np.stack([curves.index(curve, first), curves.index(curve, first + steps)], axis=1)
    p0, p3 = curves.points[ends].swapaxes(0, 1)
    tangents, is_smooth = curves.tangents[ends] * [[1], [-1]], ~curves.is_corner[ends]
    # the directions in which each control may move, of which a smooth end has only one
    basis = np.zeros((len(curve), 2, 2, 2))
    basis[..., 0] = tangents
    basis[~is_smooth] = np.eye(2)
    basis = np.concatenate([basis[:, 0], basis[:, 1]], axis=2)
    thirds = np.stack([(p3 - p0) / 3, (p0 - p3) / 3], axis=1)
    t = step / steps[owner]
    controls = np.zeros((len(curve), 4, 2))
    controls[:, 0], controls[:, 3] = p0, p3
    for projection in range(_PROJECTIONS + 1):
        b = _bernstein(t)
        b1, b2 = b[:, 1], b[:, 2]
        rest = points - (
            b[:, :2].sum(1)[:, None] * p0[owner] + b[:, 2:].sum(1)[:, None] * p3[owner]
        )
        weights = [b1 * b1, b1 * b2, b2 * b2, *(b1 * rest.T), *(b2 * rest.T)]
        totals = np.add.reduceat(np.stack(weights, axis=1), begins)
        offsets = _least_squares(totals, basis, thirds)
        # without loops and spikes: forwards, and no farther than the curve is long
        offsets[is_smooth & ((offsets * tangents).sum(axis=2) < 0)] = 0
        far = np.linalg.norm(offsets, axis=2) / (SPACING_PX * steps[:, None])
        controls[:, 1:3] = np.stack([p0, p3], axis=1) + offsets / np.maximum(far, 1)[..., None]
        if projection < _PROJECTIONS:
            t = _projected(points, controls[owner], t)
            t[begins], t[begins + steps] = 0, 1
    distances = np.hypot(*(np.einsum("nk,nkd->nd", _bernstein(t), controls[owner]) - points).T)
    errors = np.maximum.reduceat(distances, begins)
    # the first point of each segment that has its largest distance
    is_worst = (distances == errors[owner]).nonzero()[0]
    worst = step[is_worst[np.searchsorted(owner[is_worst], np.arange(len(curve)))]]
    return Segments(curve, first, steps, controls, errors, worst)


def _least_squares(totals: np.ndarray, basis: np.ndarray, thirds: np.ndarray) -> np.ndarray:
    """Return the offsets of both controls from their ends, shape (segments, 2, 2).

    `totals` are sums of b1 b1, b1 b2, b2 b2, b1 rest and b2 rest, where b1 and b2 are weights of
    the controls at points, and `basis`, shape (segments, 2, 4), their directions, two of each.
    """
    weights = totals[:, [[0, 0, 1, 1], [0, 0, 1, 1], [1, 1, 2, 2], [1, 1, 2, 2]]]
    products = np.einsum("nda,ndb->nab", basis, basis)
    pull = _PULL * totals[:, [0, 0, 2, 2]] + 1e-12
    matrix = weights * products + np.eye(4) * pull[:, None, :]
    sums = np.repeat(totals[:, 3:].reshape(-1, 2, 2), 2, axis=1)
    start = np.einsum("nda,nad->na", basis, np.repeat(thirds, 2, axis=1))
    right = np.einsum("nda,nad->na", basis, sums) + pull * start
    found = np.linalg.solve(matrix, right[..., None])[..., 0]
    return np.stack(
        [np.einsum("nda,na->nd", basis[:, :, s], found[:, s]) for s in (slice(2), slice(2, 4))],
        axis=1,
    )


def _projected(points: np.ndarray, controls: np.ndarray, t: np.ndarray) -> np.ndarray:
    """Move parameters towards the places nearest to the points, by a step of Newton's method."""
    first, second = np.diff(controls, axis=1), np.diff(controls, n=2, axis=1)
    s = 1 - t
    away = np.einsum("nk,nkd->nd", _bernstein(t), controls) - points
    speed = 3 * np.einsum("nk,nkd->nd", np.stack([s * s, 2 * s * t, t * t], axis=1), first)
    turn = 6 * np.einsum("nk,nkd->nd", np.stack([s, t], axis=1), second)
    squared = (speed**2).sum(1)
    slope = squared + (away * turn).sum(1)
    step = (away * speed).sum(1) / np.maximum(
        np.where(slope > 0.1 * squared, slope, squared), 1e-12
    )
    return np.clip(t - step, 0, 1)


def _bernstein(t: np.ndarray) -> np.ndarray:
    """Return the weights of the four controls at each parameter; shape (n, 4)."""
    s = 1 - t
    return np.stack([s**3, 3 * s * s * t, 3 * s * t * t, t**3], axis=1)
