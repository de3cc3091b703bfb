"""Settings shared by all parts of the benchmark."""

from dataclasses import dataclass
from typing import Any

from measuring.measure import Deadline, Effort, Report
from measuring.rows import Ceilings, StepRow
from neuralfield.system.device import Device


@dataclass(frozen=True)
class Context:
    """The device that a part is measured on, the effort, and the report for its results.

    Attributes
    ----------
    deadline : Deadline
        The end of the time that the part may take.
    quick : bool
        Whether sizes are tiny, to test that everything runs.
    with_peers : bool
        Whether PyTorch is measured, too.
    """

    device: Device
    ceilings: Ceilings
    effort: Effort
    deadline: Deadline
    report: Report
    quick: bool
    with_peers: bool

    def sized(self, row: StepRow) -> StepRow:
        """Return the row, or its tiny form with `quick`."""
        return row.reduced() if self.quick else row

    def peers(self) -> tuple[Any, ...]:
        """Return PyTorch's ways of running; empty without `with_peers`."""
        if not self.with_peers:
            return ()
        from torch_peers.fields import PEERS

        return PEERS
