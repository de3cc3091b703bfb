"""Plot the answers of a table's network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from reporting.plots import write_png
from reporting.table_plots import plot_of, read_view


def main(
    table: Path,
    model: Path,
    plot: Path,
    *,
    truth: Sequence[str] = (),
    sizes: Sequence[Path] = (),
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
) -> None:
    """Write a PNG; the same network gives the same bytes; see `read_view`."""
    view = read_view(table, model, truth, sizes, settings, training)
    write_png(plot_of(view)[0], plot)


if __name__ == "__main__":
    run_job(main)
