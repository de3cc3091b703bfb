"""The update of several networks of one shape in one launch."""

from collections.abc import Sequence

import numpy as np

from neuralfield.engines.cuda.buffers import network_table
from neuralfield.engines.cuda.dependent_launch import DependentLaunch
from neuralfield.engines.cuda.launch import THREADS
from neuralfield.engines.cuda.source import compile_module
from neuralfield.engines.cuda.stages.update import PARTIAL_SUMS, UpdateStage
from neuralfield.system.device import Device


class UpdateBatch:
    """`UpdateStage` for several trainings, each with its own schedule and step.

    The stages have the same constants; their passes store sums of parts, see `PARTIAL_SUMS`.
    """

    def __init__(self, device: Device, stages: Sequence[UpdateStage]) -> None:
        tables = [stage.partial_sums() for stage in stages]
        self._works = [device.asarray(works.view(np.uint8)) for works, _ in tables]
        self._networks = network_table(
            device,
            [(works, *others) for works, (_, others) in zip(self._works, tables, strict=True)],
        )
        works = len(tables[0][0])
        constants = stages[0].constants | {"BLOCKS": works}
        module = compile_module("stages/update_batch.cu", constants)
        kernel = module.get_function("update_batch")
        self._begin_steps = module.get_function("begin_steps")
        blocks = 1 + -(-works // PARTIAL_SUMS)  # a warp for each row of the table
        self._grid = (blocks, len(stages))
        grid = (blocks, 1 + len(stages))
        self._update = DependentLaunch(device, kernel, grid, THREADS, (self._networks,))

    def begin(self, first_step: int) -> None:
        """Set the number of finished steps to `first_step`, on the current stream, and pack the
        weights, which the update does from then on."""
        self._begin_steps(self._grid, (THREADS,), (np.int64(first_step), self._networks))

    def launch(self) -> None:
        self._update()
