"""Summary of a dry run: the jobs, the reasons for them, and their time."""

from terminal.planned import MISSING, PlannedJob
from terminal.run import Run
from terminal.words import count

_MOST_LINES = 20

_FIRST = ("resize", "unpack", "encode", "train", "evaluate", "render")
"""Prefixes of the names of rules, in the order in which a line has them; others follow."""


def summary(run: Run) -> str:
    """Return a description of the jobs that would run, a line for each network or image."""
    groups: dict[str, list[PlannedJob]] = {}
    for job in run.jobs.values():
        groups.setdefault(_subject(job), []).append(job)
    lines = [f"  {_line(name, jobs)}" for name, jobs in sorted(groups.items()) if name]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [f"  and {len(lines) - _MOST_LINES + 1:,} more"]
    if "" in groups:
        lines.append(f"  {_line('all networks', groups[''])}")
    return "\n".join(
        [
            f"Would run {run.in_short()}:",
            *lines,
            "This was a dry run. `snakemake -n --verbose` lists every job with its files.",
        ]
    )


def _subject(job: PlannedJob) -> str:
    """Return the network, or else the image, table or classifier, that a job belongs to."""
    if job.network:
        return " / ".join(job.network)
    if len(job.trained) > 1:
        return f"{job.name} of {count(len(job.trained), 'network')}"
    return job.wildcards.get("image", job.name)


def _line(name: str, jobs: list[PlannedJob]) -> str:
    rules = ["train" if job.is_training else job.rule.replace("_", " ") for job in jobs]
    rules.sort(key=lambda rule: [not rule.startswith(first) for first in _FIRST])
    reason = next((job.reason for job in jobs if job.is_training), jobs[0].reason)
    because = f" ({reason})" if reason not in ("", MISSING) else ""
    return f"{name}: {', '.join(dict.fromkeys(rules))}{because}"
