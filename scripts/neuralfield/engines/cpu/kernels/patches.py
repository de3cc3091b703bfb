"""Kernels that compare the patches of an image with each other, and filter similar ones together.

The order of sums does not depend on threads.
"""

import numpy as np
from numba.extending import register_jitable

from neuralfield.engines.cpu.kernels import entry_point
from neuralfield.engines.patch_groups import (
    FIRST_TURNS,
    GROUP,
    LEAST_VARIANCE,
    PATCH_PX,
    REACH_PX,
    ROUNDING,
)

_PIXELS = PATCH_PX * PATCH_PX

_SIDE = 2 * REACH_PX + 1
"""Side of the square in which the corners of similar patches lie."""

_PLACES = np.array([int(f"{rank:0{GROUP.bit_length() - 1}b}"[::-1], 2) for rank in range(GROUP)])
"""Indices of patches in their group, by rank; `_haar` first combines those of nearby ranks."""

_REORDERED = {"contract", "reassoc", "nsz"}
"""Floating-point options that let the compiler reorder sums so that they use vectors; the order is
the same in every run."""


@entry_point
def find_similar(image, tops, lefts, start, stop, found):
    """Find the patches that are most similar to each of some patches, in a square around it.

    Parameters
    ----------
    image : float32, shape (height, width)
    tops, lefts : int32, shape (patches,)
        Corners of all patches that groups are found for.
    start, stop : int
        The range of patches to process.
    found : uint16, shape (patches, GROUP)
        Corners of the most similar patches, the patch itself first, as indices into the square of
        the corners within reach, row by row. If there are fewer than GROUP, they are repeated.
    """
    height, width = image.shape
    distances = np.empty(_SIDE, np.float32)
    nearest = np.empty(GROUP, np.float32)
    for number in range(start, stop):
        top, left = tops[number], lefts[number]
        first, last = max(left - REACH_PX, 0), min(left + REACH_PX, width - PATCH_PX)
        count = last - first + 1
        kept = 0
        for other in range(max(top - REACH_PX, 0), min(top + REACH_PX, height - PATCH_PX) + 1):
            start_of_row = (other - top + REACH_PX) * _SIDE + first - left + REACH_PX
            for place in range(count):
                distances[place] = 0
            for row in range(PATCH_PX):
                for column in range(PATCH_PX):
                    own = image[top + row, left + column]
                    for place in range(count):
                        difference = image[other + row, first + column + place] - own
                        distances[place] += difference * difference
            if other == top:
                distances[left - first] = -1  # the patch itself comes before equal ones
            for place in range(count):
                if kept == GROUP and distances[place] >= nearest[GROUP - 1]:
                    continue
                kept = min(kept + 1, GROUP)
                rank = kept - 1
                while rank > 0 and nearest[rank - 1] > distances[place]:
                    nearest[rank] = nearest[rank - 1]
                    found[number, rank] = found[number, rank - 1]
                    rank -= 1
                nearest[rank] = distances[place]
                found[number, rank] = start_of_row + place
        for rank in range(kept, GROUP):
            found[number, rank] = found[number, rank % kept]


@entry_point
def filter_groups(
    image, tops, lefts, start, stop, stride_px, found, threshold, first_row, sums, weights
):
    """Filter groups of similar patches by a hard threshold, and sum the results for each pixel.

    Differences from the mean of a group are transformed by its own principal components within
    patches and by Haar wavelets across them; numbers below the threshold become 0 (Dabov, Foi,
    Katkovnik & Egiazarian, "BM3D image denoising with shape-adaptive principal component analysis",
    2009). A group has a larger weight if fewer of its numbers reach the threshold.

    The components are approximated by orthogonal iteration, which starts from the components of the
    previous group: products of the covariances with a basis are made orthonormal (Golub & Van Loan,
    *Matrix Computations*, 4th edition, section 8.2.4). One iteration is enough, because
    neighbouring groups have similar components; a group that has no such predecessor takes
    `FIRST_TURNS`. Flat groups need no components, see `_is_flat`.

    Parameters
    ----------
    image : float32, shape (height, width)
    tops, lefts, found
        See `find_similar`.
    start, stop, stride_px : int
        The range of patches, from left to right, of which groups are filtered: those whose corner
        is a multiple of `stride_px`, or the last one, along each axis.
    threshold : float32
    first_row : int
        The row of the image that corresponds to the first row of `sums`.
    sums, weights : float32, shape (rows, width)
        The filtered pixels times their weight are added to `sums`, and the weight of each patch is
        added to `weights` at its corner.
    """
    corners = np.empty((GROUP, 2), np.int32)
    numbers = np.empty((GROUP, _PIXELS), np.float32)
    other = np.empty((GROUP, _PIXELS), np.float32)
    means = np.empty(_PIXELS, np.float32)
    covariances = np.empty((_PIXELS, _PIXELS), np.float32)
    products = np.empty((_PIXELS, _PIXELS), np.float32)
    across = np.empty((_PIXELS, _PIXELS), np.float32)
    basis = np.zeros((_PIXELS, _PIXELS), np.float32)
    for pixel in range(_PIXELS):
        basis[pixel, pixel] = 1
    last_top, last_left = image.shape[0] - PATCH_PX, image.shape[1] - PATCH_PX
    before_px = last_left  # left edge of the previous group, unless it was flat
    for number in range(start, stop):
        top, left = tops[number], lefts[number]
        if (top % stride_px and top < last_top) or (left % stride_px and left < last_left):
            continue
        for rank in range(GROUP):
            place = np.int32(found[number, rank])
            corners[rank, 0] = top + place // _SIDE - REACH_PX
            corners[rank, 1] = left + place % _SIDE - REACH_PX
        _gather(image, corners, numbers, means)
        kept = 2  # the mean of all pixels counts as two
        if _is_flat(numbers, threshold):
            numbers[:] = 0
            before_px = last_left
        else:
            _multiply_in_pairs(numbers, covariances)
            for _ in range(1 if before_px < left else FIRST_TURNS):
                _multiply(basis, covariances, products)
                _make_orthonormal(products, basis)
            for row in range(_PIXELS):
                for column in range(_PIXELS):
                    across[column, row] = basis[row, column]
            _multiply(numbers, across, other)
            _haar(other)
            for rank in range(GROUP):
                for row in range(_PIXELS):
                    stays = abs(other[rank, row]) >= threshold
                    other[rank, row] = other[rank, row] if stays else np.float32(0)
                    kept += stays
            _inverse_haar(other)
            _multiply(other, basis, numbers)
            before_px = left
        weight = np.float32(1) / np.float32(kept)
        _scatter(numbers, means, corners, weight, first_row, sums, weights)


