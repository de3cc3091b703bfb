"""The facts about each result in the manifest: a checksum, and numbers to compare if it differs."""

import csv
import hashlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import av
import numpy as np
from PIL import Image
from safetensors.numpy import load_file

CELLS = 4
"""Number of cells per side: the facts of an image include its mean values in 4 x 4 cells."""

OF_THIS_RUN_ALONE = {"report.html", "view.html", "summary.csv", "training.json"}
"""Results that contain times or the machine's name, which are left out; their numbers are compared
in metrics.json."""

MEASURED = (
    *("width", "height", "psnr_db", "ssim", "wrong_pixels", "upscale_psnr_db"),
    *("upscale_lanczos_psnr_db", "upscale_bicubic_psnr_db", "parameters", "steps"),
)
"""The numbers of metrics.json that do not depend on the machine."""

Facts = dict[str, Any]
"""``sha256``, and ``numbers`` by name."""


def facts_of_results(results: Path) -> dict[str, Facts]:
    """Return the checksum and the numbers of every result, by its path in the folder.

    A folder of checkpoints counts as one result, to keep the manifest short. The file lists of
    tiles are left out, because they have digests of files that contain times.
    """
    found = {}
    for path in sorted(results.rglob("*")):
        name = path.relative_to(results)
        if path.is_dir() and path.name == "checkpoints":
            found[name.as_posix()] = _of_checkpoints(path)
        hidden = any(part.startswith(".") for part in name.parts)
        if path.is_dir() or hidden or path.parent.name in ("checkpoints", "tiles"):
            continue
        if path.name not in OF_THIS_RUN_ALONE and name.as_posix() != "README.md":
            found[name.as_posix()] = facts_of_file(path)
    return found


def facts_of_file(path: Path) -> Facts:
    """Return the checksum and the numbers of one file, ignoring the seconds in it."""
    if path.name == "metrics.json":
        numbers = {key: json.loads(path.read_text())[key] for key in MEASURED}
        return {"sha256": _sha256(json.dumps(numbers).encode()), "numbers": numbers}
    if path.name == "history.csv":
        return _of_history(path)
    read = READERS.get(path.suffix)
    return {"sha256": _sha256(path.read_bytes()), "numbers": read(path) if read else {}}


def _of_checkpoints(folder: Path) -> Facts:
    digest = hashlib.sha256()
    paths = sorted(folder.glob("step_*.safetensors"))
    for path in paths:
        digest.update(f"{_sha256(path.read_bytes())}  {path.name}\n".encode())
    numbers = {"snapshots": len(paths), "last_step": int(paths[-1].stem.removeprefix("step_"))}
    return {"sha256": digest.hexdigest(), "numbers": numbers}


def _of_history(path: Path) -> Facts:
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    timeless = [{key: value for key, value in row.items() if key != "seconds"} for row in rows]
    last = rows[-1]
    numbers = {
        "rows": len(rows),
        "last_step": int(last["step"]),
        "last_psnr_db": round(float(last["psnr_db"]), 3),
    }
    return {"sha256": _sha256(json.dumps(timeless).encode()), "numbers": numbers}


def _of_network(path: Path) -> dict[str, Any]:
    arrays = load_file(path)
    flat = np.concatenate([array.ravel() for array in arrays.values()])
    shapes = {name: list(array.shape) for name, array in sorted(arrays.items())}
    return {"shapes": shapes, "weights_rms": round(float(np.sqrt(np.mean(flat**2.0))), 5)}


def _of_image(path: Path) -> dict[str, Any]:
    with Image.open(path) as image:
        return {"mode": image.mode, "size": list(image.size)} | _levels(np.asarray(image))


def _of_timelapse(path: Path) -> dict[str, Any]:
    with av.open(str(path)) as timelapse:
        frames = [frame.to_ndarray(format="gray") for frame in timelapse.decode(video=0)]
    height, width = frames[-1].shape
    return {"frames": len(frames), "size": [width, height]} | _levels(frames[-1])


def _levels(pixels: np.ndarray) -> dict[str, Any]:
    """Return means over cells and all channels, and the standard deviation, scaled to [0, 1]."""
    highest = np.iinfo(pixels.dtype).max if pixels.dtype.kind in "ui" else 1
    values = pixels / highest
    cells = [
        round(float(cell.mean()), 4)
        for row in np.array_split(values, CELLS, axis=0)
        for cell in np.array_split(row, CELLS, axis=1)
    ]
    return {"cell_means": cells, "spread": round(float(values.std()), 4)}


READERS: dict[str, Callable[[Path], dict[str, Any]]] = {
    ".safetensors": _of_network,
    ".png": _of_image,
    ".mp4": _of_timelapse,
}
"""Readers of the kinds of files that have numbers; other files have to have the same bytes."""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
