"""Write the report: one HTML page with embedded images, time-lapses and curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.records import read_own_metrics
from neuralfield.fields import FIELDS
from reporting.contents import SHOWN, Network, gather
from reporting.earlier import earlier_networks
from reporting.page import write_page
from reporting.sweep_page import gather_sweeps

KINDS = {kind: field.title for kind, field in FIELDS.items()}
KINDS["imported"] = "Imported weights, not trained here"
KINDS["latents"] = "Latents and small networks that code the image in few bits"


def main(
    metrics: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: Mapping[str, Any],
    files: Mapping[str, Sequence[str]],
    sweep_tables: Sequence[Path] = (),
    sweep_metrics: Sequence[Path] = (),
) -> None:
    """Write one HTML file that needs no other files and no internet access.

    The page shows the networks of this run in the order of `metrics`, followed by networks of other
    runs in the same results folder; the image with the best result comes first. `files` has the
    names of the files to link to, by ``{image}/{field}``. For `sweep_tables` see `gather_sweeps`;
    `sweep_metrics` are the metrics files of all runs of sweeps.
    """
    own = []
    for path in metrics:
        folder, numbers = path.parent, read_own_metrics(path, SHOWN)
        kind = settings.get("fields", {}).get(folder.name, {}).get("type")
        own.append(Network(folder, numbers, kind, files[f"{folder.parent.name}/{folder.name}"]))
    planned = {path.parent for path in (*metrics, *sweep_metrics)}
    networks = [*own, *earlier_networks(report.parent, planned)]
    sections = gather(networks)
    images = {network.image for network in own}
    best = max((s for s in sections if s.name in images), key=lambda s: s.merit, default=None)
    sections.sort(key=lambda section: section is not best)
    write_page(
        report,
        template,
        metrics=[*(network.folder / "metrics.json" for network in networks), *sweep_metrics],
        settings=settings,
        sections=sections,
        sweeps=gather_sweeps(sweep_tables, report.parent) if sweep_tables else [],
        swept={path.parent.name for path in sweep_metrics},
        kinds=KINDS,
    )


if __name__ == "__main__":
    run_job(main)
