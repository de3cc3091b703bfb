"""Kernels that compare the patches of an image with each other, and filter those that are alike.

Sums over a patch take its numbers in a fixed order, so that bits do not depend on threads.
"""

import numpy as np

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.cpu.kernels.parts import kernel_part

PATCH_PX = 5
"""Side of a patch."""

GROUP = 64
"""Patches that are filtered together; a power of 2."""


@entry_point
def find_similar(image, tops, lefts, start, stop, reach_px, found):
    """Find the patches that are most like each of some patches, within a square around it.

    Parameters
    ----------
    image : float32, shape (height, width)
    tops, lefts : int32, shape (patches,)
        Corners of all patches that groups are found for.
    start, stop : int
        Those of them to take.
    reach_px : int
        How far a similar patch may lie, along each axis.
    found : int32, shape (patches, GROUP, 2)
        Corners of the most similar ones, the patch itself first. Where there are fewer within
        reach, they are repeated.
    """
    height, width = image.shape
    distances = np.empty(2 * reach_px + 1, np.float32)
    nearest = np.empty(GROUP, np.float32)
    for number in range(start, stop):
        top, left = tops[number], lefts[number]
        first, last = max(left - reach_px, 0), min(left + reach_px, width - PATCH_PX)
        count = last - first + 1
        kept = 0
        for other in range(max(top - reach_px, 0), min(top + reach_px, height - PATCH_PX) + 1):
            distances[:count] = 0
            for row in range(PATCH_PX):
                for column in range(PATCH_PX):
                    own = image[top + row, left + column]
                    line = image[other + row, first + column : first + column + count]
                    for place in range(count):
                        difference = line[place] - own
                        distances[place] += difference * difference
            if other == top:
                distances[left - first] = -1  # before equal ones
            for place in range(count):
                if kept == GROUP and distances[place] >= nearest[GROUP - 1]:
                    continue
                kept = min(kept + 1, GROUP)
                rank = kept - 1
                while rank > 0 and nearest[rank - 1] > distances[place]:
                    nearest[rank] = nearest[rank - 1]
                    found[number, rank, 0] = found[number, rank - 1, 0]
                    found[number, rank, 1] = found[number, rank - 1, 1]
                    rank -= 1
                nearest[rank] = distances[place]
                found[number, rank, 0], found[number, rank, 1] = other, first + place
        for rank in range(kept, GROUP):
            found[number, rank] = found[number, rank % kept]


@entry_point
def filter_groups(channels, start, stop, found, cosines, threshold, first_row, sums, weights):
    """Filter groups of similar patches by a hard threshold, and add up what each pixel gets.

    A group is transformed by cosines within patches and by Haar wavelets across them; numbers below
    the threshold become 0 (Dabov, Foi, Katkovnik & Egiazarian, "Image denoising by sparse 3-D
    transform-domain collaborative filtering", 2007). A group counts more if fewer
    numbers stay.

    Parameters
    ----------
    channels : float32, shape (channels, height, width)
    found : int32, shape (patches, GROUP, 2)
        See `find_similar`.
    cosines : float32, shape (PATCH_PX, PATCH_PX)
        The orthonormal transform of a side.
    threshold : float32
    first_row : int
        The row of the image that the first row of `sums` is.
    sums, weights : float32, shape (channels, rows, width)
        Weighted sums of the filtered pixels, and of their weights, are added here.
    """
    numbers = np.empty((PATCH_PX * PATCH_PX, GROUP), np.float32)
    other = np.empty((PATCH_PX * PATCH_PX, GROUP), np.float32)
    back = cosines.T.copy()
    for number in range(start, stop):
        for channel in range(channels.shape[0]):
            _gather(channels[channel], found[number], numbers)
            _transform(numbers, cosines, other)
            _haar(numbers, other)
            kept = 1
            for row in range(PATCH_PX * PATCH_PX):
                for rank in range(GROUP):
                    is_small = abs(numbers[row, rank]) < threshold
                    # the mean of all pixels stays
                    if is_small and (row > 0 or rank > 0):
                        numbers[row, rank] = 0
                    else:
                        kept += 1
            _inverse_haar(numbers, other)
            _transform(numbers, back, other)
            weight = np.float32(1) / np.float32(kept)
            _scatter(numbers, found[number], weight, first_row, sums[channel], weights[channel])


@kernel_part
def _place(rank):
    """Return the place of a patch in its group: then similar ones meet first in `_haar`."""
    place, left, size = 0, rank, 1
    while size < GROUP:
        place = 2 * place + left % 2
        left //= 2
        size *= 2
    return place


@kernel_part
def _gather(image, corners, numbers):
    for rank in range(GROUP):
        top, left, place = corners[rank, 0], corners[rank, 1], _place(rank)
        for row in range(PATCH_PX):
            for column in range(PATCH_PX):
                numbers[row * PATCH_PX + column, place] = image[top + row, left + column]


@kernel_part
def _scatter(numbers, corners, weight, first_row, sums, weights):
    for rank in range(GROUP):
        top, left, place = corners[rank, 0] - first_row, corners[rank, 1], _place(rank)
        for row in range(PATCH_PX):
            for column in range(PATCH_PX):
                sums[top + row, left + column] += weight * numbers[row * PATCH_PX + column, place]
                weights[top + row, left + column] += weight


@kernel_part
def _transform(numbers, matrix, other):
    """Multiply both sides of all patches by a matrix."""
    for row in range(PATCH_PX):
        for out in range(PATCH_PX):
            for rank in range(GROUP):
                total = np.float32(0)
                for column in range(PATCH_PX):
                    total += matrix[out, column] * numbers[row * PATCH_PX + column, rank]
                other[row * PATCH_PX + out, rank] = total
    for column in range(PATCH_PX):
        for out in range(PATCH_PX):
            for rank in range(GROUP):
                total = np.float32(0)
                for row in range(PATCH_PX):
                    total += matrix[out, row] * other[row * PATCH_PX + column, rank]
                numbers[out * PATCH_PX + column, rank] = total


@kernel_part
def _haar(numbers, other):
    scale = np.float32(np.sqrt(0.5))
    for row in range(numbers.shape[0]):
        half = GROUP // 2
        while half > 0:
            for rank in range(half):
                first, second = numbers[row, rank], numbers[row, half + rank]
                other[row, rank] = scale * (first + second)
                other[row, half + rank] = scale * (first - second)
            numbers[row, : 2 * half] = other[row, : 2 * half]
            half //= 2


@kernel_part
def _inverse_haar(numbers, other):
    scale = np.float32(np.sqrt(0.5))
    for row in range(numbers.shape[0]):
        half = 1
        while half < GROUP:
            for rank in range(half):
                mean, difference = numbers[row, rank], numbers[row, half + rank]
                other[row, rank] = scale * (mean + difference)
                other[row, half + rank] = scale * (mean - difference)
            numbers[row, : 2 * half] = other[row, : 2 * half]
            half *= 2
