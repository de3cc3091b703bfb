"""Networks of other runs in the folder of results, which the report shows, too."""

import logging
from collections.abc import Collection
from pathlib import Path

from PIL import Image

from entry.image_network import read_coded
from entry.records import read_own_metrics
from neuralfield.images import read_facts, require_image
from neuralfield.system.checkpoint import load_arrays
from neuralfield.system.errors import InputError, NeuralfieldError
from neuralfield.system.provenance import require_recorded
from neuralfield.training.history import read_history
from reporting.contents import SHOWN, Network

log = logging.getLogger(__name__)

_NUMBERS = (*SHOWN, "upscale_uncorrected_psnr_db", "residual_values")
_TYPES = (int, float, dict, type(None))
_FILES = (
    *("view.html", "pyramid*/index.html", "render_*.png", "crop_*.png", "timelapse.*"),
    *("model.safetensors", "image.nfz", "image.png"),
)


def earlier_networks(results: Path, planned: Collection[Path]) -> list[Network]:
    """Find networks with valid records that belong to the current images, sorted by name.

    `planned` are the folders of this run's networks. Networks of sweeps are left out, because a
    sweep is only shown as a whole.
    """
    found = []
    for metrics in sorted(results.glob("*/*/metrics.json")):
        folder = metrics.parent
        if folder in planned or "+" in folder.name or not (folder / "comparison").is_dir():
            continue
        try:
            found.append(_read_valid(folder))
        except (NeuralfieldError, OSError, ValueError, KeyError, TypeError, SyntaxError) as error:
            log.info("not shown: %s", error)
    return found


def _read_valid(folder: Path) -> Network:
    """Read a network; raise an error if its files do not belong together, or to its image."""
    names = ("metrics.json", "history.csv", "model.safetensors", "image.nfz")
    metrics, history, model, coded = (folder / name for name in names)
    numbers = read_own_metrics(metrics, ("width", "height", *SHOWN))
    if not all(isinstance(numbers.get(key), _TYPES) for key in _NUMBERS):
        raise InputError(str(metrics), "no numbers", "a file written by neuralfield")
    facts_path = folder.parent / "picture.json"
    facts = read_facts(facts_path)
    about = facts["resized"]
    if (numbers["width"], numbers["height"]) != (about["width"], about["height"]):
        raise InputError(str(metrics), "another size", "that of the image as it is now")
    wanted = ("redraw", "source", "lanczos", "bicubic", "back_projection", "two_tone")
    for name in wanted if numbers["upscale_psnr_db"] is not None else wanted[:1]:
        with Image.open(folder / f"comparison/{name}.png") as image:
            image.verify()
    if numbers["steps"] is not None:
        require_recorded(history, numbers, metrics)
        read_history(history)
    kind = None
    if "tiles" in numbers:
        require_recorded(folder / "mosaic.json", numbers, metrics)
    elif coded.exists():
        require_recorded(coded, numbers, metrics)
        read_coded(coded, facts_path)
        kind = "latents"
    else:
        require_recorded(model, numbers, metrics)
        _, description = load_arrays(model)
        require_image(model, description["record"].get("picture"), facts, facts_path)
        kind = description["field"]["type"]
    files = [path for pattern in _FILES for path in sorted(folder.glob(pattern))]
    return Network(folder, numbers, kind, [path.relative_to(folder).as_posix() for path in files])
