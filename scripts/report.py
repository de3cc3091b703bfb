"""Write the report: one HTML page with embedded images, time-lapses and curves."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from neuralfield.fields import FIELDS
from neuralfield.images.metrics import IDENTICAL_DB
from reporting.contents import NetworkFiles, gather
from reporting.earlier import earlier_networks
from reporting.page import NOTHING, write_page
from reporting.sweep_page import gather_sweeps

KINDS = {kind: field.title for kind, field in FIELDS.items()} | {
    "imported": "Imported weights, not trained here"
}


def main(
    metrics: Sequence[Path],
    resized: Sequence[Path],
    histories: Sequence[Path],
    timelapses: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: dict[str, Any],
    files: Mapping[str, Sequence[str]] | None = None,
    sweep_tables: Sequence[Path] = (),
    sweep_metrics: Sequence[Path] = (),
) -> None:
    """Write one HTML file that needs no other files and no internet access.

    The page shows the networks of this run in the order of `metrics`, followed by networks of other
    runs in the same results folder; the image with the best result comes first. `files` has the
    names of the files to link to, by ``{image}/{field}``. For `sweep_tables` see `gather_sweeps`;
    `sweep_metrics` are the metrics files of all runs of sweeps.
    """
    own = own_networks(metrics, resized, histories, timelapses, settings.get("fields"), files)
    earlier = earlier_networks(report.parent, {path.parent for path in (*metrics, *sweep_metrics)})
    sections = gather([*own, *earlier])
    images = {network.folder.parent.name for network in own}
    best = max((s for s in sections if s.name in images), key=lambda s: s.merit, default=None)
    sections.sort(key=lambda section: section is not best)
    sweeps = gather_sweeps(sweep_tables, report.parent) if sweep_tables else []
    write_page(
        report,
        template,
        {"db": decibels, "fine_db": fine_decibels, "gain": gain, "similarity": similarity},
        metrics=[*(network.metrics for network in (*own, *earlier)), *sweep_metrics],
        settings=settings,
        sections=sections,
        sweeps=sweeps,
        swept={path.parts[-2] for path in sweep_metrics},
        kinds=KINDS,
    )


def own_networks(
    metrics: Iterable[Path],
    resized: Iterable[Path],
    histories: Iterable[Path],
    timelapses: Sequence[Path],
    fields: Mapping[str, Any] | None = None,
    linked: Mapping[str, Sequence[str]] | None = None,
) -> list[NetworkFiles]:
    """Group files into networks by their folders.

    A network may have no history and no time-lapse. `linked` has the names of the files to link to,
    by ``{image}/{field}``.
    """
    fields, linked = fields or {}, linked or {}
    image_of = {path.parent: path for path in resized}
    history_of = {path.parent: path for path in histories}
    return [
        NetworkFiles(
            folder,
            fields.get(folder.name, {}).get("type"),
            image_of[folder.parent],
            history_of.get(folder),
            [path for path in timelapses if path.parent == folder],
            linked.get(f"{folder.parent.name}/{folder.name}", ()),
        )
        for folder in (path.parent for path in metrics)
    ]


def decibels(value_db: float | None) -> str:
    """Format 31.24 as 31.2 dB."""
    if value_db is None:
        return NOTHING
    return "identical" if value_db >= IDENTICAL_DB else f"{value_db:.1f}\u00a0dB"


def fine_decibels(value_db: float) -> str:
    """Format 0.0512 as 0.05 dB, for small differences."""
    return f"{value_db:.2f}\u00a0dB"


def gain(value_db: float | None) -> str:
    """Format -0.8 as −0.8 dB, with a typographic minus sign."""
    return NOTHING if value_db is None else f"{value_db:+.1f}\u00a0dB".replace("-", "−")


def similarity(value: float | None) -> str:
    """Format 0.97812 as 0.978."""
    return NOTHING if value is None else f"{value:.3f}"


if __name__ == "__main__":
    run_job(main)
