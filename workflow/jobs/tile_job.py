"""A job that trains tiles of a large image, and the files that it leaves."""

from dataclasses import dataclass
from types import SimpleNamespace

from config.configuration import ImageNetwork
from neuralfield.images.tiling import Tile


@dataclass(frozen=True)
class TileJob:
    """A job that trains some tiles of an image, one after another, to the end of a segment."""

    run: ImageNetwork
    number: int
    listed: tuple[tuple[Tile, ...], ...]
    """The tiles of each of its lists of files, see `neuralfield.tasks.image.tile_files`."""
    segment: int
    is_last: bool

    @property
    def tiles(self) -> list[Tile]:
        return [tile for together in self.listed for tile in together]

    @property
    def kind(self) -> str:
        """The name that stands for the rules of all jobs of this kind."""
        return "train_tiles" if self.is_last else "train_tiles_segment"

    @property
    def rule(self) -> str:
        number = f"{self.number}" if self.is_last else f"{self.number}_{self.segment}"
        return f"{self.kind}_{self.run.image}_{self.run.field}_{number}"

    @property
    def log(self) -> str:
        """The path of its log, without its ending."""
        segment = "" if self.is_last else f"segment_{self.segment}_"
        return f"logs/{self.run.image}/{self.run.field}/{segment}tiles_{self.number}"

    @property
    def first_tile(self) -> SimpleNamespace:
        """The first of the tiles, in place of a job's wildcards: the others are like it."""
        return SimpleNamespace(**self.run._asdict(), tile=self.tiles[0].name)

    @property
    def lists(self) -> list[str]:
        """The lists of its tiles' files, which are its outputs: few, where tiles are many."""
        return self.lists_of(self.segment)

    def lists_of(self, segment: int) -> list[str]:
        folder = f"results/{self.run.image}/{self.run.field}/tiles"
        end = ".json" if self.is_last and segment == self.segment else f".segment_{segment}.json"
        return [f"{folder}/{together[0].name}{end}" for together in self.listed]

    @property
    def folders(self) -> list[str]:
        """The folders in which its tiles are trained."""
        folder = f"results/{self.run.image}/{self.run.field}/tiles"
        return [f"{folder}/{tile.name}" for tile in self.tiles]
