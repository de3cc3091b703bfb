"""The engine for CPUs: compiled kernels over blocks of points that stay in a core's cache.

A step has two stages. In the first, threads work on shards of the batch: runs of pixels whose
gradient is summed in order. In the second, threads work on parts of the parameters: they add up the
shards' gradients in order, and the optimizer updates the part. Between the stages, the gradient of
a trained encoding is computed. The division of a batch depends only on its size and the network, so
that the number of threads does not change a bit of the result.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from neuralfield.engines.cpu import require_numba
from neuralfield.engines.cpu.cut import Cut
from neuralfield.engines.cpu.encoding import GridGradient, kernel_network
from neuralfield.engines.cpu.update import COVERED, Update, working_bytes
from neuralfield.engines.flat_arrays import flatten_parameters
from neuralfield.engines.kernel_plan import (
    LOSSES,
    OUTPUTS,
    NetworkPlan,
    NotCovered,
    network_plan,
    no_kernels_for,
)
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.images.coordinates import pixel_centres
from neuralfield.nn.optimizers import unclipped
from neuralfield.system.device import Array, Device, require_memory
from neuralfield.tasks.image.image_objective import ImageObjective

if TYPE_CHECKING:
    from neuralfield.engines.cpu.kernels.layout import Layout


class CpuEngine:
    """Takes training steps on the CPU's cores.

    The objective's parameters and the optimizer's state become views of flat arrays. `NotCovered`
    is raised if there are no kernels for it, and `ResourceError` if there is too little memory.
    """

    name, variant, precision = "cpu", "", "float32"
    most_steps = 64

    def __init__(
        self, objective: ImageObjective, device: Device, threads: int, precision: str = "auto"
    ) -> None:
        _require_kernels(objective, precision, device)
        plan = network_plan(objective.network)
        # imported here, because Numba takes a moment to start
        from neuralfield.engines.cpu.kernels import block, groups, layout

        self._layout = layout.make_layout(plan, points=objective.points)
        self._cut = Cut(objective, self._layout)
        self._memory = _memory_report(objective, self._layout, self._cut, threads)
        require_memory(
            sum(self._memory.values()),
            device,
            "training",
            "use a smaller image (images: size), a narrower network (fields: width) or fewer"
            " threads",
        )
        self.totals = np.zeros(2)
        self.objective, self._block, self._sums = objective, block, groups.Sums
        shape, batches, footprint = objective.shape, objective.batches, objective.footprint
        weights = batches.weights(np.arange(batches.sample_count)) if batches.is_weighted else None
        self._samples = groups.Samples(
            pixel_centres(np, shape.width, shape.height).astype(np.float32),
            np.ascontiguousarray(objective.values.reshape(-1, shape.channels)),
            np.empty(0) if weights is None else weights,
            objective.points,
            footprint.pixel_side if footprint else 0.0,
            np.uint64(footprint.random_seed if footprint else 0),
            self._cut.block_pixels,
        )
        self._objective = _objective_numbers(objective, plan)
        parameters, _ = flatten_parameters(device, objective.network)
        self._layer_parameters = parameters[self._cut.encoding_numbers :]
        self._encoding_gradient = GridGradient(objective.network.encoding, self._cut)
        factors = layout.aligned(self._layout.factor_numbers)
        self._network = kernel_network(objective.network, plan, self._layout, factors)
        numbers = layout.row_length(self._layout.gradient_numbers)
        self._gradients = layout.aligned(self._cut.shards * numbers).reshape(-1, numbers)
        self._update = Update(
            objective,
            device,
            self._layout,
            self._cut,
            parameters,
            self._encoding_gradient.numbers,
            self._gradients,
            factors,
        )
        self._shard_totals = np.zeros((self._cut.shards, 2))
        self._threads_memory = [layout.aligned(self._layout.thread_numbers) for _ in range(threads)]
        self._pool = ThreadPool(threads)

    def run(self, first_step: int, count: int) -> None:
        self._block.pack(self._network, self._layer_parameters)
        batch = self.objective.batches.indices(first_step)
        for step in range(first_step, first_step + count):
            batch = self._step(step, batch, is_last=step == first_step + count - 1)

    def memory_report(self) -> dict[str, int]:
        return self._memory

    def close(self) -> None:
        self._pool.close()

    def _step(self, step: int, batch: Array, *, is_last: bool) -> Array:
        """Take a step, and return the batch of the next step."""
        batches, cut = self.objective.batches, self._cut
        following = batch

        def find_following() -> None:
            nonlocal following
            if not is_last and not batches.is_everything:
                following = batches.indices(step + 1)

        meanwhile = [find_following]
        for chunk in cut.chunks:
            self._work_on_chunk(chunk, batch, step, meanwhile)
            meanwhile = []
        self._update.run(self._pool, step)
        self.totals += self._shard_totals.sum(axis=0)
        return following

    def _work_on_chunk(
        self,
        chunk: list[tuple[int, int]],
        batch: Array,
        step: int,
        meanwhile: Sequence[Callable[[], None]],
    ) -> None:
        """Run the pass and sum the grids' gradient for a chunk's pixels; `meanwhile` is other work,
        which runs concurrently with the pass."""

        def work(piece: int, thread: int) -> None:
            if piece < len(meanwhile):
                meanwhile[piece]()
            else:
                self._work_on_shard(piece - len(meanwhile), thread, batch, step, chunk)

        self._pool.run(work, len(meanwhile) + len(chunk))
        points = (chunk[-1][1] - chunk[0][0]) * self._samples.points
        is_first = chunk is self._cut.chunks[0]
        self._encoding_gradient.add_chunk(self._pool, points, is_first=is_first)

    def _work_on_shard(
        self, shard: int, thread: int, batch: Array, step: int, chunk: list[tuple[int, int]]
    ) -> None:
        """Run the forward pass, the loss and the backward pass for a shard's pixels."""
        first, end = chunk[shard]
        place = (first - chunk[0][0]) * self._samples.points
        is_first = chunk is self._cut.chunks[0]
        self._block.train_blocks(
            *(self._network, self._threads_memory[thread], self._samples, self._objective),
            *(batch[first:end], np.uint64(step)),
            self._sums(self._gradients[shard], self._shard_totals[shard], is_first),
            self._encoding_gradient.kept(place),
        )


