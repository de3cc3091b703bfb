"""Plots of a classifier's mistakes and of its learning curve."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle
from matplotlib.ticker import LogLocator, MaxNLocator

from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import made_by_the_workflow, require_recorded
from neuralfield.tasks.classifier.idx import read_idx
from neuralfield.tasks.table.samples import read_columns
from neuralfield.tasks.task import ACCURACY
from neuralfield.training.history import read_history
from reporting.colours import Colours
from reporting.plots import style_axes
from reporting.ticks import percent

MOST_MISTAKES = 12
"""Maximum number of mistakes that are shown."""

MOST_CLASSES_COUNTED = 20
"""Maximum number of classes of a confusion matrix with numbers; more would not be legible."""

FAINTEST, FULLEST = 0.18, 0.55
"""Minimum and maximum opacity of squares; numbers in the squares have to be legible."""
_CAPTION = 0.3
"""Height of the caption below an image, as a fraction of the image's side."""

_ASPECT = 1.7
"""Aspect ratio of the area in which mistakes are shown: width over height."""


@dataclass(frozen=True, eq=False)
class ClassifierView:
    """The contents of the plots of a classifier."""

    confusion: np.ndarray
    """int64, shape (classes, classes): rows are the true classes of held-out images, and columns
    the predicted classes."""
    mistakes: list[tuple[np.ndarray, int, int]]
    """Held-out images (uint8, shape (height, width)) whose class was predicted wrongly, with their
    class and the predicted one; the most certain mistakes first."""
    # float64, shape (n,); columns of the history
    steps: np.ndarray
    accuracy: np.ndarray


def read_view(
    images: Path, metrics: Path, predictions: Path, history: Path, name: str
) -> ClassifierView:
    """Read the contents of the plots; `images` is the IDX file of the held-out images.

    Files of another classifier or training are refused.
    """
    numbers = read_json(metrics, ["confusion"], {"classifier": name})
    for path in (predictions, history):
        require_recorded(path, numbers, metrics)
    columns = ["held_out", "picture", "label", "predicted", "probability"]
    with made_by_the_workflow(predictions):
        answers = read_columns(predictions, columns)
    wrong = answers[(answers[:, 0] == 1) & (answers[:, 2] != answers[:, 3])]
    shown = read_idx(images, 3)
    mistakes = [
        (shown[int(number)], int(label), int(predicted))
        for _, number, label, predicted, _ in wrong[np.argsort(-wrong[:, 4])]
    ]
    counts = np.array(numbers["confusion"], dtype=np.int64)
    table = read_history(history, ACCURACY.name)
    return ClassifierView(counts, mistakes, table["step"], table[ACCURACY.name])


def draw_confusion(view: ClassifierView, axes: Axes, colours: Colours) -> None:
    """Plot a square for each pair of classes, more opaque the more often it was predicted."""
    counts = view.confusion
    classes = len(counts)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    for label, predicted in np.argwhere(counts):
        is_right = label == predicted
        tone = to_rgba(colours.second if is_right else colours.first)[:3]
        # the root and the minimum opacity make single mistakes visible
        opacity = FAINTEST + (FULLEST - FAINTEST) * shares[label, predicted] ** 0.5
        axes.add_patch(
            Rectangle((predicted - 0.47, label - 0.47), 0.94, 0.94, color=tone, alpha=opacity, lw=0)
        )
        if classes <= MOST_CLASSES_COUNTED:
            words = {"ha": "center", "va": "center_baseline", "fontsize": 11}
            axes.text(predicted, label, str(counts[label, predicted]), color=colours.ink, **words)
    style_axes(axes, "predicted", str, colours)
    axes.set_ylabel("shown", color=colours.muted)
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.set_xlim(-0.5, classes - 0.5)
    axes.set_ylim(classes - 0.5, -0.5)
    every = max(1, classes // MOST_CLASSES_COUNTED)
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_ticks(range(0, classes, every), [str(n) for n in range(0, classes, every)])
    axes.set_aspect("equal")


def draw_mistakes(view: ClassifierView, axes: Axes, colours: Colours) -> None:
    """Show images that were predicted wrongly, with the predicted and the true class."""
    shown = view.mistakes[:MOST_MISTAKES]
    columns, rows = _grid(len(shown))
    for number, (image, label, predicted) in enumerate(shown):
        row, column = divmod(number, columns)
        height, width = (0.92 * side / max(image.shape) for side in image.shape)
        left, bottom = column + (1 - width) / 2, row * (1 + _CAPTION) + 0.96
        extent = (left, left + width, bottom, bottom - height)
        style = {"cmap": "gray", "vmin": 0, "vmax": 255, "interpolation": "none"}
        axes.imshow(image, extent=extent, **style)
        words = f"{predicted}, is {label}"
        axes.text(column + 0.5, bottom + 0.04, words, color=colours.ink, ha="center", va="top")
    if not shown:
        words = "Every image was classified correctly."
        axes.text(0.5, 0.5, words, color=colours.muted, ha="center", va="center")
    axes.set_axis_off()
    axes.set_xlim(0, columns)
    axes.set_ylim(rows * (1 + _CAPTION), 0)
    axes.set_aspect("equal")


def _grid(count: int) -> tuple[int, int]:
    """Return the columns and rows of a grid for `count` squares of the largest possible size."""

    def side(columns: int) -> float:
        rows = -(-count // columns)
        return min(_ASPECT / columns, 1 / (rows * (1 + _CAPTION)))

    columns = max(range(1, max(count, 1) + 1), key=side)
    return columns, max(1, -(-count // columns))


def draw_curve(view: ClassifierView, axes: Axes, colours: Colours) -> None:
    """Plot the accuracy on batches over the steps of the training."""
    axes.plot(view.steps, view.accuracy, color=colours.first, linewidth=2.2)
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=6))
    axes.yaxis.set_major_locator(MaxNLocator(6))
    style_axes(axes, "steps", percent, colours)
