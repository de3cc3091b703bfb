"""Encodings as the cpu engine's kernels read them, and the gradient of a trained encoding."""

from typing import TYPE_CHECKING, Any

import numpy as np

from neuralfield.engines.cpu.cut import Cut
from neuralfield.engines.kernel_plan import ENCODINGS, NetworkPlan
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.cafe import FourierChebyshev
from neuralfield.fields.coordinate_network import CornerBias, Encoding, FourierFeatures
from neuralfield.fields.hashgrid import HashEncoding

if TYPE_CHECKING:
    from neuralfield.engines.cpu.kernels.groups import Network
    from neuralfield.engines.cpu.kernels.layout import Layout


def _encoding_numbers(network: CoordinateNetwork, plan: NetworkPlan) -> tuple[Any, ...] | None:
    """Return a network's encoding as `kernels.encodings.encode` reads it.

    It is None if the points themselves are the values. Otherwise it is a tuple of kind, width and
    height; frequencies (2, F); levels (L, 6); and the table (rows, features), which is the
    network's own array and not a copy.
    """
    encoding = network.encoding
    if plan.encoding == "identity":
        return None
    width = height = 0
    frequencies = np.empty((2, 0), np.float32)
    table = np.empty((0, 1), np.float32)
    if isinstance(encoding, CornerBias):
        width, height = encoding.width, encoding.height
    elif isinstance(encoding, FourierFeatures | FourierChebyshev):
        frequencies = encoding.frequencies
    elif isinstance(encoding, HashEncoding):
        table = encoding.table.data
    kind = ENCODINGS.index(plan.encoding)
    return kind, width, height, frequencies, _levels(encoding), table


def kernel_network(
    network: CoordinateNetwork, plan: NetworkPlan, layout: "Layout", factors: np.ndarray
) -> "Network":
    """Return the group of arrays and numbers by which kernels know a network."""
    from neuralfield.engines.cpu.kernels.groups import Network

    used = {layer.activation for layer in plan.layers[:-1]}
    others, narrowness = True if used - {"sine"} else None, None
    if used & {"product", "gabor"}:
        first = plan.layers[0]
        narrowness = np.float32((first.wavelet_scale / first.frequency) ** 2)
    numbers = layout.table, layout.frequencies, factors, layout.scratch
    return Network(*numbers, _encoding_numbers(network, plan), others, narrowness)


def _levels(encoding: Encoding) -> np.ndarray:
    """Return the levels of a hash grid, see `kernels.grids`; no rows for other encodings."""
    levels = encoding.levels if isinstance(encoding, HashEncoding) else ()
    numbers = [
        (
            *(level.resolution, level.start, level.rows),
            *(level.is_hashed, level.columns, level.skipped),
        )
        for level in levels
    ]
    return np.array(numbers, np.int64).reshape(-1, 6)


class GridGradient:
    """The gradient of a hash grid's table; a piece of work is one level.

    A corner's gradient is a sum over the points around it, in their order. Therefore one thread
    adds up a whole level, from gradients that the pass has stored. For other encodings the methods
    do nothing.
    """

    def __init__(self, encoding: Encoding, cut: Cut) -> None:
        # imported here, because Numba takes a moment to start
        from neuralfield.engines.cpu.kernels import grids

        self._add, self._levels = grids.add_level_gradient, _levels(encoding)
        values = encoding.size if len(self._levels) else 0
        self._points = np.zeros((2, cut.chunk_points if values else 0), np.float32)
        self._gradients = np.zeros((values, self._points.shape[1]), np.float32)
        self.numbers = np.zeros(cut.encoding_numbers, np.float32)
        """The gradient as a flat array."""

    def kept(self, place: int) -> tuple[np.ndarray, np.ndarray, int] | None:
        """Return where the pass stores points and gradients, see `kernels.block.train_blocks`."""
        if not len(self._levels):
            return None
        return self._points, self._gradients, place

    def add_chunk(self, thread_pool: ThreadPool, points: int, *, is_first: bool) -> None:
        """Add the contributions of a chunk's points; the first chunk of a step starts from 0."""
        if not len(self._levels):
            return
        gradient = self.numbers.reshape(-1, len(self._gradients) // len(self._levels))

        def add(level: int, thread: int) -> None:
            self._add(
                self._levels, level, self._points, self._gradients, points, gradient, is_first
            )

        thread_pool.run(add, len(self._levels))
