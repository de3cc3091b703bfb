"""Constants of the groups of similar patches that refine an image, shared by all kernels."""

PATCH_PX = 4
"""Side length of a patch in pixels."""

GROUP = 64
"""Number of patches that are filtered together; a power of 2."""

REACH_PX = 12
"""Maximum distance of a similar patch along each axis, in pixels."""

FIRST_TURNS = 4
"""Number of orthogonal iterations for the first group of a row, and for a group after a flat one,
which has no components; all other groups take one."""

LEAST_VARIANCE, ROUNDING = 1e-4, 1e-6
"""Regularization of covariances: LEAST_VARIANCE * (total variance + ROUNDING) is added to their
diagonal, so that the variance is positive in every direction."""


def stride_of_channel(channel: int, stride_px: int) -> int:
    """Return the distance between groups of a channel in pixels; only channel 0 has much detail."""
    return PATCH_PX if channel and PATCH_PX % stride_px == 0 else stride_px
