"""The image that ``image=`` names: its results folder, its training size, and presets for it."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from config.named_files import find_file, missing_file
from config.sources import BESIDE_IMAGE, Sources, mapping
from config.wording import as_written
from neuralfield.images.image import target_size, usual_size_px
from neuralfield.images.image_file import image_size
from neuralfield.system.errors import ConfigError, InputError

TAKEN_NAMES = ("tables", "classifiers")
"""Folders in results/ that are not the folder of an image."""

_PRESETS = (
    "{path}: preset=line_art for a drawing and preset=quality for a photograph are better than the"
    " default networks, and take some minutes without a GPU; logs/{name}/resize.log says which"
    " suits it. preset=small makes a small file of it."
)


def slug(text: str) -> str:
    """Return a short plain name for a folder: ``'Mein Löwe (2)'`` becomes ``'mein-lowe-2'``."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_]+", "-", plain).strip("-_").lower()[:64] or "picture"


def adopt_own_image(
    written: dict[str, Any], sources: Sources, has_preset: bool, notes: list[str]
) -> Iterator[ConfigError]:
    """Replace the images listed under ``images`` by the image given by ``image``, in place.

    Messages about automatic choices are appended to `notes`.
    """
    path = written.get("image")
    if path is None:
        for key in (key for key in (*BESIDE_IMAGE, "name") if key in written):
            found = f"{as_written(written.pop(key))} without an image"
            expected = "the setting together with image="
            remedy = "add image=photo.jpg, or set it for an image under `images`"
            yield ConfigError(sources.where((key,)), found, expected, remedy)
        return
    if not isinstance(path, str) or not path:
        return
    image: dict[str, Any] = {"path": path}
    image |= {key: written.pop(key) for key in BESIDE_IMAGE if key in written}
    name = slug(Path(path).stem)
    name = str(written.pop("name", f"{name}-picture" if name in TAKEN_NAMES else name))
    shape = None
    where = sources.where(("image",))
    yield from (missing := list(missing_file(path, where, "an image")))
    try:
        if not missing and (file := find_file(path)):
            shape = image_size(file)
            require_same_source(name, file)
    except ConfigError as error:
        yield error
    except InputError as error:
        yield ConfigError(where, f"{error.where} {error.found}", error.expected, error.remedy)
    usual = usual_size_px(*shape) if shape and not {"size", "tiles"} & set(image) else None
    if usual is not None:
        image["size"] = usual
    written["images"] = {name: image}
    del written["image"]
    if shape:
        notes.append(_described(path, shape, image))
        if not has_preset:
            notes.append(_PRESETS.format(path=path, name=name))
    for sweep in mapping(written.get("sweeps")).values():
        _forget_images(sweep)


def require_same_source(name: str, path: Path) -> None:
    """Refuse to use results/{name} if it has the results of another image file that still exists.

    The log of the earlier job names that file.
    """
    if not Path(f"results/{name}/resized.png").exists():
        return
    try:
        log = Path(f"logs/{name}/resize.log").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return
    named = re.search(r"^[\d:]+ (.+): trained (?:as|with) ", log, re.MULTILINE)
    if named and Path(named[1]).exists() and not path.samefile(named[1]):
        own = slug(path.name.replace(".", "-"))
        found, expected = f"contains the results of {named[1]}", f"a folder of its own for {path}"
        remedy = f"add name={own} to the command, or remove results/{name}"
        raise ConfigError(f"results/{name}", found, expected, remedy)


def _described(path: str, shape: tuple[int, int], image: Mapping[str, Any]) -> str:
    """Return a message about the size that an image is trained at."""
    line, size = f"{path}: {shape[0]} x {shape[1]} pixels", image.get("size")
    if "tiles" in image:
        return f"{line}, trained in tiles."
    if size in (None, max(shape)):
        return f"{line}, trained at that size; size=N chooses another longer side."
    if not isinstance(size, int) or size < 1:  # invalid sizes are refused later
        return f"{line}, trained at size {as_written(size)}."
    sides = target_size(shape, size)
    if size > max(shape):
        return (
            f"{line}, enlarged to {sides[0]} x {sides[1]} for training, which takes longer and adds"
            f" no detail; size={max(shape)} trains at the original size, and renders can still be"
            " larger."
        )
    return (
        f"{line}, reduced to {sides[0]} x {sides[1]} for training; size=N chooses another"
        " longer side: more pixels keep more detail, and take longer."
    )


def _forget_images(sweep: Any) -> None:
    """Remove the names of images from a sweep, so that it covers all images."""
    if not isinstance(sweep, dict):
        return
    sweep.pop("images", None)
    for key in ("exclude", "include"):
        if isinstance(sweep.get(key), list):
            sweep[key] = [entry for entry in sweep[key] if "image" not in entry]
