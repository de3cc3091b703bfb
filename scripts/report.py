"""Write the report: one page that carries its pictures, films and curves inside itself."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from neuralfield.files import write_atomically
from neuralfield.metrics import IDENTICAL_DB
from report_contents import gather
from report_sweeps import gather_sweeps

if TYPE_CHECKING:
    from job import snakemake

NOTHING = "–"

KINDS = {
    "siren": "A network of sine waves (SIREN)",
    "finer": "A network of sine waves that are the faster, the larger their input (FINER)",
    "wire": "A network of complex Gabor wavelets (WIRE)",
    "gauss": "A network of Gaussian bells",
    "hashgrid": "Trained numbers on grids of many resolutions, and a small network (hash encoding)",
    "cafe": "Products of waves and polynomials, and a small network (CAFE+)",
    "mlp": "A plain network",
    "fourier": "A network that is shown waves of many lengths (Fourier features)",
    "upscaler": "Convolutions that have learned how this picture is enlarged (zero-shot)",
    "imported": "Imported weights, not trained here",
}


def main(
    metrics: Sequence[Path],
    resized: Sequence[Path],
    comparisons: Sequence[Path],
    histories: Sequence[Path],
    films: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: dict[str, Any],
    sweep_tables: Sequence[Path] = (),
    sweep_metrics: Sequence[Path] = (),
    sweep_comparisons: Sequence[Path] = (),
) -> None:
    """Write one HTML file that needs nothing beside it and no network.

    Parameters
    ----------
    metrics, resized, comparisons, histories, films : sequence of Path
        See `report_contents.gather`; pictures and networks appear in the order of `metrics`.
    template : Path
        The page; what it includes lies beside it.
    report : Path
        The page to write.
    settings : dict
        What the user configured, printed at the end of the page.
    sweep_tables : sequence of Path
        ``summary.csv``, ``comparison.csv`` and ``comparison_by_image.csv``; none of them where
        there are no sweeps.
    sweep_metrics, sweep_comparisons : sequence of Path
        Of all runs of sweeps.
    """
    sections = gather(metrics, resized, comparisons, histories, films)
    sweeps = gather_sweeps(sweep_tables, sweep_comparisons) if sweep_tables else []
    environment = Environment(
        loader=FileSystemLoader(template.parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "breakable": breakable,
        "count": in_full,
        "db": decibels,
        "fine_db": fine_decibels,
        "device": device_name,
        "duration": duration,
        "gain": gain,
        "similarity": similarity,
    }
    page = environment.get_template(template.name).render(
        sections=sections,
        sweeps=sweeps,
        swept={path.parts[-2] for path in sweep_metrics},
        kinds=KINDS,
        fields=settings.get("fields", {}),
        versions=versions([*metrics, *sweep_metrics]),
        settings=yaml.safe_dump(settings, sort_keys=False, allow_unicode=True),
        nothing=NOTHING,
    )
    write_atomically(report, page.encode())


def versions(metrics: Sequence[Path]) -> dict[str, str]:
    """Every program's versions over all networks, in words."""
    found: dict[str, list[str]] = {}
    for path in metrics:
        for name, version in (json.loads(path.read_text())["versions"] or {}).items():
            if version not in found.setdefault(name, []):
                found[name].append(version)
    return {name: ", ".join(known) for name, known in found.items()}


def breakable(name: str) -> Markup:
    """A name that may go on in the next line after an underscore."""
    return escape(name).replace("_", Markup("_<wbr>"))


def in_full(value: int | None) -> str:
    """98752 as 98,752."""
    return NOTHING if value is None else f"{value:,}"


def decibels(value_db: float | None) -> str:
    """31.24 as 31.2 dB."""
    if value_db is None:
        return NOTHING
    return "identical" if value_db >= IDENTICAL_DB else f"{value_db:.1f}\u00a0dB"


def fine_decibels(value_db: float) -> str:
    """0.0512 as 0.05 dB, for small differences."""
    return f"{value_db:.2f}\u00a0dB"


def gain(value_db: float | None) -> str:
    """-0.8 as −0.8 dB, with the sign that numbers have."""
    return NOTHING if value_db is None else f"{value_db:+.1f}\u00a0dB".replace("-", "−")


def similarity(value: float | None) -> str:
    """0.97812 as 0.978."""
    return NOTHING if value is None else f"{value:.3f}"


def device_name(name: str | None) -> str:
    """A processor's or card's name without what makers put between the words."""
    if name is None:
        return NOTHING
    plain = re.sub(r"\((R|TM)\)|@.*|\b\d+-Core\b|\b(CPU|Processor)\b", " ", name)
    return " ".join(plain.split())


def duration(seconds: float | None) -> str:
    """Time in the unit that suits it: 640 µs, 1.5 ms, 42 s, 3 min 20 s, 5 h 3 min."""
    if seconds is None:
        return NOTHING
    if seconds < 60:
        for unit, size in (("µs", 1e-6), ("ms", 1e-3), ("s", 1.0)):
            value = seconds / size
            if value < 999.5 or unit == "s":
                return f"{value:.0f}\u00a0{unit}" if value >= 10 else f"{value:.1f}\u00a0{unit}"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}\u00a0min {rest}\u00a0s"
    return f"{minutes // 60}\u00a0h {minutes % 60}\u00a0min"


if __name__ == "__main__":
    from job import run_job

    run_job(
        main,
        snakemake,
        metrics=[Path(path) for path in snakemake.input.metrics],
        resized=[Path(path) for path in snakemake.input.resized],
        comparisons=[Path(path) for path in snakemake.input.comparisons],
        histories=[Path(path) for path in snakemake.input.histories],
        films=[Path(path) for path in snakemake.input.films],
        template=Path(snakemake.input.template),
        report=Path(snakemake.output[0]),
        settings=snakemake.params.settings,
        sweep_tables=[Path(path) for path in snakemake.input.sweep_tables],
        sweep_metrics=[Path(path) for path in snakemake.input.sweep_metrics],
        sweep_comparisons=[Path(path) for path in snakemake.input.sweep_comparisons],
    )