def _require_kernels(objective: ImageObjective, precision: str, device: Device) -> None:
    """Raise `NotCovered` if something other than the network has no kernels."""
    optimizer = unclipped(objective.optimizer)
    if device.kind != "cpu":
        raise NotCovered("the cpu engine needs training.device: cpu")
    if precision == "float64":
        raise NotCovered("the cpu engine computes in float32, not in float64")
    if objective.loss not in LOSSES:
        raise no_kernels_for(f"the loss {objective.loss}")
    if not isinstance(optimizer, COVERED):
        raise no_kernels_for(f"the optimizer {type(optimizer).__name__}")
    require_numba()


def _objective_numbers(
    objective: ImageObjective, plan: NetworkPlan
) -> tuple[int, int, float, float, float]:
    share = 1 / (objective.batches.size * objective.shape.channels)
    numbers = OUTPUTS.index(plan.output), LOSSES.index(objective.loss)
    return *numbers, float(plan.steepness), float(objective.huber_delta), share


def _memory_report(
    objective: ImageObjective, layout: "Layout", cut: Cut, threads: int
) -> dict[str, int]:
    size, encoding = objective.network.parameter_count, objective.network.encoding
    pixels = objective.shape.width * objective.shape.height
    trained = cut.chunk_points * (encoding.size + 2) if cut.encoding_numbers else 0
    return {
        "parameters": 4 * (size + layout.factor_numbers),
        "optimizer": sum(array.nbytes for array in objective.optimizer.state.values()),
        "directions": working_bytes(cut, layout),
        "picture": pixels * (4 * objective.shape.channels + 8),
        "density": 16 * pixels if objective.batches.is_weighted else 0,
        # bytes per pixel while the batch is sampled, measured
        "batch": 104 * objective.batches.size,
        "gradients": 4 * cut.shards * layout.gradient_numbers,
        "encoding": 4 * (cut.encoding_numbers + trained),
        "blocks": 4 * threads * layout.thread_numbers,
    }