@register_jitable(fastmath=_REORDERED)
def _gather(image, corners, numbers, means):
    """Load the pixels of a group, and separate their means and the differences from these."""
    means[:] = 0
    for rank in range(GROUP):
        top, left, place = corners[rank, 0], corners[rank, 1], _PLACES[rank]
        for row in range(PATCH_PX):
            for column in range(PATCH_PX):
                numbers[place, row * PATCH_PX + column] = image[top + row, left + column]
    for rank in range(GROUP):
        for pixel in range(_PIXELS):
            means[pixel] += numbers[rank, pixel]
    for pixel in range(_PIXELS):
        means[pixel] /= np.float32(GROUP)
    for rank in range(GROUP):
        for pixel in range(_PIXELS):
            numbers[rank, pixel] -= means[pixel]


@register_jitable(fastmath=_REORDERED)
def _is_flat(numbers, threshold):
    """Return whether no number can reach the threshold in any orthonormal basis."""
    flat = numbers.reshape(GROUP * _PIXELS)
    total = np.float32(0)
    for place in range(GROUP * _PIXELS):
        total += flat[place] * flat[place]
    return total < threshold * threshold


@register_jitable
def _scatter(numbers, means, corners, weight, first_row, sums, weights):
    for rank in range(GROUP):
        top, left, place = corners[rank, 0] - first_row, corners[rank, 1], _PLACES[rank]
        for row in range(PATCH_PX):
            for column in range(PATCH_PX):
                pixel = row * PATCH_PX + column
                value = numbers[place, pixel] + means[pixel]
                sums[top + row, left + column] += weight * value
        weights[top, left] += weight


@register_jitable(fastmath=_REORDERED)
def _multiply_in_pairs(numbers, covariances):
    """Sum the products of every two pixels over a group, and regularize the result."""
    covariances[:] = 0
    for start in range(0, GROUP, _PIXELS):  # few enough that their sums stay in registers
        for first in range(_PIXELS):
            for second in range(_PIXELS):
                product = np.float32(0)
                for rank in range(_PIXELS):
                    product += numbers[start + rank, first] * numbers[start + rank, second]
                covariances[first, second] += product
    total = np.float32(ROUNDING)
    for pixel in range(_PIXELS):
        total += covariances[pixel, pixel]
    for pixel in range(_PIXELS):
        covariances[pixel, pixel] += np.float32(LEAST_VARIANCE) * total


@register_jitable(fastmath=_REORDERED)
def _make_orthonormal(products, basis):
    """Make the rows of `products` orthonormal one after another, and write them to `basis`."""
    for row in range(_PIXELS):
        square = np.float32(0)
        for pixel in range(_PIXELS):
            square += products[row, pixel] * products[row, pixel]
        scale = np.float32(1) / np.sqrt(square)
        for pixel in range(_PIXELS):
            basis[row, pixel] = scale * products[row, pixel]
        for other in range(row + 1, _PIXELS):
            share = np.float32(0)
            for pixel in range(_PIXELS):
                share += products[other, pixel] * basis[row, pixel]
            for pixel in range(_PIXELS):
                products[other, pixel] -= share * basis[row, pixel]


@register_jitable(fastmath=_REORDERED)
def _multiply(numbers, matrix, product):
    for row in range(numbers.shape[0]):
        for column in range(_PIXELS):
            total = np.float32(0)
            for pixel in range(_PIXELS):
                total += numbers[row, pixel] * matrix[pixel, column]
            product[row, column] = total


@register_jitable
def _haar(numbers):
    """Transform a group by Haar wavelets across its patches, in place."""
    half = GROUP // 2
    while half > 0:
        _haar_level(numbers, half)
        half //= 2


@register_jitable
def _inverse_haar(numbers):
    half = 1
    while half < GROUP:
        _haar_level(numbers, half)
        half *= 2


@register_jitable
def _haar_level(numbers, half):
    """Replace pairs of patches by their scaled sums and differences; it is its own inverse."""
    scale = np.float32(np.sqrt(0.5))
    flat, count = numbers.reshape(GROUP * _PIXELS), half * _PIXELS
    low, high = flat[:count], flat[count : 2 * count]
    for place in range(count):
        first, second = low[place], high[place]
        low[place] = scale * (first + second)
        high[place] = scale * (first - second)
