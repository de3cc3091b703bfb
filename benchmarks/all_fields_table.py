"""A table of all fields, from results that the workflow has made; see all_fields.yaml.

    PYTHONPATH=scripts python benchmarks/all_fields_table.py FOLDER/results

A row for each kind of picture and field, with means over the pictures of that kind. "lost at the
end" is how far the dB of the history's rows falls below the best so far in the last tenth of the
steps, at the most and in the worst picture.
"""

import argparse
from pathlib import Path

import pandas as pd
from measuring.ours import lost_db

from neuralfield.images.facts import is_line_art
from neuralfield.images.reading import read_picture

COLUMNS = {
    "kind": "{}",
    "field": "`{}`",
    "parameters": "{:,.0f}",
    "psnr_db": "{:.1f}",
    "upscale_psnr_db": "{:.2f}",
    "over_lanczos_db": "{:+.2f}",
    "worst_over_lanczos_db": "{:+.2f}",
    "over_bicubic_db": "{:+.2f}",
    "train_seconds": "{:.1f}",
    "lost_db": "{:.2f}",
}
NAMES = (
    *("pictures", "field", "parameters", "fit, dB", "redraw, dB", "over Lanczos, dB"),
    *("in the worst", "over bicubic, dB", "seconds", "lost at the end, dB"),
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("results", type=Path)
    folder = parser.parse_args().results
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
    print("| " + " | ".join(NAMES) + " |")
    print("|---" * len(NAMES) + "|")
    for _, row in table.iterrows():
        cells = [text.format(row[key]) for key, text in COLUMNS.items()]
        print("| " + " | ".join(cells) + " |")


def _end_db(history: pd.DataFrame) -> list[float]:
    """The dB in the last tenth of the steps."""
    return history[history.step > 0.9 * history.step.max()].psnr_db.tolist()


def _kind(path: Path) -> str:
    return "line art" if is_line_art(read_picture(path)) else "photographs"


if __name__ == "__main__":
    main()
