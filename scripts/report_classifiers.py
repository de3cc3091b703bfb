"""Write the page of the classifiers: what each gets wrong, how it learned, and the numbers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json
from reporting.classifier_plots import (
    MOST_MISTAKES,
    View,
    draw_confusion,
    draw_curve,
    draw_mistakes,
    read_view,
)
from reporting.colours import PAGE, Colours
from reporting.page import in_percent, render_page, words_of
from reporting.plots import inline_svg

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from entry.job import snakemake

_SHOWN = (
    *("pictures", "held_out_pictures", "width", "height", "classes", "accuracy"),
    *("held_out_accuracy", "held_out_wrong", "per_class", "parameters", "versions"),
)


@dataclass(frozen=True)
class Section:
    """One classifier.

    Attributes
    ----------
    name, about : str
    numbers : dict
        Its metrics.
    network : str
        What it is, in words.
    confusion, mistakes, curve : Markup
        Its plots.
    mistakes_shown : int
    """

    name: str
    about: str
    numbers: dict[str, Any]
    network: str
    confusion: Markup
    mistakes: Markup
    curve: Markup
    mistakes_shown: int

    @property
    def title(self) -> str:
        """The name as words."""
        return words_of(self.name)


def main(
    pictures: Sequence[Path],
    metrics: Sequence[Path],
    predictions: Sequence[Path],
    histories: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write one HTML file that needs nothing beside it and no network.

    Parameters
    ----------
    pictures, metrics, predictions, histories : sequence of Path
        One of each for every classifier, in the order of the settings; the pictures are those held
        out.
    template : Path
        The page; what it includes lies beside it.
    report : Path
        The page to write.
    settings : mapping
        Of the section `classifiers`, by name.
    """
    sections = []
    files = zip(pictures, metrics, predictions, histories, strict=True)
    for number, ((name, classifier), own) in enumerate(zip(settings.items(), files, strict=True)):
        view = read_view(*own, name)
        sections.append(
            Section(
                name=name,
                about=classifier["about"],
                numbers=read_json(own[1], _SHOWN),
                network=_in_words(classifier["network"]),
                confusion=_plot(draw_confusion, view, f"confusion{number}"),
                mistakes=_plot(draw_mistakes, view, f"mistakes{number}"),
                curve=_plot(draw_curve, view, f"curve{number}"),
                mistakes_shown=min(len(view.mistakes), MOST_MISTAKES),
            )
        )
    page = render_page(
        template,
        {"share": in_percent},
        metrics=metrics,
        settings={"classifiers": dict(settings)},
        sections=sections,
    )
    write_atomically(report, page.encode())


def _in_words(network: Mapping[str, Any]) -> str:
    channels = ", then ".join(map(str, network["channels"]))
    side, pool = network["kernel"], network["pool"]
    parts = [f"Convolutions to {channels} channels, kernels of {side} × {side}"] if channels else []
    if channels and pool > 1:
        parts.append(f"each followed by the largest of {pool} × {pool}")
    if network["hidden"]:
        parts.append(f"{', then '.join(map(str, network['hidden']))} hidden values")
    if network["hidden"] and network["dropout"]:
        parts.append(f"of which {100 * network['dropout']:g}% are dropped in training")
    return ", ".join(parts) or "One linear layer"


def _plot(draw: "Callable[[Axes, View, Colours], None]", view: View, name: str) -> Markup:
    return Markup(inline_svg(lambda axes: draw(axes, view, PAGE), name))  # no user's text is in it


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        pictures=[Path(path) for path in snakemake.input.pictures],
        metrics=[Path(path) for path in snakemake.input.metrics],
        predictions=[Path(path) for path in snakemake.input.predictions],
        histories=[Path(path) for path in snakemake.input.histories],
        template=Path(snakemake.input.template),
        report=Path(snakemake.output[0]),
        settings=snakemake.params.settings["classifiers"],
    )
