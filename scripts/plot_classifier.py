"""Draw what a classifier gets wrong, and how it learned, as pictures."""

from pathlib import Path
from typing import TYPE_CHECKING

from reporting.classifier_plots import draw_confusion, draw_curve, draw_mistakes, read_view
from reporting.colours import write_png

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    pictures: Path,
    metrics: Path,
    predictions: Path,
    history: Path,
    *,
    name: str | None = None,
    confusion: Path,
    wrong: Path,
    curve: Path,
) -> None:
    """Write three PNGs; the same classifier gives the same bytes.

    Parameters
    ----------
    pictures, metrics, predictions, history, name
        See `classifier_plots.read_view`.
    confusion, wrong, curve : Path
        The pictures to write.
    """
    view = read_view(pictures, metrics, predictions, history, name)
    write_png(lambda axes, colours: draw_confusion(axes, view, colours), confusion)
    write_png(lambda axes, colours: draw_mistakes(axes, view, colours), wrong)
    write_png(lambda axes, colours: draw_curve(axes, view, colours), curve)


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        name=snakemake.wildcards.classifier,
        **{name: Path(path) for name, path in snakemake.input.items()},
        **{name: Path(path) for name, path in snakemake.output.items()},
    )
