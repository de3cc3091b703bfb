"""Rendering with arrays, on the CPU or a GPU, in any precision."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from neuralfield.fields import CoordinateNetwork
from neuralfield.images.coordinates import grid
from neuralfield.system.device import Array, Device, limit_blas_to_one_core, namespace_of

_BLOCK_POINTS = {"cpu": 4096, "gpu": 1 << 18}


class ArrayRenderer:
    """See `neuralfield.rendering.Renderer`; the network is on `device`, in `dtype`."""

    def __init__(
        self, network: CoordinateNetwork, device: Device, dtype: str, threads: int
    ) -> None:
        self._network, self._xp, self._dtype = network, device.xp, dtype
        self._block_points = _BLOCK_POINTS[device.kind]
        self._pool = ThreadPoolExecutor(threads)
        # work for a GPU has to stay on the stream of the calling thread
        self._map = self._pool.map if device.kind == "cpu" else map

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        centres = grid(columns, rows)
        if which is not None:
            centres = centres[which]
        with limit_blas_to_one_core():
            return mean_and_spread(lambda offset: self._values(centres + offset), offsets)

    def close(self) -> None:
        self._pool.shutdown()

    def _values(self, points: Array) -> Array:
        points, size = points.astype(self._dtype), self._block_points
        blocks = [points[start : start + size] for start in range(0, len(points), size)]
        return self._xp.concatenate(list(self._map(lambda b: self._network(b).data, blocks)))


def mean_and_spread(values_at: Callable[[Array], Array], offsets: Array) -> tuple[Array, Array]:
    """Return the mean of each pixel's samples, and the largest difference between any two.

    `values_at` maps an offset, shape (2,), to the values of all pixels there, shape (n, channels).
    """
    xp = namespace_of(offsets)
    total = lowest = highest = values_at(offsets[0])
    for offset in offsets[1:]:
        values = values_at(offset)
        total = total + values
        lowest, highest = xp.minimum(lowest, values), xp.maximum(highest, values)
    return total / len(offsets), (highest - lowest).max(axis=1)
