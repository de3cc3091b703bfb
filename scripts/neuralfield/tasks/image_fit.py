"""Creation of the task of fitting a network to an image, with settings that depend on the image."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.fields import FieldSettings, field_settings
from neuralfield.images import PixelFile, read_facts, read_pixel_csv, require_image
from neuralfield.images.image_facts import facts_of_tile, kind_in
from neuralfield.images.kind import Kind
from neuralfield.images.tiling import Tile
from neuralfield.system.provenance import made_by_the_workflow
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.training_settings import ImageTraining, of_the_training

_LINE_ART_DETAIL_SHARE = 0.75
"""Value of ``detail_share: auto`` for line art; measured on drawings, see ``docs/edges.md``."""

_RESIDUAL_SCALE, _LINES_RESIDUAL_SCALE = 4, 6
"""Values of ``residual_scale: auto``, for other images and for line art and grey lines; measured,
see ``docs/presets.md``."""

_MOST_STEEPNESS = 1.0
"""Maximum steepness for ``output: auto`` with grey lines and pages of mixed kind; see
``docs/presets.md``."""


def settings_for(
    mode: str, kind: Kind, field: Mapping[str, Any], training: Mapping[str, Any]
) -> tuple[FieldSettings, ImageTraining]:
    """Return the settings of a network and of its training, with those that depend on the image.

    `mode` is the mode of the image before it was reduced.
    """
    own = field_settings(with_output(field, kind, mode, training["loss"]))
    chosen = with_choices_for(kind, of_the_training(training))
    return own, ImageTraining.from_mapping(chosen)


def settings_for_facts(
    facts: Mapping[str, Mapping[str, Any]], field: Mapping[str, Any], training: Mapping[str, Any]
) -> tuple[FieldSettings, ImageTraining]:
    """Return what `settings_for` returns for the image of a ``picture.json``."""
    return settings_for(facts["source"]["mode"], kind_in(facts), field, training)


def read_task(
    pixels: Path, facts: Path, field: Mapping[str, Any], training: Mapping[str, Any]
) -> ImageTask:
    """Read an image's table of pixels, and return the task of fitting it; see `settings_for`."""
    with made_by_the_workflow(pixels):
        values = read_pixel_csv(pixels)
    return _own_task(pixels, values, read_facts(facts), field, training, facts)


def read_tile_task(
    pixels: Path,
    about: Mapping[str, dict[str, Any]],
    tile: Tile,
    field: Mapping[str, Any],
    training: Mapping[str, Any],
) -> ImageTask:
    """Read a tile of an image, and return the task of fitting it.

    `pixels` is a file of `write_pixel_file`, and `about` are the facts about the whole image.
    """
    own = facts_of_tile(about, tile)
    whole = PixelFile(pixels, own["resized"]["mode"], own["resized"]["bit_depth"])
    return _own_task(pixels, whole.window(*tile.edges).values(), own, field, training)


def _own_task(
    pixels: Path,
    values: np.ndarray,
    about: dict[str, dict[str, Any]],
    field: Mapping[str, Any],
    training: Mapping[str, Any],
    facts: Path | None = None,
) -> ImageTask:
    """Return the task for values from a file; raise an error if they do not match the facts."""
    own, settings = settings_for_facts(about, field, training)
    task = ImageTask(values, about["source"]["mode"], own, settings)
    require_image(pixels, task.image, about, facts)
    return task


def with_output(field: Mapping[str, Any], kind: Kind, mode: str, loss: str) -> dict[str, Any]:
    """Return the settings of a field, with ``output: auto`` replaced.

    Line art needs steep edges, and binary cross-entropy needs probabilities, so that both get a
    sigmoid. Grey lines and pages of mixed kind get a less steep sigmoid, because a steep one would
    make grey lines and photographs rough.
    """
    if field.get("output") != "auto":
        return dict(field)
    if mode == "bilevel" or loss == "binary_cross_entropy" or kind == Kind.LINE_ART:
        return {**field, "output": "sigmoid"}
    if kind == Kind.PHOTOGRAPH:
        return {**field, "output": "linear"}
    steepness = min(field.get("steepness", _MOST_STEEPNESS), _MOST_STEEPNESS)
    return {**field, "output": "sigmoid", "steepness": steepness}


def with_choices_for(kind: Kind, training: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a training, with values of ``auto`` chosen by the kind of the image.

    In line art, all detail is at the edges; other images have detail everywhere. The position of
    lines within pixels requires a fine residual; detail in photographs is coarser.
    """
    choices = {
        "detail_share": _LINE_ART_DETAIL_SHARE if kind == Kind.LINE_ART else 0.0,
        "residual_scale": (
            _LINES_RESIDUAL_SCALE if kind in (Kind.LINE_ART, Kind.GREY_LINES) else _RESIDUAL_SCALE
        ),
    }
    return {
        key: choices.get(key, value) if value == "auto" else value
        for key, value in training.items()
    }
