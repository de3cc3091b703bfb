"""A job that trains tiles of a large image, and the files that it writes."""

from dataclasses import astuple, dataclass
from types import SimpleNamespace
from typing import Any

from config.configuration import ImageNetwork
from neuralfield.images.tiling import Tile


@dataclass(frozen=True)
class TileJob:
    """A job that trains some tiles of an image, one after another."""

    run: ImageNetwork
    number: int
    listed: tuple[tuple[Tile, ...], ...]
    """The tiles of each file list of the job; a list is a ledger with an entry for each tile."""

    @property
    def tiles(self) -> list[Tile]:
        return [tile for together in self.listed for tile in together]

    @property
    def places(self) -> list[list[tuple[Any, ...]]]:
        """The fields of the tiles of each file list, as plain values for a param."""
        return [list(map(astuple, together)) for together in self.listed]

    @property
    def rule(self) -> str:
        return f"train_tiles_{self.run.image}_{self.run.field}_{self.number}"

    @property
    def log(self) -> str:
        """The path of the log, without the file name extension."""
        return f"logs/{self.run.image}/{self.run.field}/tiles_{self.number}"

    @property
    def first_tile(self) -> SimpleNamespace:
        """The first tile in the form of a job's wildcards; it represents all tiles of the job."""
        return SimpleNamespace(**self.run._asdict(), tile=self.tiles[0].name)

    @property
    def lists(self) -> list[str]:
        """The file lists of the tiles, which are the outputs, because the files are too many."""
        folder = f"results/{self.run.image}/{self.run.field}/tiles"
        return [f"{folder}/{together[0].name}.json" for together in self.listed]
