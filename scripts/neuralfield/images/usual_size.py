"""The size that an image is trained at where nobody gives one."""

LONGER_SIDE_PX = 256
"""The longer side of an image is reduced to this, if it is larger and nobody gave a size."""

LEAST_SHORTER_SIDE_PX = 64
"""The shorter side of a panorama keeps this much; its longer side stays longer instead."""

LONGEST_SIDE_PX = 4096
"""The limit of the longer side of a panorama."""


def usual_size_px(width: int, height: int) -> int | None:
    """Return the longer side that an image is reduced to; None where it keeps its own size.

    The longer side becomes 256 pixels. Where that would leave less than 64 of the shorter side, it
    is that side that becomes 64 pixels, as long as the longer one has at most 4096.
    """
    longer, shorter = max(width, height), min(width, height)
    panorama = min(round(LEAST_SHORTER_SIDE_PX * longer / shorter), LONGEST_SIDE_PX)
    size = max(LONGER_SIDE_PX, panorama)
    return size if size < longer else None
