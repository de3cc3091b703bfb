"""The images, networks, tables and classifiers of a config, as the rules look them up."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from config.configuration import Run, runs, trained_fields
from config.large_images import headers_and_tilings, tile_groups
from config.sweeps import Sweep, all_fields, all_runs
from config.table_settings import size_name
from jobs.startup import UserError
from neuralfield.images.tiling import Tile
from neuralfield.tasks.training_settings import MAKES_NO_DIFFERENCE

Settings = dict[str, Any]

SHORTEST_TILE_S = 1
"""The least that a tile gets of its image's budget."""


@dataclass(frozen=True)
class TileJob:
    """A job that trains some tiles of an image, one after another, to the end of a segment."""

    run: Run
    number: int
    tiles: tuple[Tile, ...]
    segment: int
    is_last: bool

    @property
    def kind(self) -> str:
        """The name that stands for the rules of all jobs of this kind."""
        return "train_tiles" if self.is_last else "train_tiles_segment"

    @property
    def rule(self) -> str:
        """The name of the job's own rule."""
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

    def files(self, product: str) -> list[str]:
        """Return a file of each tile's training."""
        folder = f"results/{self.run.image}/{self.run.field}/tiles"
        return [f"{folder}/{tile.name}/{product}" for tile in self.tiles]


class Plan:
    """Everything that a config asks for.

    `settings` are those of `config.configuration.read_settings`, and `sweeps` the sweeps among
    them, see `config.sweeps.expand`.
    """

    def __init__(self, settings: Mapping[str, Any], sweeps: Sequence[Sweep]) -> None:
        self.sweeps = sweeps
        swept_fields = all_fields(sweeps, settings)
        self.config: Settings = {**settings, "fields": settings["fields"] | swept_fields}
        # the networks of images: those of `fields`, those of sweeps, and all
        self.single_runs = runs(settings)
        self.swept_runs = all_runs(sweeps)
        self.runs = self.single_runs + self.swept_runs
        # the fields that are trained here, and the others
        self.trained = set(trained_fields(self.config))
        self.imported = [field for field in self.config["fields"] if field not in self.trained]
        # the images that are trained in tiles, with header and tiling, and the others
        self.tiled = headers_and_tilings(self.config["images"])
        self.whole = [name for name in self.config["images"] if name not in self.tiled]
        # the table of each network of tables, by the network's folder
        self.table_networks = {
            network: table
            for table in self.config["tables"]
            for network in self.networks_of_table(table)
        }

    def tile_jobs(self) -> Iterator["TileJob"]:
        """Yield the jobs that train the networks of tiles."""
        for run in self.trained_runs(self.runs):
            if run.image not in self.tiled:
                continue
            per_job = self.config["images"][run.image]["tiles"].get("per_job")
            segments = self.network_of(run)["training"]["segments"]
            for number, tiles in enumerate(tile_groups(self.tiled[run.image][1], per_job)):
                for segment in range(1, segments + 1):
                    yield TileJob(run, number, tiles, segment, is_last=segment == segments)

    def trained_runs(self, among: Iterable[Run]) -> list[Run]:
        """Return the runs whose networks are trained here, and not imported."""
        return [run for run in among if run.field in self.trained]

    def image_of(self, wildcards: Any) -> Settings:
        """Return the settings of the image of a job, or the size of its tile."""
        if hasattr(wildcards, "tile"):
            tile = self.tile_of(wildcards)
            return {"size": [tile.width, tile.height]}
        return self.config["images"][wildcards.image]

    def tiles_of(self, image: str) -> list[str]:
        """Return the names of an image's tiles; none where it is trained as a whole."""
        return [tile.name for tile in self.tiled[image][1]] if image in self.tiled else []

    def tile_of(self, wildcards: Any) -> Tile:
        """Return the tile of a job."""
        return self.tiled[wildcards.image][1].named(wildcards.tile)

    def network_of(self, wildcards: Any) -> Settings:
        """Return the settings of a job's network: an image's, a table's or a classifier's."""
        if hasattr(wildcards, "classifier"):
            return self.config["classifiers"][wildcards.classifier]
        if hasattr(wildcards, "network"):
            return self._table_of(wildcards.network)
        if wildcards.field not in self.config["fields"]:
            raise UserError(
                f"{wildcards.field}: no such network; expected a field or a combination of a sweep;"
                " `snakemake -n` names them all"
            )
        network = self.config["fields"][wildcards.field]
        if hasattr(wildcards, "tile") and "budget" in network["training"]:
            share_s = network["training"]["budget"] / self.tiled[wildcards.image][1].count
            training = {**network["training"], "budget": max(SHORTEST_TILE_S, share_s)}
            return {**network, "training": training}
        return network

    def networks_of_table(self, table: str) -> list[str]:
        """Return the folders of a table's networks: its own, and one for each further size."""
        sizes = self.config["tables"][table]["sizes"]
        return [table, *(f"{table}/sizes/{size_name(widths)}" for widths in sizes)]

    def _table_of(self, network: str) -> Settings:
        name = self.table_networks[network]
        table = self.config["tables"][name]
        widths = [table["network"]["widths"], *table["sizes"]]
        own = widths[self.networks_of_table(name).index(network)]
        return table | {"network": table["network"] | {"widths": own}}

    def field_settings(self, wildcards: Any) -> Settings:
        """Return the settings of an image's network without those of its training."""
        return _without(self.network_of(wildcards), ["training"])

    def training_settings(self, wildcards: Any) -> Settings:
        """Return the settings of a training that its result depends on; none if imported.

        Snakemake compares them: a change of them trains again.
        """
        return _without(self.network_of(wildcards).get("training", {}), MAKES_NO_DIFFERENCE)

    def execution_settings(self, wildcards: Any, input: Any) -> Settings:
        """Return the settings of a training that its result does not depend on.

        Snakemake does not compare a param whose function asks for `input`.
        """
        training = self.network_of(wildcards)["training"]
        return {key: training[key] for key in MAKES_NO_DIFFERENCE if key in training}

    def device_of(self, wildcards: Any) -> str:
        """Return where a network is trained and rendered."""
        return self.network_of(wildcards).get("training", self.config["training"])["device"]

    def table_task_settings(self, wildcards: Any) -> Settings:
        """Return the settings of a table that its network depends on, without its training."""
        keys = ("inputs", "targets", "network", "scale_inputs", "scale_targets", "held_out_share")
        table = self.network_of(wildcards)
        return {key: table[key] for key in keys}


def _without(settings: Mapping[str, Any], keys: Iterable[str]) -> Settings:
    return {key: value for key, value in settings.items() if key not in keys}
