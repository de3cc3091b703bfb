"""Write the page of the tables: what each network answers, how it learned, and the numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from markupsafe import Markup

from neuralfield.system.files import write_atomically
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import require_recorded
from neuralfield.training.results import read_history
from reporting.colours import PAGE
from reporting.page import NOTHING, in_percent, render_page, words_of
from reporting.plots import Curve, inline_svg, learning_curves
from reporting.table_plots import View, draw, read_view, what_is_drawn

if TYPE_CHECKING:
    from entry.job import snakemake

_SHOWN = (
    "rows",
    "held_out_rows",
    "measure",
    "rmse",
    "accuracy",
    "parameters",
    "widths",
    "versions",
)


@dataclass(frozen=True)
class Section:
    """One table and its network.

    Attributes
    ----------
    name, about : str
    numbers : dict
        Its metrics.
    network : str
        What it is, in words.
    plot, curve : Markup
        What it answers, and how it learned.
    plot_says : str
        The plot in words.
    sizes : list of dict
        Metrics of the networks of all sizes, the smallest first; empty where there is one.
    """

    name: str
    about: str
    numbers: dict[str, Any]
    network: str
    plot: Markup
    curve: Markup
    plot_says: str
    sizes: list[dict[str, Any]]

    @property
    def title(self) -> str:
        """The name as words."""
        return words_of(self.name)

    @property
    def learned(self) -> str:
        """What the curve is of."""
        return "share right" if self.numbers["measure"] == "accuracy" else "error (rmse)"


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
    """Write one HTML file that needs nothing beside it and no network.

    Parameters
    ----------
    tables, models, metrics, histories : sequence of Path
        One of each for every table, in the order of the settings.
    sizes : sequence of Path
        Metrics of further networks: in a folder ``sizes`` beside those of their table.
    template : Path
        The page; what it includes lies beside it.
    report : Path
        The page to write.
    settings : mapping
        Of the section `tables`, by name.
    """
    sections = []
    for number, (name, table) in enumerate(settings.items()):
        own_sizes = [path for path in sizes if metrics[number].parent in path.parents]
        view = read_view(
            *(tables[number], models[number], table.get("truth", ()), own_sizes),
            *(name, table, table["training"]),
        )
        numbers = read_json(metrics[number], _SHOWN, {"table": name})
        require_recorded(histories[number], numbers, metrics[number])
        sections.append(
            Section(
                name=name,
                about=table["about"],
                numbers=numbers,
                network=_in_words(table["network"]),
                plot=_plot(view, f"table{number}"),
                curve=_curve(histories[number], numbers["measure"], f"curve{number}"),
                plot_says=what_is_drawn(view),
                sizes=view.sizes,
            )
        )
    page = render_page(
        template,
        {"number": in_digits, "share": in_percent, "widths": widths_in_words},
        metrics=metrics,
        settings={"tables": dict(settings)},
        sections=sections,
    )
    write_atomically(report, page.encode())


def in_digits(value: float | None) -> str:
    """1234.5678 as 1235, and 0.012345 as 0.01234: four digits that count."""
    return NOTHING if value is None else f"{value:.4g}".replace("-", "−")


def widths_in_words(widths: Sequence[int]) -> str:
    """[16, 8] as 16 × 8."""
    return " × ".join(map(str, widths)) or "none"


def _in_words(network: Mapping[str, Any]) -> str:
    if not network["widths"]:
        kind = "logistic" if network["output"] == "sigmoid" else "linear"
        return f"No hidden layers: a {kind} regression"
    count = len(network["widths"])
    values = ", then ".join(map(str, network["widths"]))
    layers = "One hidden layer" if count == 1 else f"{count} hidden layers"
    return f"{layers} of {values} values, {network['activation']}, {network['output']} output"


def _plot(view: View, name: str) -> Markup:
    # names of columns are in it: Matplotlib writes them as XML that nothing can leave
    return Markup(inline_svg(lambda axes: draw(axes, view, PAGE), name))


def _curve(history: Path, measure: str, name: str) -> Markup:
    table = read_history(history, measure)
    values = table[measure].to_numpy(np.float64)
    curve = Curve(0, table["step"].to_numpy(np.float64), values)
    text = _percent if measure == "accuracy" else _plain
    return Markup(learning_curves([curve], "steps", name, text))  # no text of a user's is in it


def _percent(value: float) -> str:
    return f"{100 * value:g}%"


def _plain(value: float) -> str:
    return f"{value:g}"


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        tables=[Path(path) for path in snakemake.input.tables],
        models=[Path(path) for path in snakemake.input.models],
        metrics=[Path(path) for path in snakemake.input.metrics],
        histories=[Path(path) for path in snakemake.input.histories],
        sizes=[Path(path) for path in snakemake.input.sizes],
        template=Path(snakemake.input.template),
        report=Path(snakemake.output[0]),
        settings=snakemake.params.settings["tables"],
    )
