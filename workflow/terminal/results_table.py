"""The output at the end of a run: a table of its networks, and the path of the report."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terminal.sentences import best_filter, read_metrics
from terminal.words import duration, listed

if TYPE_CHECKING:
    from config.configuration import ImageNetwork
    from terminal.screen import Screen

_MOST_ROWS = 20
_HEADS = (
    *("image", "network", "fit, dB", "wrong pixels", "redraw, dB", "uncorrected, dB"),
    *("best filter, dB", "trained in"),
)
_NAMES = 2
"""Number of columns with names; the others have numbers."""

_REPORTS = {
    "results/report.html": "to see how good each network is",
    "results/tables/report.html": "to see the predictions of each table's network",
    "results/classifiers/report.html": "to see how good each classifier is",
}


def show(workflow: Any, screen: "Screen | None", networks: Iterable["ImageNetwork"]) -> None:
    """Print the metrics of the networks that this run has worked on, and the report to open."""
    done = ""
    if screen:
        screen.end()
        done = (
            f"Done in {duration(time.monotonic() - screen.run.started_s)}. " if screen.run else ""
        )
    dag = workflow.dag
    worked_on = {
        (job.wildcards.image, job.wildcards.field)
        for job in dag.finished_jobs
        if {"image", "field"} <= job.wildcards_dict.keys()
    }
    shown = [network for network in networks if tuple(network) in worked_on]
    for line in table(Path("results"), shown):
        print(line)
    asked_for = {str(output) for job in dag.jobs for output in job.output}
    for path, purpose in _REPORTS.items():
        if path in asked_for and Path(path).exists():
            print(f"{done}Open {path} {purpose}.")
            done = ""
    if done:
        print(done.strip())


def report_of_the_others(workflow: Any, where: Callable[[tuple], str]) -> str:
    """Return how to get a report without unreadable images; empty if all images were readable."""
    dag, failed = workflow.dag, workflow.scheduler.failed
    reading = [job for job in dag.jobs if job.rule.name in ("resize", "unpack")]
    unreadable = sorted(job.wildcards.image for job in reading if job in failed)
    is_wanted = any("results/report.html" in map(str, job.output) for job in dag.jobs)
    images = {job.wildcards.image for job in dag.jobs if "image" in job.wildcards_dict}
    if not is_wanted or not unreadable or len(unreadable) == len(images):
        return ""
    return (
        f"The report needs all images: for a report without {listed(unreadable)}, remove"
        f" {'it' if len(unreadable) == 1 else 'them'} from `images` in"
        f" {where(('images',)).partition(':')[0]}, and run the same command again."
    )


def table(results: Path, networks: Sequence["ImageNetwork"]) -> list[str]:
    """Return the lines of a table of networks, without columns that have no values."""
    rows = []
    for network in networks:
        numbers = read_metrics(results / network.image / network.field / "metrics.json")
        if "psnr_db" in numbers:
            rows.append((network.image, network.field, *_cells(numbers)))
    if not rows:
        return []
    more = [f"... and {len(rows) - _MOST_ROWS} more in {results / 'summary.csv'}"]
    rows, more = rows[:_MOST_ROWS], more if len(rows) > _MOST_ROWS else []
    known = [place for place in range(len(_HEADS)) if any(row[place] for row in rows)]
    widths = [max(len(row[place]) for row in (_HEADS, *rows)) for place in range(len(_HEADS))]
    aligned = [
        "  ".join(
            row[place].ljust(widths[place]) if place < _NAMES else row[place].rjust(widths[place])
            for place in known
        ).rstrip()
        for row in (_HEADS, *rows)
    ]
    return [*aligned, *more]


def _cells(numbers: dict[str, Any]) -> list[str]:
    wrong, seconds = numbers.get("wrong_pixels"), numbers.get("train_seconds")
    redraw_db, best = numbers.get("upscale_psnr_db"), best_filter(numbers)
    uncorrected_db = numbers.get("upscale_uncorrected_psnr_db")
    return [
        f"{numbers['psnr_db']:.2f}",
        "" if wrong is None else f"{wrong:,}",
        "" if redraw_db is None else f"{redraw_db:.2f}",
        "" if uncorrected_db is None else f"{uncorrected_db:.2f}",
        "" if best is None else f"{best[0]} {best[1]:.2f}",
        "" if seconds is None else duration(seconds),
    ]
