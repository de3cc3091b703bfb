"""A table of all fields, from the workflow's results with configs/all_fields.yaml.

    python benchmarks/all_fields_table.py FOLDER/results

The table has a row for each kind of image and field, with means over the images of that kind. "lost
at the end" is the largest drop of the history's dB below the best value so far within the last
tenth of the steps, in the worst image.
"""

import argparse
from pathlib import Path

import pandas as pd
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from measuring.ours import lost_db

from neuralfield.images.image_file import read_image
from neuralfield.images.kind import Kind, kind_of

COLUMNS = {
    "kind": ("images", "{}"),
    "field": ("field", "`{}`"),
    "parameters": ("parameters", "{:,.0f}"),
    "psnr_db": ("fit, dB", "{:.1f}"),
    "upscale_psnr_db": ("redraw, dB", "{:.2f}"),
    "over_lanczos_db": ("over Lanczos, dB", "{:+.2f}"),
    "worst_over_lanczos_db": ("in the worst", "{:+.2f}"),
    "over_bicubic_db": ("over bicubic, dB", "{:+.2f}"),
    "train_seconds": ("seconds", "{:.1f}"),
    "lost_db": ("lost at the end, dB", "{:.2f}"),
}
"""The heading of each column, and the format of its cells."""


def main(arguments: argparse.Namespace) -> None:
    """Print the table."""
    folder = arguments.results
    runs = pd.read_csv(folder / "summary.csv")
    kinds = {image: _kind(folder / image / "resized.png") for image in runs.image.unique()}
    runs["kind"] = runs.image.map(kinds)
    runs["over_lanczos_db"] = runs.upscale_psnr_db - runs.upscale_lanczos_psnr_db
    runs["worst_over_lanczos_db"] = runs.over_lanczos_db
    runs["over_bicubic_db"] = runs.upscale_psnr_db - runs.upscale_bicubic_psnr_db
    places = zip(runs.image, runs.field, strict=True)
    histories = (folder / image / field / "history.csv" for image, field in places)
    runs["lost_db"] = [lost_db(_end_db(pd.read_csv(path))) for path in histories]
    how = dict.fromkeys(list(COLUMNS)[2:], "mean")
    how |= {"worst_over_lanczos_db": "min", "lost_db": "max"}
    table = runs.groupby(["kind", "field"], sort=False).agg(how).reset_index()
    print_header(*(name for name, _ in COLUMNS.values()))
    for _, row in table.iterrows():
        print_row(*(cell.format(row[key]) for key, (_, cell) in COLUMNS.items()))


def _end_db(history: pd.DataFrame) -> list[float]:
    """Return the dB in the last tenth of the steps."""
    return history[history.step > 0.9 * history.step.max()].psnr_db.tolist()


def _kind(path: Path) -> str:
    return "line art" if kind_of(read_image(path)) == Kind.LINE_ART else "photographs"


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__)
    parser.add_argument("results", type=Path, help="the workflow's folder of results")
    return parser


if __name__ == "__main__":
    start(main, _parser())
