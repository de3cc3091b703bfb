"""Input functions of the rules: the files that a job of a plan reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from snakemake.exceptions import WorkflowError

from jobs.batches import Batch
from jobs.plan import Plan
from neuralfield.tasks.classifier.labelled import find_files

InputFunction = Callable[[Any], str | list[str]]

_EXAMPLES = {
    "tables": "at least one table; add one, as docs/tables.md shows",
    "classifiers": "at least one set of images; add one, as docs/classifier.md shows",
}


class Inputs:
    """Input functions of rules, and methods that create them.

    The returned paths may contain wildcards in braces, which Snakemake fills in.
    """

    def __init__(self, plan: Plan) -> None:
        self.plan = plan

    def of_network(self, key: str) -> Callable[[Any], Any]:
        """Return a function that returns a setting of the job's network."""
        return lambda wildcards: self.plan.network_of(wildcards)[key]

    def trained(self, wildcards: Any) -> str:
        """Return the trained network, or a mosaic of the networks of all tiles."""
        name = "mosaic.json" if wildcards.image in self.plan.tiled else "model.safetensors"
        return f"results/{{image}}/{{field}}/{name}"

    def stored(self, wildcards: Any) -> str:
        """Return the file of a coded image, or else what `trained` returns."""
        is_coded = wildcards.field in self.plan.coded
        return "results/{image}/{field}/image.nfz" if is_coded else self.trained(wildcards)

    def of_image(self, *, whole: str | None = None, tiled: str | None = None) -> InputFunction:
        """Return an input function for the file of an image trained as a whole, or in tiles."""
        return lambda wildcards: (tiled if wildcards.image in self.plan.tiled else whole) or []

    def learning(self, name: str) -> InputFunction:
        """Return an input function for a file of a training, or an empty one without this file."""
        file = f"results/{{image}}/{{field}}/{name}"
        without = self.plan.imported + self.plan.coded * (name == "checkpoints")
        return lambda wildcards: [] if wildcards.field in without else file

    def lists_of_tiles(self, wildcards: Any) -> list[str]:
        """Return the paths of the file lists of all tiles of an image's network, row by row."""
        run, jobs = (wildcards.image, wildcards.field), self.plan.tile_jobs
        return [path for job in jobs if job.run == run for path in job.lists]

    def batch_images(self, batch: Batch, file: str) -> list[str]:
        """Return a file of each image that was put into a batch.

        Missing files of images that the config no longer trains as a whole are left out, because no
        rule makes them any more.
        """
        files = {image: f"results/{image}/{file}" for image in batch.images}
        whole = self.plan.whole
        return [path for image, path in files.items() if image in whole or Path(path).exists()]

    def table_sizes(self, table: str) -> list[str]:
        """Return the metrics files of all networks of a table, if it has several networks."""
        several = self.plan.config["tables"][table]["sizes"]
        networks = self.plan.networks_of_table(table) if several else []
        return [f"results/tables/{network}/metrics.json" for network in networks]

    def images_of(self, part: tuple[str, str]) -> InputFunction:
        """Return an input function for the image file of a part of a classifier's data set."""
        return lambda wildcards: self._files_of_set(wildcards, part)[0]

    def labels_of(self, part: tuple[str, str]) -> InputFunction:
        """Return an input function for the label file of a part of a classifier's data set."""
        return lambda wildcards: self._files_of_set(wildcards, part)[1]

    def _files_of_set(self, wildcards: Any, part: tuple[str, str]) -> list[str]:
        return [str(path) for path in find_files(self.plan.network_of(wildcards)["path"], part)]

    def of_each(self, section: str, file: str) -> InputFunction:
        """Return an input function for a file of every table or of every classifier.

        It raises `WorkflowError` if the section `tables` or `classifiers` is empty.
        """

        def files(wildcards: Any) -> list[str]:
            if not self.plan.config[section]:
                raise WorkflowError(
                    f"config.yaml: {section}: missing; expected {_EXAMPLES[section]}"
                )
            return [f"results/{section}/{name}/{file}" for name in self.plan.config[section]]

        return files
