"""Plots of the answers of a table's network: a curve, a surface, or answers over targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from entry.records import read_own_metrics
from entry.table_network import read_own
from neuralfield.tasks.table.samples import Samples, read_columns
from neuralfield.tasks.table.table_model import TableModel
from reporting.plots import PAPER, PERCENT, PLAIN, Colours, Draw, style_axes

SURFACE_POINTS = 160
"""Number of points along each side of a surface."""

CURVE_POINTS = 600
MOST_POINTS = 4000
"""Maximum number of rows that are plotted; more would overlap, and make the page large."""

SURFACE_MARGIN, CURVE_MARGIN = 0.12, 0.02
"""Margins of the plot around the rows, as fractions of their range."""

MEASURES = {"accuracy": ("share of correct predictions", PERCENT), "rmse": ("error (rmse)", PLAIN)}
"""Each measure in words, and the format of its values."""

LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 1.4, "borderaxespad": 0.2}

_FIRST, _SECOND = map(to_rgb, PAPER.series[:2])
SURFACE = LinearSegmentedColormap.from_list(
    "surface",
    [(0, (*_SECOND, 0.62)), (0.5, (*_SECOND, 0)), (0.5, (*_FIRST, 0)), (1, (*_FIRST, 0.62))],
)
"""Colours of a surface, transparent in the middle: an image inside a plot cannot use the colours of
the page's theme, and has to suit any background."""


@dataclass(frozen=True, eq=False)
class TableView:
    """The contents of the plot of a table's network."""

    model: TableModel
    samples: Samples
    held_out: np.ndarray  # bool, shape (n,)
    truth: np.ndarray | None  # float64, shape (n, targets)
    sizes: list[dict[str, Any]]
    """Metrics of the networks of all sizes, the smallest first; empty if there is only one."""

    @property
    def shown(self) -> np.ndarray:
        """The indices of the rows that are plotted."""
        count = self.samples.count
        return np.unique(np.linspace(0, count - 1, min(count, MOST_POINTS)).astype(int))


def read_view(
    table: Path,
    model: Path,
    truth: Sequence[str],
    sizes: Sequence[Path],
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
) -> TableView:
    """Read the contents of a plot.

    For the network see `read_own`. `truth` has the names of columns with the targets without noise.
    `sizes` are the metrics files of the networks of all sizes, if there are several.
    """
    network, task = read_own(table, model, settings, training)
    keys = ("parameters", "measure", "rmse", "accuracy", "bits_per_parameter")
    return TableView(
        network,
        task.samples,
        task.held_out,
        read_columns(table, truth) if truth else None,
        sorted((read_own_metrics(path, keys) for path in sizes), key=lambda own: own["parameters"]),
    )


def plot_of(view: TableView) -> tuple[Draw, str]:
    """Return the plot that suits the table, and a sentence about it, as a text alternative."""
    inputs, targets = " and ".join(view.samples.inputs), ", ".join(view.samples.targets)
    shape = len(view.samples.inputs), len(view.samples.targets)
    if view.sizes:
        draw, words = _draw_sizes, "The quality of each network over its number of parameters."
    elif shape[0] == 1:
        draw = _draw_curves
        words = f"{targets} over {inputs}: the rows, and the network’s predictions."
    elif shape == (2, 1):
        draw = _draw_surface
        words = f"{targets} over {inputs}: the rows, and the network’s predictions between them."
    else:
        draw = _draw_against
        words = f"The network’s predictions over the values of {targets} in the table."
    return partial(draw, view), words


def _draw_curves(view: TableView, axes: Axes, colours: Colours) -> None:
    values = view.samples.input_values[:, 0]
    x = np.linspace(*_range(values, CURVE_MARGIN), CURVE_POINTS)
    answers = view.model.predict(x[:, None])
    order = np.argsort(values, kind="stable")
    named = len(view.samples.targets) > 1
    for number, target in enumerate(view.samples.targets):
        tone, suffix = colours.series[number % 3], f": {target}" if named else ""
        points = tone if named else colours.muted
        for rows, label, fill in _groups(view):
            y = view.samples.target_values[rows, number]
            axes.plot(values[rows], y, label=label + suffix, **_markers(points, fill))
        if view.truth is not None:
            style: dict[str, Any] = {"color": colours.series[1], "label": f"without noise{suffix}"}
            axes.plot(values[order], view.truth[order, number], "--", **style)
        axes.plot(x, answers[:, number], color=tone, linewidth=2.2, label=f"the network{suffix}")
    style_axes(axes, view.samples.inputs[0], PLAIN, colours)
    axes.legend(labelcolor=colours.muted, **LEGEND)


