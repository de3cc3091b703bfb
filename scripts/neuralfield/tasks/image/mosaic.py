"""Mosaics: large images that are represented by several models, one for each tile."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuralfield.images.image import ImageShape
from neuralfield.images.tiling import Tile, Tiling
from neuralfield.system.errors import CheckpointError, NeuralfieldError
from neuralfield.system.files import write_json
from neuralfield.system.input_files import read_json
from neuralfield.system.provenance import remedy_for, sha256_of
from neuralfield.tasks.image.image_model import Model, Renderable

TRAINED_TOGETHER = {"cpu": 1, "gpu": 8}
"""Number of tiles that a job trains at the same time, by the kind of device. On a CPU, all cores
train one tile; a GPU computes steps of small batches concurrently, see
`neuralfield.engines.EngineBatch`."""

_FORMAT = 1


@dataclass(frozen=True)
class Mosaic(Renderable):
    """A representation of an image like `image_model.Model`, but composed of several models."""

    tiling: Tiling  # positions of the tiles, and the weights that blend their models
    models: str  # path of the models, with ``{tile}`` in place of a tile's name
    file: Path  # path of the mosaic
    shape: ImageShape
    mode: str
    parameter_count: int  # the sum over all models
    sha256: dict[str, str]  # the checksum of each model's file, in hexadecimal, by the tile's name
    metadata: dict[str, Any] = field(default_factory=dict)
    """The metadata of the first model without ``picture``, which is specific to a tile; see
    `Model`.
    """

    def path(self, tile: Tile) -> Path:
        return Path(self.models.replace("{tile}", tile.name))

    def load(self, tile: Tile) -> Model:
        """Read the model of a tile.

        Raises `CheckpointError` if it is missing, damaged, of a tile of another size, or not the
        model for which the mosaic was written.
        """
        path = self.path(tile)
        model = Model.load(path)
        if _checksum(path) != self.sha256[tile.name]:
            raise self._does_not_fit(path)
        if (model.width, model.height) != (tile.width, tile.height):
            found = f"has a tile {tile.name} of {tile.width} x {tile.height} pixels"
            expected = f"{model.width} x {model.height}, as its model has"
            raise CheckpointError(str(self.file), found, expected, remedy_for(self.file))
        return model

    def _does_not_fit(self, path: Path) -> CheckpointError:
        """Return the error for a model with another checksum.

        It names the model, or the mosaic if the checksums of all models are different.
        """
        if any(_checksum(self.path(tile)) == self.sha256[tile.name] for tile in self.tiling):
            found, expected = "belongs to another training", f"the model that {self.file} notes"
        else:
            path, found, expected = self.file, "belongs to other models", "those beside it"
        return CheckpointError(str(path), found, expected, remedy_for(path))


Trained = Model | Mosaic
"""Representations of an image that can be rendered at any size."""


def models_of(path: Path) -> str:
    """Return the path of a mosaic's models relative to its folder, with ``{tile}`` for the name."""
    if path.parent.name == "checkpoints":
        return f"../tiles/{{tile}}/checkpoints/{path.stem}.safetensors"
    return "tiles/{tile}/model.safetensors"


def save_mosaic(path: Path, tiling: Tiling, checksums: Mapping[str, str] | None = None) -> None:
    """Write a mosaic: the path of the models, see `models_of`, and their checksums by tile name.

    Checksums are computed if they are not given.
    """
    models = models_of(path)
    path.parent.mkdir(parents=True, exist_ok=True)  # `..` in a path requires that the folder exists
    if checksums is None:
        places = {tile.name: path.parent / models.replace("{tile}", tile.name) for tile in tiling}
        checksums = {name: _checksum(place) for name, place in places.items()}
    description = {
        "format": _FORMAT,
        "width": tiling.width,
        "height": tiling.height,
        "tile_px": tiling.tile_px,
        "overlap_px": tiling.overlap_px,
        "models": models,
        "sha256": dict(checksums),
    }
    write_json(path, description, indent=1)


def load_trained(path: Path | str) -> Trained:
    """Read a model, or a mosaic (.json) and its first model.

    Raises `CheckpointError` if a file is missing, damaged, or neither a model nor a mosaic.
    """
    path = Path(path)
    if path.suffix != ".json":
        return Model.load(path)
    try:
        found = read_json(path)
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']!r}")
        tiling, sha256 = _tiling(found), found["sha256"]
        if found["models"] != models_of(path):
            raise ValueError(f"models {found['models']!r}, not {models_of(path)!r}")
        models = os.path.normpath(path.parent / found["models"])
    except (KeyError, TypeError, ValueError, NeuralfieldError) as error:
        found_text = f"not a mosaic ({type(error).__name__}: {error})"
        expected = "a mosaic written by neuralfield"
        raise CheckpointError(str(path), found_text, expected, remedy_for(path)) from error
    first = Model.load(models.replace("{tile}", tiling.tile(0, 0).name))
    parameters = tiling.count * first.parameter_count
    metadata = {key: value for key, value in first.metadata.items() if key != "picture"}
    shape = ImageShape(tiling.width, tiling.height, first.channels)
    return Mosaic(tiling, models, path, shape, first.mode, parameters, sha256, metadata)


def load_trained_snapshot(path: Path, step: int, of: Trained) -> Trained:
    """Read the snapshot of a training, or of the trainings of all tiles, after a step.

    Raises `CheckpointError` if it is not of the same training as `of`.
    """
    if isinstance(of, Model):
        return of.load_snapshot(path, step)
    snapshot = load_trained(path)
    if not isinstance(snapshot, Mosaic) or snapshot.tiling != of.tiling:
        found, expected = "a mosaic of other tiles", "a mosaic of the tiles of this training"
        raise CheckpointError(str(path), found, expected, remedy_for(path))
    first = of.tiling.tile(0, 0)
    of.load(first).load_snapshot(snapshot.path(first), step)
    return snapshot


def _tiling(found: dict[str, Any]) -> Tiling:
    """Read and check the tiling of a mosaic, which may be from an untrusted source."""
    sides = [found[key] for key in ("width", "height", "tile_px", "overlap_px")]
    if not all(type(side) is int and side > 0 for side in sides):
        raise ValueError(f"sizes {sides}")
    tiling = Tiling(*sides)
    if tiling.count != len(found["sha256"]) or {tile.name for tile in tiling} != {*found["sha256"]}:
        raise ValueError(f"{len(found['sha256'])} checksums of {tiling.count} tiles")
    return tiling


def _checksum(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        found, remedy = f"cannot be read ({error.strerror})", remedy_for(path, is_missing=True)
        raise CheckpointError(str(path), found, "a tile's model", remedy) from error
