"""The engine for processors: blocks of points that stay in cache, on all cores, without waste.

A step has two stages. In the first, threads work on blocks of the batch, forward and backward; in
the second on parts of the parameters, which the optimizer moves. Blocks belong to shards: a shard
adds up the gradients of its blocks in order, and the second stage adds up the shards in order. All
of it is cut the same way on every machine, so the number of threads changes no bit.
"""

import copy
from itertools import pairwise

import numpy as np

from neuralfield.device import Array, Device, require_memory
from neuralfield.engines import block_network
from neuralfield.engines.block_network import BlockNetwork, Workspace
from neuralfield.engines.crew import Crew
from neuralfield.engines.plans import network_plan
from neuralfield.engines.problem import Problem
from neuralfield.engines.supervision import Supervision
from neuralfield.engines.update_stage import flatten_arrays, state_prefixes
from neuralfield.optimizers import Adam, Optimizer, Sgd
from neuralfield.tensor import Tensor, gradients

_MOST_SHARDS, _MOST_SHARD_NUMBERS = 32, 1 << 25
"""More shards than most machines have cores, but less than 128 MiB of them."""

_PART_PARAMETERS = 1 << 14
"""Parameters that are moved together: few enough for a core's nearest cache."""


class CpuEngine:
    """Training steps on the processor's cores.

    Parameters
    ----------
    problem : Problem
        One that `reason_against` has nothing against; its parameters and the optimizer's state
        become views of flat arrays.
    device : Device
    threads : int

    Raises
    ------
    ResourceError
        There is too little memory.
    """

    name, variant, precision = "cpu", "", "float32"
    most_steps = 64

    def __init__(self, problem: Problem, device: Device, threads: int) -> None:
        require_memory(
            memory_bytes(problem, threads),
            device,
            "training",
            "use a smaller picture (images: size), a narrower network (fields: width) or fewer"
            " threads",
        )
        self.totals = np.zeros(2)
        self._problem = problem
        self._supervision = Supervision(problem, device)
        self._parameters = _flat_parameters(problem, device)
        self._network = BlockNetwork(problem.network, self._parameters)
        plan, points = network_plan(problem.network), _points(problem)
        block_pixels = _block_pixels(problem)
        self._block_ends = _cut(problem.batches.size, block_pixels)
        blocks, size = len(self._block_ends) - 1, len(self._parameters)
        shards = _shard_count(blocks, size)
        self._shard_ends = [blocks * shard // shards for shard in range(shards + 1)]
        self._gradients = np.empty((shards, size), np.float32)
        self._losses = np.empty((blocks, 2))
        self._parts = list(pairwise(_cut(size, _PART_PARAMETERS)))
        self._optimizers = _optimizers_of_parts(problem, device, self._parameters, self._parts)
        self._workspaces = [
            Workspace(self._network, block_pixels * points, is_trained=True) for _ in range(threads)
        ]
        self._crew = Crew(threads)

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and squared error to `totals`.

        Parameters
        ----------
        first_step : int
            Steps taken before.
        count : int
        """
        for step in range(first_step, first_step + count):
            self._step(step)

    def memory_report(self) -> dict[str, int]:
        """Bytes by what they are for."""
        return _memory_report(self._problem, self._crew.size)

    def close(self) -> None:
        """Let the threads go."""
        self._crew.close()

    def _step(self, step: int) -> None:
        batch = self._problem.batches.indices(step)
        rate = self._problem.schedule(step)
        self._network.refresh()
        self._crew.run(
            lambda shard, member: self._work_on_shard(shard, member, batch, step),
            len(self._gradients),
        )
        self._crew.run(lambda part, _: self._move(part, rate, step + 1), len(self._parts))
        self.totals += self._losses.sum(axis=0)

    def _work_on_shard(self, shard: int, member: int, batch: Array, step: int) -> None:
        """Forward, loss and backward for a shard's blocks, one after another."""
        network, workspace = self._network, self._workspaces[member]
        first, end = self._shard_ends[shard : shard + 2]
        for block in range(first, end):
            pixels = batch[self._block_ends[block] : self._block_ends[block + 1]]
            output = network.forward(self._supervision.points(pixels, step), workspace)
            z = Tensor(np.ascontiguousarray(output.T), differentiable=True)
            values = self._problem.network.output(z)
            loss, squared_error = self._supervision.loss(values, pixels, len(batch))
            (slopes,) = gradients(loss, [z])
            self._losses[block] = loss.data, squared_error
            slopes = np.ascontiguousarray(slopes.T)
            network.backward(slopes, workspace, self._gradients[shard], add=block > first)

    def _move(self, part: int, rate: float, step: int) -> None:
        """Add up the shards' gradients of some parameters, and move these."""
        place = slice(*self._parts[part])
        gradient = self._gradients[:, place].sum(axis=0)
        gradient *= self._network.factors[place]
        self._optimizers[part].update([gradient], rate, step)


def reason_against(problem: Problem, precision: str, device: Device) -> str | None:
    """Why the cpu engine cannot work on a problem; None where it can.

    Parameters
    ----------
    problem : Problem
    precision : {"auto", "mixed", "float32", "float64"}
    device : Device
    """
    if device.kind != "cpu":
        return "the cpu engine needs training.device: cpu"
    if precision == "float64":
        return "the cpu engine computes in float32, not in float64"
    found = block_network.reason_against(problem.network)
    if found is None and not isinstance(problem.optimizer, Adam | Sgd):
        found = f"the optimizer {type(problem.optimizer).__name__}"
    return None if found is None else f"the cpu engine does not cover {found}"


def memory_bytes(problem: Problem, threads: int) -> int:
    """About what the engine needs at once, in bytes."""
    return sum(_memory_report(problem, threads).values())


def _memory_report(problem: Problem, threads: int) -> dict[str, int]:
    plan, size = network_plan(problem.network), problem.network.parameter_count
    points, pixels = _block_pixels(problem) * _points(problem), problem.values.size
    widest = max(layer.fan_in for layer in plan.layers) + 1
    per_point = 2 * widest + sum(2 * layer.fan_in + 1 for layer in plan.layers)
    blocks = -(-problem.batches.size // _block_pixels(problem))
    state = sum(array.nbytes for array in problem.optimizer.state.values())
    return {
        "parameters": 3 * 4 * size,
        "optimizer": state,
        "picture": 4 * (pixels + 2 * problem.shape.width * problem.shape.height),
        # while a random order is drawn, as measured
        "batch": 44 * problem.batches.size,
        "blocks": threads * 4 * (points * per_point + size),
        "gradients": 4 * size * _shard_count(blocks, size),
    }


def _flat_parameters(problem: Problem, device: Device) -> np.ndarray:
    """All parameters one after another; the network's become views of them."""
    tensors = problem.network.parameters
    arrays = {name: tensor.data for name, tensor in tensors.items()}
    flat = flatten_arrays(device, [(arrays, name) for name in arrays])
    for name, tensor in tensors.items():
        tensor.data = arrays[name]
    return flat


def _optimizers_of_parts(
    problem: Problem, device: Device, parameters: np.ndarray, parts: list[tuple[int, int]]
) -> list[Optimizer]:
    """The problem's optimizer, once for each part of the parameters; the state is shared."""
    optimizer = problem.optimizer
    moments = {
        prefix: flatten_arrays(
            device, [(optimizer.state, f"{prefix}.{name}") for name in problem.network.parameters]
        )
        for prefix in state_prefixes(optimizer)
    }
    found = []
    for start, end in parts:
        one = copy.copy(optimizer)
        one.parameters = {"part": Tensor(parameters[start:end])}
        one.state = {f"{prefix}.part": array[start:end] for prefix, array in moments.items()}
        found.append(one)
    return found


def _points(problem: Problem) -> int:
    return problem.footprint.points if problem.footprint else 1


def _block_pixels(problem: Problem) -> int:
    points = block_network.block_points(network_plan(problem.network))
    return min(max(1, points // _points(problem)), problem.batches.size)


def _shard_count(blocks: int, size: int) -> int:
    return min(blocks, _MOST_SHARDS, max(1, _MOST_SHARD_NUMBERS // size))


def _cut(length: int, size: int) -> list[int]:
    """Where pieces of `size` begin, and where the last one ends."""
    return [*range(0, length, size), length]
