"""What every part of the benchmark is given."""

from dataclasses import dataclass
from typing import Any

from measuring.measure import Deadline, Effort, Report
from measuring.rows import Ceilings, Row
from neuralfield.system.device import Device


@dataclass(frozen=True)
class Context:
    """Where and how thoroughly a part is measured.

    Attributes
    ----------
    device : Device
    ceilings : Ceilings
    effort : Effort
    deadline : Deadline
        When the part has to end.
    report : Report
    quick : bool
        Tiny sizes: to try out that everything runs, not to learn how fast.
    with_peers : bool
    """

    device: Device
    ceilings: Ceilings
    effort: Effort
    deadline: Deadline
    report: Report
    quick: bool
    with_peers: bool

    def sized(self, row: Row) -> Row:
        """The row, or its tiny form."""
        return row.reduced() if self.quick else row

    def peers(self) -> tuple[Any, ...]:
        """PyTorch's ways of running; none where it is not wanted or not installed."""
        if not self.with_peers:
            return ()
        from torch_peers.fields import PEERS

        return PEERS
