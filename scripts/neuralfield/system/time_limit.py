"""When a job has to leave, so that its state is saved before its time is up."""

import math
import re
import subprocess
import time
from collections.abc import Mapping

SLURM_JOB = "SLURM_JOB_ID"
SLURM_END = "SLURM_JOB_END_TIME"
"""What newer SLURMs call the moment at which they end the job, in seconds of the Unix epoch."""

_LONGEST_MARGIN = 0.5
"""Of the time there is: however short a limit, some work is done before it."""

_SQUEUE_PATIENCE_S = 20
_TIME_LEFT = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d\d)")
"""As squeue writes it: minutes and seconds, before them hours, before them days."""


def leaving_time_s(
    limit_s: float | None, margin_s: float, environment: Mapping[str, str], *, started_s: float
) -> float:
    """The moment to leave at: some time before the job's own limit or the cluster's, the earlier.

    Parameters
    ----------
    limit_s : float, optional
        Seconds that the job may take.
    margin_s : float
        How long before a limit it is to leave; at most half of the time up to there.
    environment : mapping
        ``os.environ``: it tells whether this is a SLURM job, which then is asked when it ends.
    started_s : float
        When the job began, as `time.monotonic` has it.

    Returns
    -------
    float
        As `time.monotonic` has it; infinity where there is no limit.
    """
    now_s = time.monotonic()
    limits = [(now_s, slurm_time_left_s(environment))]
    if limit_s is not None:
        limits.append((started_s, limit_s))
    return min(
        since_s + left_s - min(margin_s, _LONGEST_MARGIN * max(left_s, 0.0))
        for since_s, left_s in limits
    )


def slurm_time_left_s(environment: Mapping[str, str]) -> float:
    """Seconds until SLURM ends this job; infinity where it is none, or SLURM does not say.

    SLURM is asked, because few of its versions say so in the environment, and what starts a job's
    steps may not pass it on.
    """
    if environment.get(SLURM_END, "").isdecimal():
        return int(environment[SLURM_END]) - time.time()
    if SLURM_JOB not in environment:
        return math.inf
    command = ["squeue", "--noheader", "--jobs", environment[SLURM_JOB], "--format", "%L"]
    try:
        said = subprocess.run(
            command,
            env=dict(environment),
            capture_output=True,
            text=True,
            timeout=_SQUEUE_PATIENCE_S,
            check=True,
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return math.inf
    found = _TIME_LEFT.fullmatch(said)  # or UNLIMITED, NOT_SET, INVALID
    if not found:
        return math.inf
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds
