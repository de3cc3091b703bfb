"""Write the report: one page that has its images, time-lapses and curves inside itself."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from neuralfield.images.metrics import IDENTICAL_DB
from reporting.contents import gather
from reporting.earlier import earlier_networks
from reporting.page import NOTHING, write_page
from reporting.sweep_page import gather_sweeps

KINDS = {
    "siren": "A network of sines (SIREN)",
    "finer": "A network of sines whose frequency grows with their input (FINER)",
    "wire": "A network of complex Gabor wavelets (WIRE)",
    "gauss": "A network of Gaussian bells",
    "hashgrid": "Trained numbers on grids of many resolutions, and a small network (hash encoding)",
    "cafe": "Products of Fourier features and polynomials, and a small network (CAFE+)",
    "mlp": "A plain network",
    "fourier": "A network with Fourier features of the position as its input",
    "upscaler": "Convolutions trained to enlarge this image (zero-shot)",
    "imported": "Imported weights, not trained here",
}


def main(
    metrics: Sequence[Path],
    resized: Sequence[Path],
    comparisons: Sequence[Path],
    histories: Sequence[Path],
    timelapses: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: dict[str, Any],
    files: Mapping[str, Sequence[str]] | None = None,
    sweep_tables: Sequence[Path] = (),
    sweep_metrics: Sequence[Path] = (),
    sweep_comparisons: Sequence[Path] = (),
) -> None:
    """Write one HTML file that needs nothing beside it and no internet.

    It shows the networks of this run, in the order of `metrics`, and after them what other runs
    have left beside the page; the image with the best result comes first. See
    `reporting.contents.gather` and `reporting.page.write_page`. `files` names the files that this
    run makes of each network, by ``{image}/{field}``: the page links to them. `sweep_tables` are
    ``summary.csv``, ``comparison.csv`` and ``comparison_by_image.csv``, none without sweeps;
    `sweep_metrics` and `sweep_comparisons` are those of all runs of sweeps.
    """
    fields = settings.get("fields", {})
    folders = [path.parent for path in metrics]
    kinds = {folder: fields.get(folder.name, {}).get("type") for folder in folders}
    linked = {folder: (files or {}).get("/".join(folder.parts[-2:]), ()) for folder in folders}
    planned = {*folders, *(path.parent for path in sweep_metrics)}
    earlier = earlier_networks(report.parent, planned)
    shown = [*metrics, *(network.folder / "metrics.json" for network in earlier)]
    sections = gather(
        shown,
        [*(network.training_image for network in earlier), *resized],
        [*comparisons, *(network.folder / "comparison" for network in earlier)],
        [*histories, *(path for network in earlier for path in network.existing("history.csv"))],
        [*timelapses, *(path for network in earlier for path in network.existing("timelapse.*"))],
        kinds | {network.folder: network.kind for network in earlier},
        linked | {network.folder: network.files for network in earlier},
    )
    images = {folder.parent.name for folder in folders}
    best = max((s for s in sections if s.name in images), key=lambda s: s.merit, default=None)
    sections.sort(key=lambda section: section is not best)
    sweeps = gather_sweeps(sweep_tables, sweep_comparisons) if sweep_tables else []
    write_page(
        report,
        template,
        {"db": decibels, "fine_db": fine_decibels, "gain": gain, "similarity": similarity},
        metrics=[*shown, *sweep_metrics],
        settings=settings,
        sections=sections,
        sweeps=sweeps,
        swept={path.parts[-2] for path in sweep_metrics},
        kinds=KINDS,
    )


def decibels(value_db: float | None) -> str:
    """Write 31.24 as 31.2 dB."""
    if value_db is None:
        return NOTHING
    return "identical" if value_db >= IDENTICAL_DB else f"{value_db:.1f}\u00a0dB"


def fine_decibels(value_db: float) -> str:
    """Write 0.0512 as 0.05 dB, for small differences."""
    return f"{value_db:.2f}\u00a0dB"


def gain(value_db: float | None) -> str:
    """Write -0.8 as −0.8 dB, with the sign that numbers have."""
    return NOTHING if value_db is None else f"{value_db:+.1f}\u00a0dB".replace("-", "−")


def similarity(value: float | None) -> str:
    """Write 0.97812 as 0.978."""
    return NOTHING if value is None else f"{value:.3f}"


if __name__ == "__main__":
    run_job(main)
