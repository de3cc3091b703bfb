"""Compressed storage of the weights of a network and of the snapshots of its training.

Numbers of the finished network have 16 bits in large arrays, and 32 bits in others; if that changes
the network's values by more than half a level, all numbers have 32 bits. A residual is rounded to a
fifth of a level. Snapshots are stored as differences from the snapshot before, rounded to multiples
of a step; the step is the finest for which they fit in a budget of bytes.
"""

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from neuralfield.images.coordinates import axis_centres, extent, grid
from neuralfield.system.device import HOST
from neuralfield.tasks.image.image_model import Model

LARGE_SHARE = 0.05
"""Minimum share of a network's numbers in an array that counts as large."""

MOST_DIFFERENCE = 0.5 / 255
"""Maximum change of the network's values by rounding to 16 bits."""

CHECKED_ACROSS = 64
"""Number of points along each side of the image at which values are compared."""

RESIDUAL_STEP = 0.2 / 255
"""Step to whose multiples the values of a residual are rounded."""

LEAST_BITS = 2.5
"""Minimum number of bits per number of a snapshot; with fewer, it would not look like the network.
"""

COARSER_BITS = 1.6
"""Number of bits by which the first snapshot is coarser than the middle one, and the last finer."""

_LARGEST_CODE = 32767


Arrays = dict[str, np.ndarray]
Learning = Callable[[], Iterator[Arrays]]
"""A function that yields the arrays of a network's snapshots, from the first step to the last."""


def most_snapshots(numbers: int, budget_bytes: int) -> int:
    """Return the maximum number of snapshots, each of `numbers` numbers, for a budget of bytes."""
    return max(0, int(8 * budget_bytes / (LEAST_BITS * numbers)))


def store(
    networks: Sequence[Model],
    learning: Sequence[Learning],
    snapshots: int,
    budget_bytes: int,
    residual: np.ndarray | None = None,
) -> tuple[dict[str, Any], bytes]:
    """Compress a network, or the networks of all tiles, each with the same number of snapshots.

    Returns a layout, with the names and sizes of a network's arrays and the steps of rounded
    numbers, and the data that ``weights.js`` reads, compressed with zlib.

    `learning` yields the arrays of each network's snapshots, which are rounded so that the
    compressed content fits in `budget_bytes`; finished networks are always stored. For `residual`
    see `neuralfield.tasks.image.image_model.Model`.
    """
    names = sorted(networks[0].arrays)
    sizes = {name: networks[0].arrays[name].size for name in names}
    total = sum(sizes.values())
    has_16_bits = [sizes[name] >= LARGE_SHARE * total for name in names]
    if not all(_is_same(model, names, has_16_bits) for model in networks):
        has_16_bits = [False] * len(names)
    finished = [_finished(model, names, has_16_bits) for model in networks]
    chosen = [name for name in names if _moves(name, networks[0], learning[0])]
    tensors = [
        {"name": name, "size": sizes[name], "bytes": 2 if rounded else 4, "moves": name in chosen}
        for name, rounded in zip(names, has_16_bits, strict=True)
    ]
    coarseness = _coarseness(snapshots)
    layout: dict[str, Any] = {"tensors": tensors, "snapshots": snapshots, "networks": []}
    layout["coarseness"] = coarseness
    corrections = b""
    if residual is not None:
        scale = len(residual) // networks[0].height
        layout["residual"] = {"size": residual.size, "step": RESIDUAL_STEP, "scale": scale}
        corrections = _planes(_codes(residual, RESIDUAL_STEP))
    spreads = [_spreads(model, chosen, total) for model in networks]
    fineness, differences = 0.0, [b""] * len(networks)
    if chosen:
        finished_planes = [*(planes for planes, _ in finished), corrections]
        left_bytes = budget_bytes - sum(len(_compressed(planes)) for planes in finished_planes)
        fineness, differences = _finest(learning, chosen, spreads, coarseness, left_bytes)
    content = b""
    for (planes, steps), own, spread in zip(finished, differences, spreads, strict=True):
        content += planes + own
        layout["networks"].append(
            {"steps": steps, "snapshotSteps": [s * 2.0**-fineness for s in spread]}
        )
    return layout, _compressed(content + corrections)