def _draw_surface(view: TableView, axes: Axes, colours: Colours) -> None:
    values, targets = view.samples.input_values, view.samples.target_values[:, 0]
    sides = [np.linspace(*_range(column, SURFACE_MARGIN), SURFACE_POINTS) for column in values.T]
    x, y = np.meshgrid(*sides)
    answers = view.model.predict(np.stack([x.ravel(), y.ravel()], axis=1)).reshape(x.shape)
    is_share = view.model.settings.output == "sigmoid"
    lowest, highest = (0.0, 1.0) if is_share else (targets.min(), targets.max())
    corners = (sides[0][0], sides[0][-1], sides[1][0], sides[1][-1])
    place: dict[str, Any] = {"extent": corners, "origin": "lower", "aspect": "auto"}
    axes.imshow(answers, cmap=SURFACE, vmin=lowest, vmax=highest, **place)
    middle = (lowest + highest) / 2
    if answers.min() < middle < answers.max():
        axes.contour(x, y, answers, levels=[middle], colors=colours.muted, linewidths=1.6)
    groups = _groups(view)
    for rows, label, fill in groups:
        named = f"{label}: " if len(groups) > 1 else " "  # Matplotlib hides labels with a leading _
        for upper in (False, True):
            x, y = values[rows[(targets[rows] > middle) == upper]].T
            style = _markers(colours.series[0] if upper else colours.series[1], fill)
            style |= {"alpha": 1, "markersize": 6 if len(values) > 50 else 12}
            if fill:
                style |= {"markeredgecolor": colours.background, "markeredgewidth": 0.8}
            axes.plot(x, y, label=f"{named}{_side(view, middle, upper)}", **style)
    style_axes(axes, view.samples.inputs[0], PLAIN, colours)
    axes.set_ylabel(view.samples.inputs[1], color=colours.muted, labelpad=10)
    axes.grid(visible=False)
    axes.margins(0)
    above: dict[str, Any] = {"loc": "lower center", "bbox_to_anchor": (0.5, 1), "ncols": 2}
    axes.legend(labelcolor=colours.muted, columnspacing=4, **above, **LEGEND)


def _draw_against(view: TableView, axes: Axes, colours: Colours) -> None:
    answers = view.model.predict(view.samples.input_values)
    lowest, highest = view.samples.target_values.min(), view.samples.target_values.max()
    axes.plot([lowest, highest], [lowest, highest], color=colours.muted, linewidth=1)
    for number, target in enumerate(view.samples.targets):
        for rows, label, fill in _groups(view):
            x, y = view.samples.target_values[rows, number], answers[rows, number]
            style = _markers(colours.series[number % 3], fill)
            axes.plot(x, y, label=f"{label}: {target}", **style)
    style_axes(axes, "in the table", PLAIN, colours)
    axes.set_ylabel("prediction of the network", color=colours.muted)
    axes.legend(labelcolor=colours.muted, **LEGEND)


def _draw_sizes(view: TableView, axes: Axes, colours: Colours) -> None:
    measure = view.sizes[0]["measure"]
    parameters = [found["parameters"] for found in view.sizes]
    reached = [found[measure] for found in view.sizes]
    label, text = MEASURES[measure]
    style: dict[str, Any] = {"linewidth": 2.2, "markersize": 8, "color": colours.series[0]}
    axes.plot(parameters, reached, "o-", markeredgecolor=colours.background, label=label, **style)
    if measure == "accuracy":
        axes.axhline(0.5, color=colours.muted, linewidth=1.2, linestyle="--", label="guessing")
    axes.set_xscale("log")
    style_axes(axes, "parameters of the network", text, colours)
    axes.set_xticks(parameters)
    axes.legend(labelcolor=colours.muted, **LEGEND)


def _groups(view: TableView) -> list[tuple[np.ndarray, str, bool]]:
    """Return groups of rows with their label, and whether their markers are filled."""
    trained_on = view.shown[~view.held_out[view.shown]]
    held_out = view.shown[view.held_out[view.shown]]
    groups = [(trained_on, "trained on", True)]
    return [*groups, (held_out, "held out", False)] if len(held_out) else groups


def _markers(colour: str, is_filled: bool) -> dict[str, Any]:
    """Return the style of round markers, which are filled or hollow."""
    style = {"color": colour, "markerfacecolor": colour if is_filled else "none"}
    return {"marker": "o", "linestyle": "none", "markersize": 4.2, "alpha": 0.7, **style}


def _side(view: TableView, middle: float, upper: bool) -> str:
    target = view.samples.targets[0]
    if view.samples.are_classes():
        return f"{target} {int(upper)}"
    return f"{target} {'>' if upper else '≤'} {middle:.3g}"


def _range(values: np.ndarray, margin: float) -> tuple[float, float]:
    lowest, highest = float(values.min()), float(values.max())
    beyond = margin * ((highest - lowest) or 1)
    return lowest - beyond, highest + beyond
