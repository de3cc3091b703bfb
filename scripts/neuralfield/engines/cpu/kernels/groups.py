"""Groups of arrays and numbers that kernels get together."""

from typing import Any, NamedTuple

import numpy as np


class Network(NamedTuple):
    """A network, whose numbers lie in memory as in its `layout.Layout`."""

    table: np.ndarray
    frequencies: np.ndarray
    factors: np.ndarray
    scratch: int
    encoding: Any  # None, or a tuple: see `encodings.encode`
    others: bool | None  # None if all activations are sines: others are then not compiled
    narrowness: np.float32 | None  # None without `row_activations`


class Samples(NamedTuple):
    """The training image, and the points at which its pixels are sampled."""

    centres: np.ndarray  # float32, shape (all pixels, 2)
    targets: np.ndarray  # float32, shape (all pixels, channels)
    weights: np.ndarray  # of squared errors: float64, shape (all pixels,) or empty
    points: int  # per pixel; see `neuralfield.nn.sampling.Footprint`
    side: float  # of a pixel
    seed: np.uint64
    block_pixels: int  # pixels that pass through the network together


class Sums(NamedTuple):
    """Sums over the pixels of a shard, which are overwritten if `is_first`, else accumulated."""

    gradient: np.ndarray  # of the layers' parameters, see `layout`
    totals: np.ndarray  # loss and squared error: float64, shape (2,)
    is_first: bool


class Grid(NamedTuple):
    """The pixels to render: the product of `columns` and `rows`, or those with numbers in `which`.

    A pixel has a point at each of `offsets` from its centre, shape (points, 2).
    """

    columns: np.ndarray
    rows: np.ndarray
    offsets: np.ndarray
    which: np.ndarray  # int64; empty: all pixels
