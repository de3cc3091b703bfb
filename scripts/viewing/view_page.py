"""Filling the template of a page that evaluates a network."""

import base64
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from PIL import Image

from neuralfield.system.files import write_atomically
from reporting.page import load_template, words_of
from viewing.stored_weights import StoredWeights

MARGINS_PX = 190
"""Height of the page's bars, which the image is fitted between."""


def write_view(
    path: Path,
    template: Path,
    *,
    image: str,
    field: str,
    facts: str,
    preview: bytes,
    training_image: bytes,
    network: Mapping[str, Any] | None,
    refusal: str | None,
    weights: StoredWeights | None,
    snapshots: list[dict[str, Any]],
) -> None:
    """Write one HTML file that needs nothing beside it and no internet.

    Parameters
    ----------
    template : Path
        Files that it includes lie beside it.
    image, field : str
        Names; whatever is in them is escaped.
    facts : str
        A line about the network.
    preview, training_image : bytes
        Image files.
    network : mapping or None
        See `viewing.description.describe`; None if the page shows the preview alone.
    refusal : str or None
        Why it does so.
    weights : StoredWeights or None
    snapshots : list of dict
        The label of each network of the slider; the last one is the finished network's.
    """
    page = {
        "network": network,
        "refusal": refusal,
        "weights": weights.layout if weights else None,
        "snapshots": snapshots,
        "image": base64.b64encode(training_image).decode() if network else "",
        "margins": MARGINS_PX,
        "file": f"{image}_{field}",
    }
    rendered = load_template(template).render(
        title=words_of(image),
        field=field,
        facts=facts,
        preview=f"data:image/webp;base64,{base64.b64encode(preview).decode()}",
        page=page,
        weights=base64.b64encode(weights.content).decode() if weights else "",
    )
    write_atomically(path, rendered.encode())


def as_webp(image: Image.Image, longer_px: int, quality: int) -> bytes:
    """Encode an image, reduced to a longer side, as WebP: without loss where that is smaller."""
    image = image.copy()
    image.thumbnail((longer_px, longer_px), Image.Resampling.LANCZOS)
    found = []
    for options in ({"quality": quality}, {"lossless": True}):
        content = io.BytesIO()
        image.save(content, format="WebP", method=4, **options)
        found.append(content.getvalue())
    return min(found, key=len)


def as_png(image: Image.Image) -> bytes:
    """Encode an image without loss."""
    content = io.BytesIO()
    image.save(content, format="PNG", optimize=True)
    return content.getvalue()
