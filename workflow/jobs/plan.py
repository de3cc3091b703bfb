"""The images, networks, tables and classifiers of a config, and the files made from them."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import product
from typing import Any

from snakemake.exceptions import WorkflowError

from config.configuration import ImageNetwork, runs
from config.large_images import headers_and_tilings, tile_groups
from config.schema import OTHER_KINDS
from config.sweeps import Sweep, all_fields, all_runs
from config.task_settings import size_name
from jobs.tile_job import TileJob
from neuralfield.tasks.training_settings import MAKES_NO_DIFFERENCE

Settings = dict[str, Any]

SHORTEST_TILE_S = 1
"""Minimum seconds of an image's budget that each tile gets."""

MOST_TILES_OF_A_VIEW = 150
"""Maximum number of tiles of a viewer page, which contains the networks of all tiles."""

BESIDE_NETWORK = ("history.csv", "training.json", "checkpoints")
"""The files that a training writes beside the network."""


class Plan:
    """All networks and files that a config asks for.

    `settings` is the result of `config.configuration.read_settings`, and `sweeps` the result of
    `config.sweeps.expand`.
    """

    def __init__(self, settings: Mapping[str, Any], sweeps: Sequence[Sweep]) -> None:
        self.sweeps = sweeps
        swept_fields = all_fields(sweeps, settings)
        self.config: Settings = {**settings, "fields": settings["fields"] | swept_fields}
        # the networks of images: those listed in `fields`, those of sweeps, and both
        self.single_runs = runs(settings)
        self.swept_runs = all_runs(sweeps)
        self.runs = self.single_runs + self.swept_runs
        # the fields of coded images, and of weights that are not trained here
        self.coded, self.imported = (
            [name for name, field in self.config["fields"].items() if field["type"] == kind]
            for kind in OTHER_KINDS
        )
        # the images that are trained in tiles, with header and tiling, and the others
        self.tiled = headers_and_tilings(self.config["images"])
        self.whole = [name for name in self.config["images"] if name not in self.tiled]
        # the name of the table of each network, by the network's folder
        self.table_networks = {
            network: table
            for table in self.config["tables"]
            for network in self.networks_of_table(table)
        }

    @cached_property
    def tile_jobs(self) -> list[TileJob]:
        """The jobs on tiles of all networks of images that are trained in tiles."""
        found = []
        for run in self.trained_runs(self.runs):
            if run.image in self.tiled:
                per_job = self.config["images"][run.image]["tiles"].get("per_job")
                groups = tile_groups(self.tiled[run.image][1], per_job)
                found += [TileJob(run, n, tuple(listed)) for n, listed in enumerate(groups)]
        return found

    def trained_runs(self, among: Iterable[ImageNetwork]) -> list[ImageNetwork]:
        """Return the runs whose networks are trained here, and not imported."""
        return [run for run in among if run.field not in self.imported]

    def image_of(self, wildcards: Any) -> Settings:
        """Return the settings of the image of a job, or the size of its tile."""
        if hasattr(wildcards, "tile"):
            tile = self.tiled[wildcards.image][1].named(wildcards.tile)
            return {"size": [tile.width, tile.height]}
        return self.config["images"][wildcards.image]

    def image_settings(self, *keys: str) -> Callable[[Any], Settings]:
        """Return a function that returns settings of the image of a job; None for those not set."""
        return lambda wildcards: {key: self.image_of(wildcards).get(key) for key in keys}

    def tiles_of(self, image: str) -> list[str]:
        """Return the names of an image's tiles; empty if it is trained as a whole."""
        return [tile.name for tile in self.tiled[image][1]] if image in self.tiled else []

    def network_of(self, wildcards: Any) -> Settings:
        """Return the settings of a job's network: an image's, a table's or a classifier's."""
        if hasattr(wildcards, "classifier"):
            return self.config["classifiers"][wildcards.classifier]
        if hasattr(wildcards, "network"):
            return self._table_of(wildcards.network)
        if wildcards.field not in self.config["fields"]:
            raise WorkflowError(
                f"{wildcards.field}: no such network; expected a field or a combination of a sweep;"
                " `snakemake -n` lists them"
            )
        network = self.config["fields"][wildcards.field]
        if hasattr(wildcards, "tile") and "budget" in network["training"]:
            share_s = network["training"]["budget"] / self.tiled[wildcards.image][1].count
            training = {**network["training"], "budget": max(SHORTEST_TILE_S, share_s)}
            return {**network, "training": training}
        return network

    def networks_of_table(self, table: str) -> list[str]:
        """Return the folders of a table's networks: its main network, and one per further size."""
        sizes = self.config["tables"][table]["sizes"]
        return [table, *(f"{table}/sizes/{size_name(widths)}" for widths in sizes)]

    def _table_of(self, network: str) -> Settings:
        name = self.table_networks[network]
        table = self.config["tables"][name]
        widths = [table["network"]["widths"], *table["sizes"]]
        own = widths[self.networks_of_table(name).index(network)]
        return table | {"network": table["network"] | {"widths": own}}

    def field_settings(self, wildcards: Any) -> Settings:
        return _without(self.network_of(wildcards), ["training"])

    def training_settings(self, wildcards: Any) -> Settings:
        """Return the training settings that the result depends on; empty for imported networks.

        Snakemake compares them with those of earlier runs: if they change, the network is trained
        again.
        """
        return _without(self.network_of(wildcards).get("training", {}), MAKES_NO_DIFFERENCE)

    def execution_settings(self, wildcards: Any, input: Any) -> Settings:
        """Return the training settings that the result does not depend on.

        Snakemake does not compare a param whose function has the parameter `input` with that of
        earlier runs.
        """
        training = self.network_of(wildcards)["training"]
        return {key: training[key] for key in MAKES_NO_DIFFERENCE if key in training}

    def tiling_of(self, wildcards: Any) -> Settings:
        """Return the sides of an image, and the side and the overlap of its tiles."""
        return asdict(self.tiled[wildcards.image][1])

    def device_of(self, wildcards: Any) -> str:
        return self.network_of(wildcards).get("training", self.config["training"])["device"]

    def table_task_settings(self, wildcards: Any) -> Settings:
        """Return the settings that a table's network depends on, without those of its training."""
        keys = ("inputs", "targets", "network", "scale_inputs", "scale_targets", "held_out_share")
        table = self.network_of(wildcards)
        return {key: table[key] for key in keys}

    def all_products(self) -> list[str]:
        """Return the files of all images and their networks, except the report and the summary."""
        rendered = all_runs(sweep for sweep in self.sweeps if sweep.render)
        filmed = all_runs(sweep for sweep in self.sweeps if sweep.timelapse)
        comparisons = ["results/comparison.csv", "results/comparison_by_image.csv"]
        return [
            *(comparisons if self.sweeps else []),
            *self.image_products(),
            *self.network_products(),
            *self.renders(self.single_runs + rendered),
            *self.timelapses(self.single_runs + filmed),
            *self.views(self.single_runs + rendered),
            *self.pyramids(self.single_runs + rendered),
        ]

    def image_products(self) -> list[str]:
        """Return the files of all images that are made before networks are trained."""
        files = []
        for image in self.config["images"]:
            is_large = image in self.tiled
            names = ["overview.png", "pixels.npy"] if is_large else ["resized.png", "pixels.csv"]
            files += [f"results/{image}/{name}" for name in ("picture.json", *names)]
        return files

    def training_image(self, image: str) -> str:
        """Return the path of the training image, or of its overview if it is trained in tiles."""
        return f"results/{image}/{'overview' if image in self.tiled else 'resized'}.png"

    def network_products(self) -> list[str]:
        """Return the files that the training and evaluation of all images' networks write."""
        files = [path for job in self.tile_jobs for path in job.lists]
        for run in self.runs:
            names = ["metrics.json", "comparison", *self._networks_of(run)]
            names += () if run.field in self.imported else BESIDE_NETWORK
            files += [f"results/{run.image}/{run.field}/{name}" for name in names]
        return files

    def _networks_of(self, run: ImageNetwork) -> tuple[str, ...]:
        """Return the names of the file of a network, and of its decoded image if it has one."""
        if run.field in self.coded:
            return ("image.nfz", "image.png")
        return ("mosaic.json" if run.image in self.tiled else "model.safetensors",)

    def renders(self, runs: Sequence[ImageNetwork]) -> list[str]:
        names = renders_of_a_network(self.config["render"])
        networks = [run for run in runs if run.field not in self.coded]
        return for_runs("results/{image}/{field}/{name}.png", networks, name=names)

    def timelapses(self, runs: Iterable[ImageNetwork]) -> list[str]:
        pattern, formats = "results/{image}/{field}/timelapse.{format}", self.config["timelapse"]
        return for_runs(pattern, self.trained_runs(runs), format=formats["formats"])

    def views(self, runs: Iterable[ImageNetwork]) -> list[str]:
        """Return the viewer pages, which evaluate networks in a browser.

        Networks with more than `MOST_TILES_OF_A_VIEW` tiles have no viewer page.
        """
        shown = (run for run in runs if len(self.tiles_of(run.image)) <= MOST_TILES_OF_A_VIEW)
        return for_runs("results/{image}/{field}/view.html", shown)

    def pyramids(self, runs: Iterable[ImageNetwork]) -> list[str]:
        large = (run for run in runs if run.image in self.tiled)
        return for_runs("results/{image}/{field}/pyramid", large)

    def linked_files(self) -> dict[str, list[str]]:
        """Return the names of the files that the report links to, by ``{image}/{field}``."""
        runs = self.single_runs
        models = [
            f"results/{run.image}/{run.field}/{name}"
            for run in runs
            if run.image not in self.tiled
            for name in self._networks_of(run)
        ]
        found: dict[str, list[str]] = {f"{run.image}/{run.field}": [] for run in runs}
        pages = [*self.views(runs), *(f"{path}/index.html" for path in self.pyramids(runs))]
        for path in (*pages, *self.renders(runs), *self.timelapses(runs), *models):
            _, image, field, name = path.split("/", 3)
            found[f"{image}/{field}"].append(name)
        return found

    def table_products(self) -> list[str]:
        folders = [f"results/tables/{network}" for network in self.table_networks]
        measured = [f"{f}/{name}" for f in folders for name in ("metrics.json", "predictions.csv")]
        plots = [f"results/tables/{table}/plot.png" for table in self.config["tables"]]
        return plots + measured + [file for folder in folders for file in training_products(folder)]

    def classifier_products(self) -> list[str]:
        names = ("metrics.json", "predictions.csv", "confusion.png", "wrong.png", "curve.png")
        folders = [f"results/classifiers/{name}" for name in self.config["classifiers"]]
        measured = [f"{folder}/{name}" for folder in folders for name in names]
        return measured + [file for folder in folders for file in training_products(folder)]


def _without(settings: Mapping[str, Any], keys: Iterable[str]) -> Settings:
    return {key: value for key, value in settings.items() if key not in keys}


def for_runs(pattern: str, runs: Iterable[ImageNetwork], **others: Iterable[Any]) -> list[str]:
    """Fill a pattern for every combination of a run and of the other values."""
    return [
        pattern.format(**run._asdict(), **dict(zip(others, values, strict=True)))
        for run in runs
        for values in product(*others.values())
    ]


def training_products(folder: str) -> list[str]:
    """Return the files of one training."""
    return [f"{folder}/{name}" for name in ("model.safetensors", *BESIDE_NETWORK)]


def renders_of_a_network(settings: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the longer side and the box of each render, by the name of its file."""
    whole = [0, 0, 1, 1]
    return {
        **{f"render_{size}": {"size": size, "box": whole} for size in settings["sizes"]},
        **{f"crop_{name}": crop for name, crop in settings["crops"].items()},
    }
