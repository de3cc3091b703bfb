"""Write the report: one page that has its images, time-lapses and curves inside itself."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from neuralfield.images.metrics import IDENTICAL_DB
from reporting.contents import gather
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
    views: Sequence[Path] = (),
    sweep_tables: Sequence[Path] = (),
    sweep_metrics: Sequence[Path] = (),
    sweep_comparisons: Sequence[Path] = (),
) -> None:
    """Write one HTML file that needs nothing beside it and no internet.

    Parameters
    ----------
    metrics, resized, comparisons, histories, timelapses, views : sequence of Path
        See `reporting.contents.gather`; images and networks appear in the order of `metrics`.
    template, report : Path
        See `reporting.page.write_page`.
    settings : dict
        The user's settings, printed at the end of the page.
    sweep_tables : sequence of Path
        ``summary.csv``, ``comparison.csv`` and ``comparison_by_image.csv``; empty without sweeps.
    sweep_metrics, sweep_comparisons : sequence of Path
        Those of all runs of sweeps.
    """
    sections = gather(metrics, resized, comparisons, histories, timelapses, views)
    sweeps = gather_sweeps(sweep_tables, sweep_comparisons) if sweep_tables else []
    write_page(
        report,
        template,
        {"db": decibels, "fine_db": fine_decibels, "gain": gain, "similarity": similarity},
        metrics=[*metrics, *sweep_metrics],
        settings=settings,
        sections=sections,
        sweeps=sweeps,
        swept={path.parts[-2] for path in sweep_metrics},
        kinds=KINDS,
        fields=settings.get("fields", {}),
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
