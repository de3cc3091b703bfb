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
    metrics: Sequence[Path],
    sizes: Sequence[Path],
    template: Path,
    report: Path,
    *,
    settings: Mapping[str, Mapping[str, Any]],
) -> None:
    """Write the page of all tables; see `reporting.page.write_page`.

    `tables` and `metrics` have a file for every table, in the order of the settings. `sizes` are
    metrics files of further networks, in a folder ``sizes`` beside the metrics of their table.
    """
    sections = []
    files = zip(settings["tables"].items(), tables, metrics, strict=True)
    for number, ((name, table), path, measured) in enumerate(files):
        own_sizes = [size for size in sizes if measured.parent in size.parents]
        model, learned = (measured.with_name(own) for own in ("model.safetensors", "history.csv"))
        truth = table.get("truth", ())
        view = read_view(path, model, truth, own_sizes, table, table["training"])
        numbers = read_own_metrics(measured, _SHOWN)
        require_recorded(learned, numbers, measured)
        history = read_history(learned, numbers["measure"])
        words, text_of = MEASURES[numbers["measure"]]
        draw, plot_says = plot_of(view)
        curve = learning_curves(
            [Curve(0, history["step"], history[numbers["measure"]])], "steps", text_of
        )
        sections.append(
            {
                "title": words_of(name),
                "about": table["about"],
                "numbers": numbers,
                "network": _in_words(table["network"]),
                "plot": inline_svg(draw, f"plot{number}"),
                "plot_says": plot_says,
                "curve": inline_svg(curve, f"curve{number}"),
                "learned": words,
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
