"""The viewer of a field: an HTML page that evaluates its network."""

import html
from collections.abc import Callable
from pathlib import Path

import numpy as np

from neuralfield.fields import describe_field
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.tasks.image.image_model import Model
from neuralfield.training.history import History
from neuralfield.viewing.viewer_page import PREVIEW_PX, viewer_page

MOST_SHOWN_PARAMETERS = 500_000
"""Maximum number of parameters of a network for which notebooks show the viewer.

For a larger network they show a render, because the viewer would add megabytes to the notebook.
"""


def html_page(
    model: Model,
    render: Callable[[int], np.ndarray],
    truth: np.ndarray | None,
    title: str,
    history: History,
    checkpoints: Path | None = None,
) -> str:
    """Return the page, with the snapshots of the training if there are any.

    `render` takes the longer side in pixels; `truth` is the training image, if it is known.
    """
    longer = max(model.width, model.height)
    return viewer_page(
        model,
        render(longer) if truth is None else truth,
        render(min(PREVIEW_PX, 4 * longer)),
        image=title,
        field=describe_field(model.settings)["type"],
        snapshots=list_snapshots(checkpoints) if checkpoints else (),
        history=history,
    )


def notebook_html(
    model: Model, render: Callable[[int], np.ndarray], truth: np.ndarray | None, history: History
) -> str | None:
    """Return the page in an iframe, without snapshots; None if the network is too large."""
    if model.parameter_count > MOST_SHOWN_PARAMETERS:
        return None
    height = min(720, 190 + round(640 * model.height / max(model.width, model.height)))
    page = html.escape(html_page(model, render, truth, "image", history))
    return f'<iframe srcdoc="{page}" width="100%" height="{height}" style="border: 0"></iframe>'
