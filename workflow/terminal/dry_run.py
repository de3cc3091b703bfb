"""Summary of a dry run: the jobs, the reasons for them, and their time."""

from pathlib import PurePath

from terminal.planned import MISSING, PlannedJob
from terminal.run import Run
from terminal.sentences import shown_in_words
from terminal.words import count, listed

_MOST_LINES = 20

_VERBS = {
    "resize": "read",
    "unpack": "read",
    "encode": "write as a table",
    "gather_tiles": "combine tiles",
    "train": "train",
    "import_weights": "import",
    "evaluate": "evaluate",
    "summarize": "write results/summary.csv",
    "compare": "compare",
    "report": "write the report",
    "plot": "plot",
}
"""Verbs for jobs by the prefix of their rule's name, in the order in which the summary has them."""


def summary(run: Run) -> str:
    """Return a description of the jobs that would run, a line for each network or image."""
    groups: dict[str, list[PlannedJob]] = {}
    for job in run.jobs.values():
        groups.setdefault(_subject(job), []).append(job)
    lines = [f"  {_line(name, jobs)}" for name, jobs in sorted(groups.items()) if name]
    if len(lines) > _MOST_LINES:
        lines[_MOST_LINES - 1 :] = [f"  and {len(lines) - _MOST_LINES + 1:,} more"]
    if "" in groups:
        lines.append(f"  {_line('', groups[''])}")
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
    outputs = [PurePath(output) for job in jobs for output in job.outputs]
    verbs = [verb for rule, verb in _VERBS.items() if any(j.rule.startswith(rule) for j in jobs)]
    if shown := shown_in_words(outputs, ("render", "", "")):
        verbs.append(shown)
    known = (*_VERBS, "render", "timelapse", "view", "pyramid")
    verbs += [listed(job.outputs) for job in jobs if not job.rule.startswith(known)]
    reason = next((job.reason for job in jobs if job.is_training), jobs[0].reason)
    because = f" ({reason})" if name and reason not in ("", MISSING) else ""
    return f"{name}{': ' if name else ''}{', '.join(dict.fromkeys(verbs))}{because}"
