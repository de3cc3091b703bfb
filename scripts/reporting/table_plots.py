"""Plots of the answers of a table's network: a curve, a surface, or answers over targets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.ticker import MaxNLocator

from entry.table_network import read_own
from neuralfield.system.input_files import read_json
from neuralfield.tasks.table.samples import Samples, read_columns
from neuralfield.tasks.table.table_model import TableModel
from reporting.colours import PAPER, Colours
from reporting.plots import Draw, style_axes
from reporting.ticks import percent, plain

SURFACE_POINTS = 160
"""Number of points along each side of a surface."""

CURVE_POINTS = 600
MOST_POINTS = 4000
"""Maximum number of rows that are plotted; more would overlap, and make the page large."""

SURFACE_MARGIN, CURVE_MARGIN = 0.12, 0.02
"""Margins of the plot around the rows, as fractions of their range."""

MEASURES = {"accuracy": ("share of correct predictions", percent), "rmse": ("error (rmse)", plain)}
"""Each measure in words, and the function that formats its values."""

MOST_OPAQUE = 0.62
LEGEND: dict[str, Any] = {"frameon": False, "handlelength": 1.4, "borderaxespad": 0.2}


def surface_colours(shares: np.ndarray) -> np.ndarray:
    """Return RGBA colours, shape (h, w, 4): one at 0, transparent at 1/2, and another one at 1.

    An image inside a plot cannot use the colours of the page's theme, and has to suit any
    background.
    """
    ends = np.array([to_rgb(PAPER.second), to_rgb(PAPER.first)])
    opacity = MOST_OPAQUE * np.abs(2 * shares - 1)
    return np.concatenate([ends[(shares >= 0.5).astype(int)], opacity[..., None]], axis=-1)


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
    name: str,
    settings: Mapping[str, Any],
    training: Mapping[str, Any],
) -> TableView:
    """Read the contents of a plot.

    For the network see `read_own`. `truth` has the names of columns with the targets without noise.
    `sizes` are the metrics files of the networks of all sizes, if there are several; files of a
    table other than `name` are refused.
    """
    network, task = read_own(table, model, settings, training)

    def own(path: Path) -> dict[str, str]:
        folder = path.parent
        is_further = folder.parent.name == "sizes"
        return {"table": f"{name}/sizes/{folder.name}" if is_further else name}

    keys = ("parameters", "measure", "rmse", "accuracy", "bits_per_parameter")
    return TableView(
        network,
        task.samples,
        task.held_out,
        read_columns(table, truth) if truth else None,
        sorted(
            (read_json(path, keys, own(path)) for path in sizes),
            key=lambda found: found["parameters"],
        ),
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
    tones = (colours.first, colours.second, colours.third)
    for number, target in enumerate(view.samples.targets):
        tone, suffix = tones[number % 3], f": {target}" if named else ""
        points = colours.muted if not named else tone
        for rows, label, fill in _groups(view):
            y = view.samples.target_values[rows, number]
            style: dict[str, Any] = {"markersize": 4.2, "alpha": 0.7, "label": label + suffix}
            face = points if fill else "none"
            axes.plot(values[rows], y, "o", color=points, markerfacecolor=face, **style)
        if view.truth is not None:
            truth = view.truth[order, number]
            axes.plot(
                values[order], truth, "--", color=colours.second, label=f"without noise{suffix}"
            )
        axes.plot(x, answers[:, number], color=tone, linewidth=2.2, label=f"the network{suffix}")
    style_axes(axes, view.samples.inputs[0], plain, colours)
    axes.legend(labelcolor=colours.muted, **LEGEND)


def _draw_surface(view: TableView, axes: Axes, colours: Colours) -> None:
    values, targets = view.samples.input_values, view.samples.target_values[:, 0]
    sides = [np.linspace(*_range(column, SURFACE_MARGIN), SURFACE_POINTS) for column in values.T]
    x, y = np.meshgrid(*sides)
    answers = view.model.predict(np.stack([x.ravel(), y.ravel()], axis=1)).reshape(x.shape)
    is_share = view.model.settings.output == "sigmoid"
    lowest, highest = (0.0, 1.0) if is_share else (targets.min(), targets.max())
    shares = np.clip((answers - lowest) / ((highest - lowest) or 1), 0, 1)
    corners = (sides[0][0], sides[0][-1], sides[1][0], sides[1][-1])
    axes.imshow(surface_colours(shares), extent=corners, origin="lower", aspect="auto")
    middle = (lowest + highest) / 2
    if answers.min() < middle < answers.max():
        axes.contour(x, y, answers, levels=[middle], colors=colours.muted, linewidths=1.6)
    groups = _groups(view)
    for rows, label, fill in groups:
        named = f"{label}: " if len(groups) > 1 else " "  # Matplotlib hides labels with a leading _
        for upper in (False, True):
            kept = rows[(targets[rows] > middle) == upper]
            tone = colours.first if upper else colours.second
            axes.plot(
                values[kept, 0],
                values[kept, 1],
                "o",
                color=tone,
                markerfacecolor=tone if fill else "none",
                markeredgecolor=colours.gpu if fill else tone,
                markeredgewidth=0.8,
                markersize=6 if len(values) > 50 else 12,
                label=f"{named}{_side(view, middle, upper)}",
            )
    style_axes(axes, view.samples.inputs[0], plain, colours)
    axes.set_ylabel(view.samples.inputs[1], color=colours.muted, labelpad=10)
    axes.grid(visible=False)
    axes.margins(0)
    axes.legend(
        labelcolor=colours.muted,
        loc="lower center",
        bbox_to_anchor=(0.5, 1),
        ncols=2,
        columnspacing=4,
        **LEGEND,
    )


def _draw_against(view: TableView, axes: Axes, colours: Colours) -> None:
    answers = view.model.predict(view.samples.input_values)
    tones = (colours.first, colours.second, colours.third)
    lowest, highest = view.samples.target_values.min(), view.samples.target_values.max()
    axes.plot([lowest, highest], [lowest, highest], color=colours.muted, linewidth=1)
    for number, target in enumerate(view.samples.targets):
        tone = tones[number % 3]
        for rows, label, fill in _groups(view):
            axes.plot(
                view.samples.target_values[rows, number],
                answers[rows, number],
                "o",
                color=tone,
                markerfacecolor=tone if fill else "none",
                markersize=4.2,
                alpha=0.7,
                label=f"{label}: {target}",
            )
    style_axes(axes, "in the table", plain, colours)
    axes.set_ylabel("prediction of the network", color=colours.muted)
    axes.legend(labelcolor=colours.muted, **LEGEND)


def _draw_sizes(view: TableView, axes: Axes, colours: Colours) -> None:
    measure = view.sizes[0]["measure"]
    parameters = [found["parameters"] for found in view.sizes]
    reached = [found[measure] for found in view.sizes]
    label, text = MEASURES[measure]
    style: dict[str, Any] = {"linewidth": 2.2, "markersize": 8, "markeredgecolor": colours.gpu}
    axes.plot(parameters, reached, "o-", color=colours.first, label=label, **style)
    if measure == "accuracy":
        axes.axhline(0.5, color=colours.muted, linewidth=1.2, linestyle="--", label="guessing")
    axes.set_xscale("log")
    axes.yaxis.set_major_locator(MaxNLocator(6))
    style_axes(axes, "parameters of the network", text, colours)
    axes.set_xticks(parameters)
    axes.legend(labelcolor=colours.muted, **LEGEND)


def _groups(view: TableView) -> list[tuple[np.ndarray, str, bool]]:
    """Return groups of rows with their label, and whether their markers are filled."""
    trained_on = view.shown[~view.held_out[view.shown]]
    held_out = view.shown[view.held_out[view.shown]]
    groups = [(trained_on, "trained on", True)]
    return [*groups, (held_out, "held out", False)] if len(held_out) else groups


def _side(view: TableView, middle: float, upper: bool) -> str:
    target = view.samples.targets[0]
    if view.samples.are_classes():
        return f"{target} {int(upper)}"
    return f"{target} {'>' if upper else '≤'} {middle:.3g}"


def _range(values: np.ndarray, margin: float) -> tuple[float, float]:
    lowest, highest = float(values.min()), float(values.max())
    beyond = margin * ((highest - lowest) or 1)
    return lowest - beyond, highest + beyond
