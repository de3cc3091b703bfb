"""What kind of picture it is, as far as that decides how a network is best taught it."""

import numpy as np

_NEAR = 0.1
"""Of black or white, so that a scan's paper and ink count too."""

_LEAST_SHARE = 0.65


def is_line_art(values: np.ndarray) -> bool:
    """Whether nearly everything is black or white, and greys are mere edges.

    Drawings made of thin lines have two thirds of their pixels near black or white even at 100
    pixels, and ever more at larger sizes; photographs with a bright sky or much white stay below
    0.55 (`benchmarks/line_drawings.py` and the Kodak pictures).

    Parameters
    ----------
    values : ndarray, shape (height, width, channels)
        0 to 1. Colours, and what is not opaque, are no line art.
    """
    is_extreme = ((values <= _NEAR) | (values >= 1 - _NEAR)).all(axis=-1)
    spread = values.max(axis=-1) - values.min(axis=-1)
    return float((is_extreme & (spread <= 2 * _NEAR)).mean()) >= _LEAST_SHARE