def _is_same(model: Model, names: Sequence[str], has_16_bits: Sequence[bool]) -> bool:
    """Check whether rounding to 16 bits changes the network's values by at most half a level."""
    arrays = dict(model.arrays)
    for name, rounded in zip(names, has_16_bits, strict=True):
        if rounded:
            codes, step = _rounded(arrays[name])
            arrays[name] = codes * np.float32(step)
    half_sides = extent(model.width, model.height)
    points = grid(*(axis_centres(np, CHECKED_ACROSS, half) for half in half_sides))
    both = [
        m.network(HOST, "float32")(points.astype(np.float32)).data
        for m in (model, replace(model, arrays=arrays))
    ]
    exact, changed = (np.clip(values, 0, 1) for values in both)
    return bool(np.abs(exact - changed).max() <= MOST_DIFFERENCE)


def _rounded(array: np.ndarray) -> tuple[np.ndarray, float]:
    """Round to 16 bits; return the codes, and the step of a code."""
    step = float(np.abs(array).max()) / _LARGEST_CODE or 1.0
    return _codes(array, step), step


def _codes(array: np.ndarray, step: float) -> np.ndarray:
    return np.rint(array / step).clip(-_LARGEST_CODE, _LARGEST_CODE).astype("<i2")


def _finished(
    model: Model, names: Sequence[str], has_16_bits: Sequence[bool]
) -> tuple[bytes, list[float]]:
    """Return the planes of a network's bytes, and the step of each array."""
    planes, steps = b"", []
    for name, rounded in zip(names, has_16_bits, strict=True):
        array, step = model.arrays[name].astype("<f4"), 1.0
        if rounded:
            array, step = _rounded(array)
        planes += _planes(array)
        steps.append(step)
    return planes, steps


def _planes(array: np.ndarray) -> bytes:
    """Group the bytes of numbers by position (first bytes, second bytes ...) for compression."""
    return np.ascontiguousarray(array.reshape(-1, 1).view(np.uint8).T).tobytes()


def _moves(name: str, model: Model, learning: Learning) -> bool:
    return any(not np.array_equal(arrays[name], model.arrays[name]) for arrays in learning())


def _spreads(model: Model, names: Sequence[str], total: int) -> list[float]:
    """Return the scale of each array's steps; finer for small arrays, which need few bytes."""
    found = []
    for name in names:
        array = model.arrays[name]
        scale = float(array.std()) or float(np.abs(array).max()) or 1.0
        found.append(scale if array.size >= LARGE_SHARE * total else scale / 8)
    return found


def _finest(
    learning: Sequence[Learning],
    names: Sequence[str],
    spreads: Sequence[Sequence[float]],
    coarseness: Sequence[float],
    budget_bytes: int,
) -> tuple[float, list[bytes]]:
    """Find the finest steps, 2 ** -fineness of a spread, whose differences fit in a budget."""
    low, high, found = 0.0, 9.0, None
    while high - low > 0.1 or found is None:
        fineness = (low + high) / 2
        differences = [
            _differences(own, names, [s * 2.0**-fineness for s in spread], coarseness)
            for own, spread in zip(learning, spreads, strict=True)
        ]
        if sum(len(_compressed(d)) for d in differences) <= budget_bytes or high < 0.2:
            low, found = fineness, (fineness, differences)
        else:
            high = fineness
    return found


def _coarseness(snapshots: int) -> list[float]:
    """Return the ratio of each snapshot's steps to those of the middle one.

    Later snapshots have finer steps, because they have more detail to lose.
    """
    return [2.0 ** (COARSER_BITS * (1 - 2 * (i + 0.5) / snapshots)) for i in range(snapshots)]


def _differences(
    learning: Learning, names: Sequence[str], steps: Sequence[float], coarseness: Sequence[float]
) -> bytes:
    """Round the difference of each snapshot from the rounded snapshot before it."""
    content, before = b"", np.float64(0)
    for arrays, factor in zip(learning(), coarseness, strict=True):
        sizes = [arrays[name].size for name in names]
        own_steps = np.repeat(steps, sizes) * factor
        exact = np.concatenate([arrays[name].ravel() for name in names])
        # differences beyond the largest code are added in later snapshots
        codes = np.clip(np.rint((exact - before) / own_steps), -_LARGEST_CODE, _LARGEST_CODE)
        before = before + codes * own_steps
        zigzag = np.where(codes >= 0, 2 * codes, -2 * codes - 1)
        content += _planes(zigzag.astype("<u2"))
    return content


def _compressed(content: bytes) -> bytes:
    """Compress with zlib, searching only for runs, because noise has no repetitions but zeros."""
    compressor = zlib.compressobj(6, zlib.DEFLATED, 15, 9, zlib.Z_RLE)
    return compressor.compress(content) + compressor.flush()
