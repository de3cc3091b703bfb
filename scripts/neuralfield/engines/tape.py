"""The reference engine: any network, by automatic differentiation over NumPy or CuPy arrays."""

from concurrent.futures import ThreadPoolExecutor

from neuralfield.nn.tensor import gradients
from neuralfield.system.device import Array, Device
from neuralfield.tasks.task import Objective

MOST_STEPS = {"cpu": 1, "gpu": 64}
"""Maximum number of steps between two checks of the loss: more on a GPU, because a check makes it
wait."""

_ARRAYS_ALIVE = 4
"""Number of arrays of a layer's size that are alive at once: before and after the activation, and
two gradients."""


class TapeEngine:
    """An engine that sums the gradient of each step over blocks of samples, in a fixed order.

    `threads` threads work on the blocks, each with a single-threaded BLAS, so that the result does
    not depend on the number of threads.
    """

    name, variant = "tape", ""

    def __init__(self, objective: Objective, device: Device, threads: int) -> None:
        self.objective, self.device = objective, device
        self.precision = objective.dtype
        self.most_steps = MOST_STEPS[device.kind]
        self.totals = device.xp.zeros(2)
        objective.data  # noqa: B018 - copied to the device once, before threads use it
        self._leaves = list(objective.network.parameters.values())
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def run(self, first_step: int, count: int) -> None:
        for index in range(first_step, first_step + count):
            loss, error = self._step(index)
            self.totals[0] += loss
            self.totals[1] += error

    def memory_report(self) -> dict[str, int]:
        """Estimate the bytes that a step needs at once on the device."""
        return {"about": memory_bytes(self.objective, self._threads)}

    def close(self) -> None:
        if self._pool:
            self._pool.shutdown()

    def _step(self, index: int) -> tuple[Array, Array]:
        """Update the weights; return the batch's mean loss before the update, and its estimate of
        the mean error over all samples."""
        batch = self.objective.batches.indices(index)
        blocks = [
            batch[start : start + self.objective.block_samples]
            for start in range(0, len(batch), self.objective.block_samples)
        ]
        work = self._pool.map if self._pool else map
        parts = iter(work(lambda samples: self._block(samples, index, len(batch)), blocks))
        total, loss, error = next(parts)
        for block_gradients, block_loss, block_error in parts:
            for accumulated, part in zip(total, block_gradients, strict=True):
                accumulated += part
            loss, error = loss + block_loss, error + block_error
        self.objective.optimizer.update(total, self.objective.schedule(index), index + 1)
        return loss, error

    def _block(
        self, samples: Array, step: int, batch_size: int
    ) -> tuple[list[Array], Array, Array]:
        loss, error = self.objective.evaluate(samples, step, batch_size)
        return gradients(loss, self._leaves), loss.data, error


def memory_bytes(objective: Objective, threads: int) -> int:
    """Estimate the bytes that a step needs at once."""
    itemsize = objective.itemsize
    block = min(objective.block_samples, objective.batches.size)
    # all samples are stored once, and so is the batch (104 bytes per element while it is sampled,
    # measured); each thread has the layers of one block
    return (
        objective.batches.sample_count * objective.sample_bytes
        + 104 * objective.batches.size
        + threads * block * _ARRAYS_ALIVE * objective.working_values * itemsize
        + (6 * itemsize * objective.network.parameter_count)
    )
