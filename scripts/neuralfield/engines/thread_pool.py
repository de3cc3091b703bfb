"""A pool of threads for numbered pieces of work."""

from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from neuralfield.system.device import limit_blas_to_one_core


class ThreadPool:
    """A pool of threads, including the caller's, each with a BLAS that uses one core.

    The assignment of pieces to threads is not deterministic. Work whose result must be the same for
    any number of threads therefore has to write each piece's result to a separate place.
    """

    def __init__(self, threads: int) -> None:
        self.size = threads
        self._pool = ThreadPoolExecutor(threads - 1) if threads > 1 else None
        self._limits = limit_blas_to_one_core()

    def run(self, work: Callable[[int, int], None], pieces: int) -> None:
        """Call `work` once for each piece, with the number of the piece and the number of the
        thread, both from 0.
        """
        remaining = deque(range(pieces))

        def take_part(thread: int) -> None:
            while True:
                try:
                    piece = remaining.popleft()
                except IndexError:
                    return
                work(piece, thread)

        others = []
        if self._pool:
            count = min(self.size, pieces)
            others = [self._pool.submit(take_part, thread) for thread in range(1, count)]
        take_part(0)
        for other in others:
            other.result()

    def close(self) -> None:
        """Stop the threads, and give BLAS the number of threads that it had before."""
        if self._pool:
            self._pool.shutdown()
        self._limits.restore_original_limits()
