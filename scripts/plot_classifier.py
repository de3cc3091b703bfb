"""Plot the confusion matrix, the mistakes and the learning curve of a classifier."""

from pathlib import Path

from entry.job import run_job
from reporting.classifier_plots import plots_of
from reporting.plots import write_png


def main(images: Path, metrics: Path, *, confusion: Path, wrong: Path, curve: Path) -> None:
    """Write three PNGs; the same classifier gives the same bytes; see `plots_of`."""
    plots = plots_of(images, metrics)
    for plot, path in {"confusion": confusion, "wrong": wrong, "curve": curve}.items():
        write_png(plots[plot], path)


if __name__ == "__main__":
    run_job(main)
