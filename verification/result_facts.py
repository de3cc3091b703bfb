"""The facts that the manifest has of each result: a checksum, and numbers if bytes differ."""

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
"""The facts of an image are its mean values in 4 x 4 cells."""

OF_THIS_RUN_ALONE = {"report.html", "view.html", "summary.csv", "training.json", "manifest.json"}
"""Results that hold times or the machine's name; their numbers are compared in metrics.json."""

MEASURED = (
    *("width", "height", "psnr_db", "ssim", "wrong_pixels", "upscale_psnr_db"),
    *("upscale_lanczos_psnr_db", "upscale_bicubic_psnr_db", "parameters", "steps"),
)
"""The numbers of metrics.json that do not depend on the machine."""

Facts = dict[str, Any]
"""``sha256``, and ``numbers`` by name."""


def facts_of_results(results: Path) -> dict[str, Facts]:
    """Return checksum and numbers of every result, by its name in the folder.

    Checkpoints count as one result, to keep the manifest short. Lists of the files of tiles have
    digests of files with times, and are left out.
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
    """Return checksum and numbers of one file, without the seconds in it."""
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
    """Return means over cells, all channels together, and the spread of the values: from 0 to 1."""
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
"""The reader of each kind of file that has numbers; other files have to have the same bytes."""


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
