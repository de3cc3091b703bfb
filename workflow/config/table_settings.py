"""Checks of tables in the config, and the names of their sizes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from config.named_files import missing_file
from config.training_limits import outside_their_limits
from config.wording import WhereIs, as_written
from neuralfield.system.errors import ConfigError


def size_name(widths: Sequence[int]) -> str:
    """Return the folder of a further network of a table: ``16x8`` for ``[16, 8]``."""
    return "x".join(map(str, widths)) or "none"


def complaints(name: str, settings: Mapping[str, Any], where_is: WhereIs) -> Iterator[ConfigError]:
    """Yield what is wrong between the settings of one table; its jobs read the columns."""
    table = settings["tables"][name]

    def where(*keys: str) -> str:
        return where_is(("tables", name, *keys))

    yield from missing_file(table["path"], where("path"), "a CSV")
    both = [column for column in table["targets"] if column in table["inputs"]]
    if both:
        yield ConfigError(
            where("targets"), f"{both[0]}, an input too", "columns that are not given"
        )
    if table["network"]["widths"] in table["sizes"]:
        found = f"{as_written(table['network']['widths'])}, the widths of the network itself"
        yield ConfigError(where("sizes"), found, "widths of others", "remove it")
    truth, targets = table.get("truth"), table["targets"]
    if truth and len(truth) != len(targets):
        expected = f"a column for each target: {len(targets)}"
        yield ConfigError(where("truth"), f"{len(truth)} columns", expected)
    output, training = table["network"]["output"], table["training"]
    if training["loss"] == "binary_cross_entropy" and output != "sigmoid":
        expected = "sigmoid, whose values are probabilities, with the loss binary_cross_entropy"
        yield ConfigError(where("network", "output"), output, expected)
    if output == "sigmoid" and table["scale_targets"] not in ("auto", "none"):
        expected = "auto or none, with the output sigmoid"
        yield ConfigError(where("scale_targets"), table["scale_targets"], expected)
    yield from outside_their_limits(training, lambda key, _: where("training", key))
