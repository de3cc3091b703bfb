"""Plots of a classifier's mistakes and of its learning curve."""

import math
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

from entry.records import read_own_metrics
from neuralfield.system.provenance import made_by_the_workflow, require_recorded
from neuralfield.tasks.classifier.idx import read_idx
from neuralfield.tasks.table.samples import read_columns
from neuralfield.tasks.task import ACCURACY
from neuralfield.training.history import read_history
from reporting.plots import PERCENT, PLAIN, Colours, Curve, Draw, learning_curves, style_axes

MOST_MISTAKES = 12
"""Maximum number of mistakes that are shown."""

MOST_CLASSES_COUNTED = 20
"""Maximum number of classes of a confusion matrix with numbers; more would not be legible."""

FAINTEST, FULLEST = 0.18, 0.55
"""Minimum and maximum opacity of squares; numbers in the squares have to be legible."""

_ROW = 1.3
"""Height of an image and the caption below it, as a multiple of the width of a column."""


def plots_of(images: Path, metrics: Path) -> dict[str, Draw]:
    """Return the plots of a classifier by the names of their files.

    `images` is the IDX file of the held-out images. The predictions and the history are read from
    the folder of `metrics`; files of another training are refused.
    """
    numbers = read_own_metrics(metrics, ["confusion"])
    predictions, history = (metrics.with_name(name) for name in ("predictions.csv", "history.csv"))
    for path in (predictions, history):
        require_recorded(path, numbers, metrics)
    columns = ["held_out", "picture", "label", "predicted", "probability"]
    with made_by_the_workflow(predictions):
        answers = read_columns(predictions, columns)
    wrong = answers[(answers[:, 0] == 1) & (answers[:, 2] != answers[:, 3])]
    shown = read_idx(images, 3)
    mistakes = [
        (shown[int(number)], int(label), int(predicted))
        for _, number, label, predicted, _ in wrong[np.argsort(-wrong[:, 4])][:MOST_MISTAKES]
    ]
    table = read_history(history, ACCURACY.name)
    curve = Curve(0, table["step"], table[ACCURACY.name])
    return {
        "confusion": partial(_draw_confusion, np.array(numbers["confusion"], dtype=np.int64)),
        "wrong": partial(_draw_mistakes, mistakes),
        "curve": learning_curves([curve], "steps", PERCENT),
    }


def _draw_confusion(counts: np.ndarray, axes: Axes, colours: Colours) -> None:
    """Plot a square for each pair of classes, more opaque the more often it was predicted.

    A row of `counts` is the true class of held-out images, and a column the predicted class.
    """
    classes = range(len(counts))
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    wrong, right = (to_rgb(colour) for colour in colours.series[:2])
    squares = np.zeros((*counts.shape, 4))
    squares[..., :3] = np.where(np.eye(len(counts), dtype=bool)[..., None], right, wrong)
    # the root and the minimum opacity make single mistakes visible
    squares[..., 3] = np.where(counts, FAINTEST + (FULLEST - FAINTEST) * shares**0.5, 0)
    axes.pcolormesh(classes, classes, squares, edgecolors=colours.background, linewidth=1)
    if len(counts) <= MOST_CLASSES_COUNTED:
        words = {"ha": "center", "va": "center_baseline", "fontsize": 11, "color": colours.ink}
        for label, predicted in np.argwhere(counts):
            axes.text(predicted, label, str(counts[label, predicted]), **words)
    style_axes(axes, "predicted", PLAIN, colours)
    axes.set_ylabel("shown", color=colours.muted)
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.set(xticks=(ticks := classes[:: -(-len(counts) // MOST_CLASSES_COUNTED)]), yticks=ticks)
    axes.margins(0)
    axes.invert_yaxis()
    axes.set_aspect("equal")


def _draw_mistakes(shown: list[tuple[np.ndarray, int, int]], axes: Axes, colours: Colours) -> None:
    """Show images that were predicted wrongly, given with the true and the predicted class."""
    columns = max(1, round(math.sqrt(2 * len(shown))))  # suits the plot's aspect ratio)
    for number, (image, label, predicted) in enumerate(shown):
        row, column = divmod(number, columns)
        height, width = (0.46 * side / max(image.shape) for side in image.shape)
        bottom = _ROW * row + 2 * height
        extent = (column - width, column + width, bottom, bottom - 2 * height)
        axes.imshow(image, cmap="gray", vmin=0, vmax=255, interpolation="none", extent=extent)
        words = f"{predicted}, is {label}"
        axes.text(column, bottom + 0.04, words, color=colours.ink, ha="center", va="top")
    if not shown:
        words = "Every image was classified correctly."
        axes.text(0, 0.5, words, color=colours.muted, ha="center", va="center")
    axes.set_axis_off()
    axes.set_xlim(-0.5, columns - 0.5)
    axes.set_ylim(_ROW * max(1, -(-len(shown) // columns)), 0)
    axes.set_aspect("equal")
