"""Write the page of the tables: the answers, learning curve and numbers of each network."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entry.job import run_job
from entry.records import read_own_metrics
from neuralfield.system.provenance import require_recorded
from neuralfield.training.history import read_history
from neuralfield.viewing.template import words_of
from reporting.page import write_page
from reporting.plots import Curve, inline_svg, learning_curves
from reporting.table_plots import MEASURES, plot_of, read_view

_SHOWN = (
    *("rows", "held_out_rows", "measure", "rmse", "accuracy"),
    *("parameters", "widths", "versions"),
)


def main(
    tables: Sequence[Path],
    models: Sequence[Path],
    metrics: Sequence[Path],
    histories: Sequence[Path],
    sizes: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the page of all tables; see `reporting.page.write_page`.

    Each sequence of files has one file for every table, in the order of the settings. `sizes` are
    metrics files of further networks, in a folder ``sizes`` beside the metrics of their table.
    """
    sections = []
    for number, (name, table) in enumerate(settings["tables"].items()):
        own_sizes = [path for path in sizes if metrics[number].parent in path.parents]
        view = read_view(
            *(tables[number], models[number], table.get("truth", ()), own_sizes),
            *(table, table["training"]),
        )
        numbers = read_own_metrics(metrics[number], _SHOWN)
        require_recorded(histories[number], numbers, metrics[number])
        draw, plot_says = plot_of(view)
        measure = numbers["measure"]
        history = read_history(histories[number], measure)
        learned, text_of = MEASURES[measure]
        curve = Curve(0, history["step"], history[measure])
        plots = {"plot": draw, "curve": learning_curves([curve], "steps", text_of)}
        sections.append(
            {
                "title": words_of(name),
                "about": table["about"],
                "numbers": numbers,
                "network": _in_words(table["network"]),
                "plot_says": plot_says,
                **{key: inline_svg(plot, f"{key}{number}") for key, plot in plots.items()},
                "learned": learned,
                "sizes": view.sizes,
            }
        )
    write_page(report, template, metrics=metrics, settings=settings, sections=sections)


def _in_words(network: Mapping[str, Any]) -> str:
    if not network["widths"]:
        kind = "logistic" if network["output"] == "sigmoid" else "linear"
        return f"No hidden layers: a {kind} regression"
    count = len(network["widths"])
    values = ", then ".join(map(str, network["widths"]))
    layers = "One hidden layer" if count == 1 else f"{count} hidden layers"
    return f"{layers} of {values} values, {network['activation']}, {network['output']} output"


if __name__ == "__main__":
    run_job(main)
