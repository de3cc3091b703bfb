"""The reference engine: any network, by automatic differentiation over NumPy or CuPy arrays."""

from concurrent.futures import ThreadPoolExecutor

from neuralfield.device import Array, Device
from neuralfield.engines.problem import Problem
from neuralfield.engines.supervision import Supervision
from neuralfield.tensor import gradients

MOST_STEPS = {"cpu": 1, "gpu": 64}
"""Steps between two looks at the loss: a look makes a card wait."""

BLOCK_POINTS = {"cpu": 1024, "gpu": 1 << 18}
"""Points that pass through the network together: few enough for a core's cache, or to keep a
card's memory free. Part of the result, because sums are taken block by block."""

_ARRAYS_ALIVE = 4
"""Arrays of a layer's size that are alive at once: before and after the activation, and two
gradients."""


class TapeEngine:
    """One training step as a sum over blocks of points, added up in a fixed order.

    Blocks are worked on by `threads` threads, each with a single-threaded BLAS, so the result does
    not depend on their number.

    Parameters
    ----------
    problem : Problem
    device : Device
    threads : int
    """

    name, variant = "tape", ""

    def __init__(self, problem: Problem, device: Device, threads: int) -> None:
        self.problem, self.device = problem, device
        self.precision = problem.dtype
        self.most_steps = MOST_STEPS[device.kind]
        self.totals = device.xp.zeros(2)
        self._supervision = Supervision(problem, device)
        self._leaves = list(problem.network.parameters.values())
        points = problem.footprint.points if problem.footprint else 1
        self._block_pixels = max(1, BLOCK_POINTS[device.kind] // points)
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and squared error to `totals`.

        Parameters
        ----------
        first_step : int
            Steps taken before.
        count : int
        """
        for index in range(first_step, first_step + count):
            loss, squared_error = self._step(index)
            self.totals[0] += loss
            self.totals[1] += squared_error

    def memory_report(self) -> dict[str, int]:
        """About what it needs on the device at once, in bytes."""
        return {"about": memory_bytes(self.problem, self.device, self._threads)}

    def close(self) -> None:
        """Let the threads go."""
        if self._pool:
            self._pool.shutdown()

    def _step(self, index: int) -> tuple[Array, Array]:
        """Update the weights; the batch's mean loss before that, and its estimate of the mean
        squared error over the whole picture."""
        batch = self.problem.batches.indices(index)
        blocks = [
            batch[start : start + self._block_pixels]
            for start in range(0, len(batch), self._block_pixels)
        ]
        work = self._pool.map if self._pool else map
        parts = iter(work(lambda pixels: self._block(pixels, index, len(batch)), blocks))
        total, loss, squared_error = next(parts)
        for block_gradients, block_loss, block_error in parts:
            for accumulated, part in zip(total, block_gradients, strict=True):
                accumulated += part
            loss, squared_error = loss + block_loss, squared_error + block_error
        self.problem.optimizer.update(total, self.problem.schedule(index), index + 1)
        return loss, squared_error

    def _block(self, pixels: Array, step: int, batch_size: int) -> tuple[list[Array], Array, Array]:
        values = self.problem.network(self._supervision.points(pixels, step))
        loss, squared_error = self._supervision.loss(values, pixels, batch_size)
        return gradients(loss, self._leaves), loss.data, squared_error


def memory_bytes(problem: Problem, device: Device, threads: int) -> int:
    """About what a step needs at once, in bytes."""
    itemsize = 8 if problem.dtype == "float64" else 4
    layers = problem.network.layers
    encoded = max(problem.network.encoding.working_values, layers[0].fan_in)
    per_point = _ARRAYS_ALIVE * (encoded + sum(layer.fan_out for layer in layers))
    points = problem.footprint.points if problem.footprint else 1
    block = min(BLOCK_POINTS[device.kind], problem.batches.size * points)
    pixels = problem.shape.width * problem.shape.height
    # values and centres (float64 while they are made) are there once, and so is the batch's part of
    # a random order (44 bytes a pixel while it is drawn, measured); a block's layers live for each
    # thread
    kept = pixels * ((problem.shape.channels + 2) * itemsize + 16)
    return (
        kept
        + 44 * problem.batches.size
        + threads * block * per_point * itemsize
        + (6 * itemsize * problem.network.parameter_count)
    )
