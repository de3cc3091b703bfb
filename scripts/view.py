"""Write the page that evaluates a network on the GPU of whoever opens it."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from entry.image_network import ExpectedNetwork
from entry.job import run_job
from entry.records import read_own_metrics, read_record
from neuralfield.images import read_made_image
from neuralfield.images.image import ImageData
from neuralfield.images.tiling import Tile
from neuralfield.system.checkpoint import list_snapshots
from neuralfield.system.provenance import require_recorded
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import Mosaic, Trained, load_trained, load_trained_snapshot
from neuralfield.training.history import nearest_measured, read_history
from viewing.description import NotEvaluatedError, describe, first_model
from viewing.stored_weights import Arrays, Learning, StoredWeights, most_snapshots, store
from viewing.view_page import as_png, as_webp, write_view

PREVIEW_PX = 640
PREVIEW_QUALITY = 80
"""WebP's quality of the preview, which is shown until the network is."""

MOST_IMAGE_PX = 2048
MOST_PNG_BYTES = 250_000
PAGE_BYTES = 960_000
"""A page has this size, unless the finished network alone takes more."""

FIXED_BYTES = 80_000
"""A page takes about so much beside its weights and images."""

MOST_CORRECTIONS = 4_000_000
"""A residual of more numbers is left out: it would make the page too large to be opened."""


def main(
    model: Path,
    resized: Path,
    redraw: Path,
    template: Path,
    view: Path,
    *,
    image: str,
    field: str,
    checkpoints: Path | None = None,
    history: Path | None = None,
    record: Path | None = None,
    metrics: Path | None = None,
    expected: ExpectedNetwork | None = None,
) -> None:
    """Write one HTML file that needs nothing beside it and no internet.

    Parameters
    ----------
    model : Path
        A model, or a mosaic.
    resized : Path
        The training image, to compare with; a reduced one for a mosaic.
    redraw : Path
        A render, shown until the network is, or instead of it.
    template : Path
        ``view.html.j2``; what it includes lies beside it.
    image, field : str
        Names.
    checkpoints, history, record : Path, optional
        Snapshots of the training, its course and ``training.json``; an imported network has none.
    metrics : Path, optional
        ``metrics.json``, whose ``psnr_db`` labels the finished network.
    expected : ExpectedNetwork, optional
        The network that the settings describe: another one is refused.
    """
    trained = expected.load(model) if expected else load_trained(model)
    preview = as_webp(_as_image(read_made_image(redraw)), PREVIEW_PX, PREVIEW_QUALITY)
    training_image = _embedded(read_made_image(resized))
    network, weights, refusal = None, None, None
    found = first_model(trained).residual
    has_room = found is not None and found.size <= MOST_CORRECTIONS
    residual = found if has_room and isinstance(trained, Model) else None
    labels: list[dict[str, Any]] = [{"label": ""}]
    try:
        network = describe(trained)
        budget_bytes = (PAGE_BYTES - FIXED_BYTES) * 3 // 4 - len(preview) - len(training_image)
        snapshots = _snapshots(checkpoints, trained, budget_bytes)
        weights = _stored(trained, snapshots, budget_bytes, residual)
        steps = [*(step for step, _ in snapshots), trained.metadata.get("step")]
        own = expected.with_steps_of(trained) if expected else None
        if own and history and record:
            require_recorded(history, read_record(record, model, own.training), record)
        final_db = None
        if metrics:
            numbers = read_own_metrics(metrics, ("psnr_db",))
            require_recorded(model, numbers, metrics, wrong=metrics)
            final_db = numbers["psnr_db"]
        labels = _labels(steps, history, own.steps if own else None, final_db)
    except NotEvaluatedError as error:
        refusal = str(error)
    size = f"{trained.width:,} × {trained.height:,} pixels"
    uncorrected = ", without the correction of its renders" if residual is not found else ""
    write_view(
        view,
        template,
        image=image,
        field=field,
        facts=f"{trained.parameter_count:,} numbers, trained on {size}{uncorrected}",
        preview=preview,
        training_image=training_image,
        network=network,
        refusal=refusal,
        weights=weights,
        snapshots=labels,
    )


def _as_image(image: ImageData) -> Image.Image:
    levels = np.rint(image.values() * 255).astype(np.uint8)
    return Image.fromarray(levels[..., 0] if levels.shape[2] == 1 else levels)


def _embedded(image: ImageData) -> bytes:
    """Encode the training image: pixel by pixel, if that is not large."""
    whole = _as_image(image)
    if max(whole.size) <= MOST_IMAGE_PX:
        exact = as_png(whole)
        if len(exact) <= MOST_PNG_BYTES:
            return exact
    return as_webp(whole, MOST_IMAGE_PX, PREVIEW_QUALITY)


def _snapshots(
    checkpoints: Path | None, trained: Trained, budget_bytes: int
) -> list[tuple[int, Path]]:
    """List snapshots from before the finished network: as many as a budget has room for."""
    if checkpoints is None:
        return []
    last = trained.metadata.get("step") or 0
    found = [(step, path) for step, path in list_snapshots(checkpoints) if step < last]
    count = most_snapshots(trained.parameter_count, budget_bytes)
    if count >= len(found):
        return found
    return [found[i] for i in np.linspace(0, len(found) - 1, count).astype(int)]


def _stored(
    trained: Trained,
    snapshots: Sequence[tuple[int, Path]],
    budget_bytes: int,
    residual: np.ndarray | None,
) -> StoredWeights:
    @cache
    def arrays(tile: Tile | None, step: int, path: Path) -> Arrays:
        snapshot = load_trained_snapshot(path, step, trained)
        if isinstance(snapshot, Mosaic):
            assert tile is not None
            snapshot = snapshot.load(tile)
        return snapshot.arrays

    def learning(tile: Tile | None) -> Learning:
        return lambda: (arrays(tile, step, path) for step, path in snapshots)

    tiles: list[Tile | None] = [None]
    models = [first_model(trained)]
    if isinstance(trained, Mosaic):
        tiles = list(trained.tiling)
        models = [trained.load(tile) for tile in trained.tiling]
    own = [learning(tile) for tile in tiles]
    return store(models, own, len(snapshots), budget_bytes, residual)


def _labels(
    steps: Sequence[int | None],
    history: Path | None,
    last: int | None,
    final_db: float | None,
) -> list[dict[str, Any]]:
    """Label each network of the slider by its step and PSNR, estimated but for the finished one."""
    if history is None:
        return [{"label": ""} for _ in steps]
    learned = read_history(history, steps=last)
    measured = [nearest_measured(learned, step or 0) for step in steps]
    if final_db is not None:
        measured[-1] = final_db
    return [
        {"label": f"step {step:,} · {db:.1f} dB"} for step, db in zip(steps, measured, strict=True)
    ]


def _of_the_job(job: Any) -> dict[str, Any]:
    """The network's name, which is a wildcard and no param, and its snapshots, if it has any."""
    others = {
        "field": job.wildcards.field,
        "expected": ExpectedNetwork.of_job(job),
        "redraw": Path(job.input.comparison, "redraw.png"),
    }
    for name in ("checkpoints", "history", "record"):
        others[name] = next(map(Path, job.input[name]), None)
    return others


if __name__ == "__main__":
    run_job(main, _of_the_job)
