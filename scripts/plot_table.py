"""Draw what a table's network answers as a picture."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import matplotlib as mpl
from matplotlib.figure import Figure

from neuralfield.files import write_atomically
from report_plots import LETTERS, SIZE_INCHES
from table_plots import PAPER, draw, read_view

if TYPE_CHECKING:
    from job import snakemake

DOTS_PER_INCH = 160


def main(
    table: Path,
    model: Path,
    plot: Path,
    *,
    truth: Sequence[str] = (),
    sizes: Sequence[Path] = (),
) -> None:
    """Write a PNG; the same network gives the same bytes.

    Parameters
    ----------
    table, model : Path
        The CSV and the network.
    plot : Path
        The picture to write.
    truth, sizes
        See `table_plots.read_view`.
    """
    view = read_view(table, model, truth, sizes)
    settings: dict[Any, Any] = LETTERS | {"text.color": PAPER.muted}
    with mpl.rc_context(settings):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained", facecolor=PAPER.card)
        draw(figure.add_subplot(), view, PAPER)
        content = io.BytesIO()
        figure.savefig(content, format="png", dpi=DOTS_PER_INCH, metadata={"Software": None})
    write_atomically(plot, content.getvalue())


if __name__ == "__main__":
    from job import run_job

    run_job(
        main,
        snakemake,
        table=Path(snakemake.input.table),
        model=Path(snakemake.input.model),
        plot=Path(snakemake.output.plot),
        truth=snakemake.params.truth,
        sizes=[Path(path) for path in snakemake.input.sizes],
    )
