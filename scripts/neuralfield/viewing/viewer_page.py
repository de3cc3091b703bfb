"""The viewer: an HTML file that evaluates a network on the GPU of its reader."""

import base64
import io
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from neuralfield.engines.kernel_plan import NotCovered
from neuralfield.images.tiling import Tile
from neuralfield.rendering.levels import as_picture
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import Mosaic, Trained, load_trained_snapshot
from neuralfield.training.history import History, nearest_measured
from neuralfield.viewing.description import describe, first_model
from neuralfield.viewing.stored_weights import Arrays, Learning, most_snapshots, store
from neuralfield.viewing.template import TEMPLATES, load_template, words_of

MARGINS_PX = 190
"""Height of the bars of the page above and below the image, in pixels."""

PREVIEW_PX = 640
PREVIEW_QUALITY = 80
"""WebP quality of the preview, which is shown until the network is evaluated."""

MOST_IMAGE_PX = 2048
MOST_PNG_BYTES = 250_000
PAGE_BYTES = 960_000
"""Target size of a page in bytes; it is exceeded only if the finished network needs more."""

FIXED_BYTES = 111_000
"""Approximate size of a page without weights and images, in bytes."""

MOST_CORRECTIONS = 4_000_000
"""Maximum number of values of a residual; a larger one is omitted, because the page would be too
large to open."""


def viewer_page(
    trained: Trained,
    training_image: np.ndarray,
    preview: np.ndarray,
    *,
    image: str,
    field: str,
    snapshots: Sequence[tuple[int, Path]] = (),
    history: History | None = None,
    final_db: float | None = None,
) -> str:
    """Return a self-contained HTML page that needs no internet.

    The network is compared with `training_image`; the render `preview` is shown until the network
    is evaluated, or instead of it; both are values in [0, 1]. `snapshots` are steps and paths: the
    page contains as many of them as its size allows, labelled with the PSNR from `history`, and
    then the finished network, labelled with `final_db`. Raises `CheckpointError` if a snapshot is
    damaged, or of another training.
    """
    preview_bytes = _as_webp(as_picture(preview), PREVIEW_PX)
    image_bytes = _embedded(as_picture(training_image))
    budget_bytes = (PAGE_BYTES - FIXED_BYTES) * 3 // 4 - len(preview_bytes) - len(image_bytes)
    found = first_model(trained).residual
    is_small = found is not None and found.size <= MOST_CORRECTIONS
    residual = found if is_small and isinstance(trained, Model) else None
    uncorrected = ", without the correction of its renders" if residual is not found else ""
    network, layout, weights, refusal = None, None, b"", None
    labels = [""]
    try:
        network = describe(trained)
        last = trained.metadata.get("step") or 0
        earlier = [(step, path) for step, path in snapshots if step < last]
        shown = _chosen(earlier, trained, budget_bytes)
        layout, weights = store(*_networks(trained, shown), len(shown), budget_bytes, residual)
        labels = _labels([*(step for step, _ in shown), last], history, final_db)
    except NotCovered as error:
        refusal = str(error)
    page: Mapping[str, Any] = {
        "network": network,
        "refusal": refusal,
        "weights": layout,
        "snapshots": [{"label": label} for label in labels],
        "image": base64.b64encode(image_bytes).decode() if network else "",
        "margins": MARGINS_PX,
        "file": f"{image}_{field}",
    }
    size = f"{trained.width:,} × {trained.height:,} pixels"
    return load_template(TEMPLATES / "view.html.j2").render(
        title=words_of(image),
        field=field,
        facts=f"{trained.parameter_count:,} parameters, trained on {size}{uncorrected}",
        preview=f"data:image/webp;base64,{base64.b64encode(preview_bytes).decode()}",
        page=page,
        weights=base64.b64encode(weights).decode(),
    )


def _chosen(
    found: list[tuple[int, Path]], trained: Trained, budget_bytes: int
) -> list[tuple[int, Path]]:
    """Select as many evenly spaced snapshots as a budget allows."""
    count = min(most_snapshots(trained.parameter_count, budget_bytes), len(found))
    return [found[i] for i in np.linspace(0, len(found) - 1, count).astype(int)]


def _networks(
    trained: Trained, snapshots: Sequence[tuple[int, Path]]
) -> tuple[list[Model], list[Learning]]:
    """Return the finished networks, one or one per tile, and functions that read snapshots."""

    @cache
    def arrays(tile: Tile | None, step: int, path: Path) -> Arrays:
        snapshot = load_trained_snapshot(path, step, trained)
        if isinstance(snapshot, Mosaic):
            assert tile is not None
            snapshot = snapshot.load(tile)
        return snapshot.arrays

    def learning(tile: Tile | None) -> Learning:
        return lambda: (arrays(tile, step, path) for step, path in snapshots)

    if isinstance(trained, Model):
        return [trained], [learning(None)]
    tiles = list(trained.tiling)
    return [trained.load(tile) for tile in tiles], [learning(tile) for tile in tiles]


def _labels(steps: Sequence[int], history: History | None, final_db: float | None) -> list[str]:
    """Return labels for the slider: steps and PSNR; all PSNR but the last are estimates."""
    if not history:
        return [""] * len(steps)
    measured = [nearest_measured(history, step) for step in steps]
    if final_db is not None:
        measured[-1] = final_db
    return [f"step {step:,} · {db:.1f} dB" for step, db in zip(steps, measured, strict=True)]


def _embedded(image: Image.Image) -> bytes:
    """Encode the training image as PNG if that is small enough, otherwise as WebP."""
    if max(image.size) <= MOST_IMAGE_PX:
        content = _encoded(image, format="PNG", optimize=True)
        if len(content) <= MOST_PNG_BYTES:
            return content
    return _as_webp(image, MOST_IMAGE_PX)


def _as_webp(image: Image.Image, longer_px: int) -> bytes:
    """Encode an image, reduced to a longer side, as WebP; lossless if that is smaller."""
    image = image.copy()
    image.thumbnail((longer_px, longer_px), Image.Resampling.LANCZOS)
    kinds = ({"quality": PREVIEW_QUALITY}, {"lossless": True})
    return min((_encoded(image, format="WebP", method=4, **kind) for kind in kinds), key=len)


def _encoded(image: Image.Image, **options: Any) -> bytes:
    content = io.BytesIO()
    image.save(content, **options)
    return content.getvalue()
