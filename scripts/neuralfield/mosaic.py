"""A large picture as many models, one for each of its tiles."""

import hashlib
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from neuralfield.errors import CheckpointError, NeuralfieldError
from neuralfield.files import write_atomically
from neuralfield.model import Model, load_model
from neuralfield.tiling import Tile, Tiling

_FORMAT = 1


@dataclass(frozen=True)
class Mosaic:
    """A picture as a function, like `neuralfield.model.Model`, that many models make together.

    Attributes
    ----------
    tiling : Tiling
        Where each model's own square lies, and how much each counts.
    models : str
        Paths of the models, with ``{tile}`` where a tile's name goes.
    mode : {"bilevel", "grey", "rgb", "rgba"}
    channels : int
    parameter_count : int
        Of all models together.
    metadata : dict
        Of the first one; see `Model`.
    """

    tiling: Tiling
    models: str
    mode: str
    channels: int
    parameter_count: int
    metadata: dict[str, Any] = field(default_factory=dict)

    @property
    def width(self) -> int:
        """Width of the picture in pixels."""
        return self.tiling.width

    @property
    def height(self) -> int:
        """Height of the picture in pixels."""
        return self.tiling.height

    @property
    def footprint(self) -> bool:
        """Whether the models were taught means over pixels' squares."""
        return bool(self.metadata.get("footprint", False))

    def load(self, tile: Tile) -> Model:
        """Read the model of a tile.

        Raises
        ------
        CheckpointError
            It is missing, damaged, or of a tile of another size.
        """
        path = self.models.format(tile=tile.name)
        model = load_model(path)
        if (model.width, model.height) != (tile.width, tile.height):
            found = f"a model of {model.width} x {model.height} pixels"
            expected = f"{tile.width} x {tile.height}, as the tile {tile.name} has"
            raise CheckpointError(path, found, expected, f"remove {path} and run again")
        return model


Trained = Model | Mosaic
"""Whatever can be drawn at any size."""


def save_mosaic(path: Path, tiling: Tiling, models: str) -> None:
    """Write down which models make a picture together.

    Parameters
    ----------
    path : Path
        JSON to write. Checksums of the models are in it: it changes if any of them does.
    tiling : Tiling
    models : str
        Paths of the models from the folder of `path`, with ``{tile}`` for a tile's name.
    """
    path.parent.mkdir(parents=True, exist_ok=True)  # `..` leads out of a folder that is there
    places = {tile.name: path.parent / models.format(tile=tile.name) for tile in tiling}
    description = {
        "format": _FORMAT,
        "width": tiling.width,
        "height": tiling.height,
        "tile_px": tiling.tile_px,
        "overlap_px": tiling.overlap_px,
        "models": models,
        "sha256": {name: _checksum(place) for name, place in places.items()},
    }
    write_atomically(path, (json.dumps(description, indent=1) + "\n").encode())


def load_trained(path: Path | str) -> Trained:
    """Read a model, or a mosaic (.json), of which only the first model is read now.

    Raises
    ------
    CheckpointError
        A file is missing, damaged, or neither of the two.
    """
    path = Path(path)
    if path.suffix != ".json":
        return load_model(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["format"] != _FORMAT:
            raise ValueError(f"format {found['format']!r}")
        sides = (int(found[key]) for key in ("width", "height", "tile_px", "overlap_px"))
        tiling, models = Tiling(*sides), str(path.parent / found["models"])
    except (OSError, KeyError, TypeError, ValueError, NeuralfieldError) as error:
        found_text = f"not a mosaic ({type(error).__name__}: {error})"
        raise CheckpointError(str(path), found_text, "one written by neuralfield") from error
    first = load_model(models.format(tile=tiling.tile(0, 0).name))
    parameters = tiling.count * first.parameter_count
    return Mosaic(tiling, models, first.mode, first.channels, parameters, first.metadata)


def _checksum(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise CheckpointError(str(path), f"cannot be read ({error})", "a tile's model") from error
