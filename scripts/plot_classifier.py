"""Plot the confusion matrix, the mistakes and the learning curve of a classifier."""

from functools import partial
from pathlib import Path

from entry.job import run_job
from reporting.classifier_plots import draw_confusion, draw_curve, draw_mistakes, read_view
from reporting.plots import write_png


def main(
    images: Path,
    metrics: Path,
    predictions: Path,
    history: Path,
    *,
    name: str,
    confusion: Path,
    wrong: Path,
    curve: Path,
) -> None:
    """Write three PNGs; the same classifier gives the same bytes; see `read_view`."""
    view = read_view(images, metrics, predictions, history, name)
    write_png(partial(draw_confusion, view), confusion)
    write_png(partial(draw_mistakes, view), wrong)
    write_png(partial(draw_curve, view), curve)


if __name__ == "__main__":
    run_job(main, lambda job: {"name": job.wildcards.classifier})
