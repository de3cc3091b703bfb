"""Rendering on the CPU's cores, through the cpu engine's kernels."""

import numpy as np

from neuralfield.engines.cpu import require_numba
from neuralfield.engines.cpu.encoding import kernel_network
from neuralfield.engines.kernel_plan import OUTPUTS, network_plan
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.fields import CoordinateNetwork
from neuralfield.system.device import Array

_PIECE_BLOCKS = 16
"""Number of blocks of pixels that a thread renders at a time."""


class Workers:
    """Threads, each with its own memory, which several renderers use in turn."""

    def __init__(self, threads: int) -> None:
        self.pool = ThreadPool(threads)
        self._memory: list[np.ndarray] = []

    def memory(self, numbers: int) -> list[np.ndarray]:
        """Return an array for each thread, of at least `numbers` numbers."""
        from neuralfield.engines.cpu.kernels import layout

        if not self._memory or self._memory[0].size < numbers:
            self._memory = [layout.aligned(numbers) for _ in range(self.pool.size)]
        return self._memory


class CpuRenderer:
    """See `neuralfield.rendering.Renderer`; for networks in float32.

    The workers are closed with the renderer, unless they are shared. `NotCovered` is raised if
    there are no kernels for the network.
    """

    def __init__(
        self, network: CoordinateNetwork, threads: int, shared: Workers | None = None
    ) -> None:
        plan = network_plan(network)
        require_numba()
        # imported here, because Numba takes a moment to start
        from neuralfield.engines.cpu.kernels import block, groups, layout

        self._render_blocks, self._grid = block.render_blocks, groups.Grid
        self._layout = layout.make_layout(plan, is_trained=False)
        self._channels = plan.layers[-1].fan_out
        layers = (tensor for layer in network.layers for tensor in layer.parameters.values())
        parameters = np.concatenate([tensor.data.ravel() for tensor in layers])
        factors = layout.aligned(self._layout.factor_numbers)
        self._network = kernel_network(network, plan, self._layout, factors)
        block.pack(self._network, parameters)
        self._output = OUTPUTS.index(plan.output), float(plan.steepness)
        self._workers, self._is_shared = shared or Workers(threads), shared is not None

    def pixels(
        self, columns: Array, rows: Array, offsets: Array, which: Array | None = None
    ) -> tuple[Array, Array]:
        memory = self._workers.memory(self._layout.thread_numbers)
        numbers = np.empty(0, np.int64) if which is None else which
        count = len(numbers) if which is not None else len(columns) * len(rows)
        means = np.empty((count, self._channels), np.float32)
        spreads = np.empty(count, np.float32)
        block_rows = self._layout.block_rows
        size = _PIECE_BLOCKS * block_rows

        grid = self._grid(columns, rows, offsets, numbers)

        def render_piece(piece: int, thread: int) -> None:
            pixels = piece * size, min(count, (piece + 1) * size)
            self._render_blocks(
                *(self._network, memory[thread], grid, pixels, block_rows),
                *(self._output, means, spreads),
            )

        self._workers.pool.run(render_piece, -(-count // size))
        return means, spreads

    def close(self) -> None:
        if not self._is_shared:
            self._workers.pool.close()
