"""Plots the results of `fits.py`: mean dB over parameters and over seconds.

    python benchmarks/fits_figure.py benchmarks/results/*_sizes.md --output fits.svg

Published numbers of others, from configs/published_fits.yaml, are plotted, too. `--untimed` names
networks whose seconds are not valid, because other work ran at the same time.
"""

import argparse
import re
from pathlib import Path
from typing import Any

import yaml
from matplotlib.figure import Figure
from measuring.command_line import new_parser, start

PUBLISHED = Path(__file__).parent / "configs" / "published_fits.yaml"

_MEAN = re.compile(r"^\| \*\*(\w+)\*\* \| mean.*?\| ([\d,]+) \| [\d,]+ \| ([\d.]+) \| ([\d.]+) \|")
_AXES = {"parameters": "parameters", "seconds": "seconds of training"}


def main(arguments: argparse.Namespace) -> None:
    """Plot both panels into one file."""
    ours = [row for path in arguments.reports for row in means(path.read_text())]
    for row in ours:
        if row["name"] in arguments.untimed:
            del row["seconds"]
    figure = Figure(figsize=(11, 5), layout="constrained")
    kinds = (("ours", ours, "o"), ("as published", yaml.safe_load(PUBLISHED.read_text()), "x"))
    for axes, (key, label) in zip(figure.subplots(1, 2, sharey=True), _AXES.items(), strict=True):
        for kind, rows, marker in kinds:
            shown = [row for row in rows if key in row]
            places = [(row[key], row["db"]) for row in shown]
            axes.plot(*zip(*places, strict=True), marker, label=kind)
            for row, place in zip(shown, places, strict=True):
                axes.annotate(row["name"], place, (5, 4), textcoords="offset points", fontsize=7)
        axes.set(xscale="log", xlabel=label, ylabel="mean fit, dB")
        axes.grid(visible=True, alpha=0.3)
        axes.margins(0.18, 0.08)
        axes.legend(loc="lower right")
    figure.savefig(arguments.output, metadata={"Date": None})


def means(report: str) -> list[dict[str, Any]]:
    """Read the lines of means in a report of `fits.py`."""
    found = filter(None, map(_MEAN.match, report.splitlines()))
    return [
        {
            "name": line[1],
            "parameters": int(line[2].replace(",", "")),
            "seconds": float(line[3]),
            "db": float(line[4]),
        }
        for line in found
    ]


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    parser.add_argument("reports", nargs="+", type=Path, help="Markdown reports of fits.py")
    parser.add_argument("--untimed", nargs="+", default=[], help="networks without seconds")
    parser.add_argument("--output", type=Path, required=True, help="image to write")
    return parser


if __name__ == "__main__":
    start(main, _parser())
