"""The viewer of a field: one page that evaluates its network."""

import html
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from neuralfield.rendering.levels import to_levels
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.viewing.page import PREVIEW_PX, viewer_page

if TYPE_CHECKING:
    from neuralfield.api.image_field import ImageField

MOST_SHOWN_PARAMETERS = 500_000
"""A notebook shows a render of a larger network: its file would grow by megabytes."""


def html_page(field: "ImageField", title: str) -> str:
    """Return the page, with the snapshots of the training if there are any."""
    return _page(field, title, list_snapshots(field.checkpoints) if field.checkpoints else ())


def notebook_html(field: "ImageField") -> str | None:
    """Return the page inside a frame, without snapshots; None for a network that is large."""
    if field.parameter_count > MOST_SHOWN_PARAMETERS:
        return None
    height = min(720, 190 + round(640 * field.height / max(field.width, field.height)))
    page = html.escape(_page(field, "image", ()))
    return f'<iframe srcdoc="{page}" width="100%" height="{height}" style="border: 0"></iframe>'


def _page(field: "ImageField", title: str, snapshots: Any) -> str:
    truth = field.image
    shown = field.render() if truth is None else truth
    return viewer_page(
        field.model,
        _as_image(shown),
        _as_image(field.render(min(PREVIEW_PX, 4 * max(field.width, field.height)))),
        image=title,
        field=field.settings["type"],
        snapshots=snapshots,
        history=field.history,
    )


def _as_image(values: np.ndarray) -> Image.Image:
    levels = to_levels(np.asarray(values), 8)
    return Image.fromarray(levels[..., 0] if levels.ndim == 3 and levels.shape[2] == 1 else levels)
