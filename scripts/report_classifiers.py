"""Write the page of the classifiers: the mistakes, learning curve and numbers of each."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.records import read_own_metrics
from neuralfield.viewing.template import words_of
from reporting.classifier_plots import MOST_MISTAKES, plots_of
from reporting.page import write_page
from reporting.plots import inline_svg

_SHOWN = (
    *("pictures", "held_out_pictures", "width", "height", "classes", "accuracy"),
    *("held_out_accuracy", "held_out_wrong", "per_class", "parameters", "versions"),
)


def main(
    images: Sequence[Path],
    metrics: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the page of all classifiers.

    `images` and `metrics` have a file for every classifier, in the order of the settings; `images`
    are the held-out images.
    """
    sections = []
    classifiers = zip(settings["classifiers"].items(), images, metrics, strict=True)
    for number, ((name, classifier), *own) in enumerate(classifiers):
        plots = plots_of(*own)
        sections.append(
            {
                "title": words_of(name),
                "about": classifier["about"],
                "numbers": read_own_metrics(own[1], _SHOWN),
                "network": _in_words(classifier["network"]),
                **{plot: inline_svg(draw, f"{plot}{number}") for plot, draw in plots.items()},
            }
        )
    write_page(
        report,
        template,
        metrics=metrics,
        settings=settings,
        sections=sections,
        most_mistakes=MOST_MISTAKES,
    )


def _in_words(network: Mapping[str, Any]) -> str:
    channels = ", then ".join(map(str, network["channels"]))
    side, pool = network["kernel"], network["pool"]
    parts = [f"Convolutions to {channels} channels, kernels of {side} × {side}"] if channels else []
    if channels and pool > 1:
        parts.append(f"each followed by max pooling over {pool} × {pool}")
    if network["hidden"]:
        parts.append(f"{', then '.join(map(str, network['hidden']))} hidden values")
    if network["hidden"] and network["dropout"]:
        parts.append(f"with a dropout of {100 * network['dropout']:g}% in training")
    return ", ".join(parts) or "One linear layer"


if __name__ == "__main__":
    run_job(main)
