"""Write the page of the tables: the answers, learning curve and numbers of each network."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from entry.job import run_job
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import require_recorded
from neuralfield.training.history import read_history
from reporting.page import NOTHING, Titled, in_percent, write_page
from reporting.plots import inline_svg
from reporting.svg_plots import Curve, learning_curves
from reporting.table_plots import draw, plot_in_words, read_view
from reporting.ticks import percent, plain

_SHOWN = (
    *("rows", "held_out_rows", "measure", "rmse", "accuracy"),
    *("parameters", "widths", "versions"),
)


@dataclass(frozen=True)
class TableSection(Titled):
    """One table and its network."""

    about: str
    numbers: dict[str, Any]  # its metrics
    network: str  # a description of the network
    # the network's answers, and its learning curve
    plot: Markup
    curve: Markup
    plot_says: str  # a description of the plot
    sizes: list[dict[str, Any]]
    """Metrics of the networks of all sizes, the smallest first; empty if there is only one."""

    @property
    def learned(self) -> str:
        return (
            "share of correct predictions"
            if self.numbers["measure"] == "accuracy"
            else "error (rmse)"
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
            *(name, table, table["training"]),
        )
        numbers = read_json(metrics[number], _SHOWN, {"table": name})
        require_recorded(histories[number], numbers, metrics[number])
        # safe, because Matplotlib escapes the names of columns in the plot
        plot = inline_svg(partial(draw, view), f"table{number}")
        sections.append(
            TableSection(
                name=name,
                about=table["about"],
                numbers=numbers,
                network=_in_words(table["network"]),
                plot=Markup(plot),
                curve=_curve(histories[number], numbers["measure"], f"curve{number}"),
                plot_says=plot_in_words(view),
                sizes=view.sizes,
            )
        )
    filters = {"number": in_digits, "share": in_percent, "widths": widths_in_words}
    write_page(report, template, filters, metrics=metrics, settings=settings, sections=sections)


def in_digits(value: float | None) -> str:
    """Format a number with four significant digits: 1234.5678 as 1235, and 0.012345 as 0.01234."""
    return NOTHING if value is None else f"{value:.4g}".replace("-", "−")


def widths_in_words(widths: Sequence[int]) -> str:
    """Format [16, 8] as 16 × 8."""
    return " × ".join(map(str, widths)) or "none"


def _in_words(network: Mapping[str, Any]) -> str:
    if not network["widths"]:
        kind = "logistic" if network["output"] == "sigmoid" else "linear"
        return f"No hidden layers: a {kind} regression"
    count = len(network["widths"])
    values = ", then ".join(map(str, network["widths"]))
    layers = "One hidden layer" if count == 1 else f"{count} hidden layers"
    return f"{layers} of {values} values, {network['activation']}, {network['output']} output"


def _curve(history: Path, measure: str, name: str) -> Markup:
    table = read_history(history, measure)
    curve = Curve(0, table["step"], table[measure])
    text = percent if measure == "accuracy" else plain
    return Markup(learning_curves([curve], "steps", text))  # it contains no text of users


if __name__ == "__main__":
    run_job(main)
