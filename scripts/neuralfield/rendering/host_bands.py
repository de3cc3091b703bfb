"""Bands of an image, copied to the host while the GPU renders the next ones."""

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from types import ModuleType
from typing import Any

import numpy as np

from neuralfield.system.device import Array, Device

_BANDS_IN_FLIGHT = 2


def bands_on_host(
    device: Device, count: int, render_band: Callable[[int], Array]
) -> Iterator[np.ndarray]:
    """Render bands one after another; each is valid until the next one is requested.

    `render_band` is called with 0, 1, ... in turn and returns a band as a contiguous array on
    `device`. On a GPU, another thread calls it ahead of time, and it works on that thread's current
    stream.
    """
    if device.kind == "cpu":
        yield from map(render_band, range(count))
        return
    xp = device.xp
    rendering, copying = _streams(xp.cuda.Device().id)
    places = [_Place(xp) for _ in range(_BANDS_IN_FLIGHT)]
    # the streams do not wait for the current one, on which `render_band` may have been prepared
    xp.cuda.get_current_stream().synchronize()

    def fetch(index: int) -> "_Place":
        with rendering:
            band = render_band(index)
        place = places[index % _BANDS_IN_FLIGHT]
        place.fetch(band, rendering, copying)
        return place

    # a thread, because rendering may wait for the GPU, to see which pixels need more samples
    with ThreadPoolExecutor(1, initializer=xp.cuda.Device().use) as ahead:
        pending = deque(ahead.submit(fetch, i) for i in range(min(count, _BANDS_IN_FLIGHT)))
        try:
            for index in range(_BANDS_IN_FLIGHT, count + _BANDS_IN_FLIGHT):
                yield pending.popleft().result().wait()
                if index < count:
                    pending.append(ahead.submit(fetch, index))
        finally:
            ahead.shutdown(cancel_futures=True)
            copying.synchronize()


@cache
def _streams(gpu: int) -> tuple[Any, Any]:
    """Return a stream for rendering and one for copying; they are kept, because CuPy keeps freed
    memory for each stream."""
    import cupy

    with cupy.cuda.Device(gpu):
        return cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)


class _Place:
    """Page-locked memory for a band, the only kind to which a GPU copies without the processor."""

    def __init__(self, xp: ModuleType) -> None:
        self._xp = xp
        self._memory: Any = None
        self._rendered, self._copied = (
            xp.cuda.Event(disable_timing=True, block=True) for _ in "12"
        )

    def fetch(self, band: Array, rendering: Any, copying: Any) -> None:
        """Copy a band here once it is rendered."""
        # the first band in a place is the largest
        self._memory = self._memory or self._xp.cuda.alloc_pinned_memory(band.nbytes)
        self._band = band  # its memory on the GPU must not be used again before the copy
        self._rendered.record(rendering)
        copying.wait_event(self._rendered)
        band.data.copy_to_host_async(self._memory.ptr, band.nbytes, copying)
        self._copied.record(copying)

    def wait(self) -> np.ndarray:
        """Wait until the band has been copied, and return it."""
        self._copied.synchronize()
        band = np.frombuffer(self._memory, self._band.dtype, self._band.size)
        return band.reshape(self._band.shape)
