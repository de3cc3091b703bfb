"""The settings that every part of the benchmark shares."""

from dataclasses import dataclass
from typing import Any

from measuring.measure import Deadline, Effort, Report
from measuring.rows import Ceilings, StepRow
from neuralfield.system.device import Device


@dataclass(frozen=True)
class Context:
    """The device that a part is measured on, the effort, and where results go.

    Attributes
    ----------
    deadline : Deadline
        The end of the time that the part may take.
    quick : bool
        Sizes are tiny: to see that everything runs, not how fast.
    with_peers : bool
        PyTorch is measured too.
    """

    device: Device
    ceilings: Ceilings
    effort: Effort
    deadline: Deadline
    report: Report
    quick: bool
    with_peers: bool

    def sized(self, row: StepRow) -> StepRow:
        """The row, or its tiny form where `quick` asks for that."""
        return row.reduced() if self.quick else row

    def peers(self) -> tuple[Any, ...]:
        """PyTorch's ways of running; none without `with_peers`."""
        if not self.with_peers:
            return ()
        from torch_peers.fields import PEERS

        return PEERS
