"""Batched training: steps of several networks at once, many small networks in one job.

Each network of a batch has an engine of its own. On a CPU the engines are distributed over threads;
on a GPU those of one kind take their steps in one launch (`CudaBatch`) where that is faster, and
others take turns. A network's bytes are those that it has alone. A call may cover a subset: a
network that was rolled back catches up alone. The workflow batches networks with the same settings
but for seeds and rates; their images may have different channels.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from neuralfield.engines import Engine
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.system.device import Device

if TYPE_CHECKING:  # only jobs on a GPU need these many modules
    from neuralfield.engines.cuda.batch import CudaBatch
    from neuralfield.engines.cuda.field_engine import BatchKind, CudaEngine


class EngineBatch:
    """Takes steps of several engines: at most `side_by_side` at the same time on a CPU's cores, or
    together on a GPU.
    """

    def __init__(self, device: Device, side_by_side: int) -> None:
        self._device = device
        on_cores = device.kind == "cpu" and side_by_side > 1
        self._pool = ThreadPool(side_by_side) if on_cores else None
        self._together: dict[BatchKind, CudaBatch] = {}

    def run(
        self,
        engines: Sequence[Engine],
        first_step: int,
        count: int,
        follow_up: Callable[[int, float], None],
    ) -> None:
        """Take `count` steps with each engine, and call `follow_up(place in engines, seconds)`.

        Engines that take their steps together share the seconds. `follow_up` may run while other
        engines still take steps.
        """
        groups = self._groups_of(engines)
        for kind, group in groups.items():
            started_s = time.perf_counter()
            self._batch_of(kind, list(group.values())).run(first_step, count)
            self._device.synchronize()
            share_s = (time.perf_counter() - started_s) / len(group)
            for place in group:
                follow_up(place, share_s)
        in_turn = sorted(set(range(len(engines))).difference(*groups.values()))

        def work(number: int) -> None:
            place = in_turn[number]
            started_s = time.perf_counter()
            engines[place].run(first_step, count)
            self._device.synchronize()
            follow_up(place, time.perf_counter() - started_s)

        self.each(work, len(in_turn))

    def each(self, work: Callable[[int], None], count: int) -> None:
        """Call `work` with each number below `count`, side by side."""
        if self._pool:
            self._pool.run(lambda place, _: work(place), count)
        else:
            for place in range(count):
                work(place)

    def close(self) -> None:
        """Release threads and recorded steps."""
        for batch in self._together.values():
            batch.close()
        if self._pool:
            self._pool.close()

    def _groups_of(self, engines: Sequence[Engine]) -> "dict[BatchKind, dict[int, CudaEngine]]":
        """Return which engines take their steps together; none on a CPU."""
        if self._device.kind == "cpu":
            return {}
        from neuralfield.engines.cuda.batch import groups_of

        return groups_of(engines, self._device)

    def _batch_of(self, kind: "BatchKind", engines: "list[CudaEngine]") -> "CudaBatch":
        """Return the batch of engines; it is made anew where other engines go together."""
        from neuralfield.engines.cuda.batch import CudaBatch

        batch = self._together.get(kind)
        if batch is None or batch.engines != engines:
            if batch is not None:
                self._together.pop(kind).close()
            batch = self._together[kind] = CudaBatch(self._device, engines)
        return batch
