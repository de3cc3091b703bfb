"""The groups of similar patches that an image is refined by: numbers that all kernels share."""

PATCH_PX = 4
"""Side of a patch."""

GROUP = 64
"""Patches that are filtered together; a power of 2."""

REACH_PX = 12
"""The farthest that a similar patch may lie, along each axis."""

FIRST_TURNS = 4
"""Turns of the orthogonal iteration for the first group of a row; all others take one."""

LEAST_VARIANCE, ROUNDING = 1e-4, 1e-6
"""Parts of the whole variance, and a variance, that are added so that no direction has none."""


def stride_of_channel(channel: int, stride_px: int) -> int:
    """Return how far apart the groups of a channel are; all but the first have little detail."""
    return PATCH_PX if channel and PATCH_PX % stride_px == 0 else stride_px
