"""When a job has to leave, so that its state is saved before its time is up."""

import math
import time
from collections.abc import Mapping

SLURM_END = "SLURM_JOB_END_TIME"
"""What SLURM calls the moment at which it ends the job, in seconds of the Unix epoch."""


def leaving_time_s(
    limit_s: float | None, margin_s: float, environment: Mapping[str, str], *, started_s: float
) -> float:
    """The moment to leave at: some time before the job's own limit or the cluster's, the earlier.

    Parameters
    ----------
    limit_s : float, optional
        Seconds that the job may take.
    margin_s : float
        How long before a limit it is to leave.
    environment : mapping
        ``os.environ``: a SLURM job's end stands in it.
    started_s : float
        When the job began, as `time.monotonic` has it.

    Returns
    -------
    float
        As `time.monotonic` has it; infinity where there is no limit.
    """
    ends_s = [math.inf]
    if limit_s is not None:
        ends_s.append(started_s + limit_s)
    if environment.get(SLURM_END, "").isdecimal():
        ends_s.append(time.monotonic() + int(environment[SLURM_END]) - time.time())
    return min(ends_s) - margin_s
