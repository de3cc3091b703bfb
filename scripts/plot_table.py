"""Draw what a table's network answers as a picture."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reporting.colours import write_png
from reporting.table_plots import draw, read_view

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    table: Path,
    model: Path,
    plot: Path,
    *,
    truth: Sequence[str] = (),
    sizes: Sequence[Path] = (),
    name: str | None = None,
    settings: Mapping[str, Any] | None = None,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Write a PNG; the same network gives the same bytes.

    Parameters
    ----------
    table, model : Path
        The CSV and the network.
    plot : Path
        The picture to write.
    truth, sizes, name, settings, training
        See `table_plots.read_view`.
    """
    view = read_view(table, model, truth, sizes, name, settings, training)
    write_png(lambda axes, colours: draw(axes, view, colours), plot)


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        table=Path(snakemake.input.table),
        model=Path(snakemake.input.model),
        plot=Path(snakemake.output.plot),
        truth=snakemake.params.truth,
        sizes=[Path(path) for path in snakemake.input.sizes],
        name=snakemake.wildcards.network,
        settings=snakemake.params.settings,
        training=snakemake.params.training,
    )
