"""Collect the contents of the report on sweeps: tables, plots, and each image's best render."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

from markupsafe import Markup

from entry.sweep_tables import TableRow, read_table
from neuralfield.viewing.template import words_of
from reporting.contents import ENLARGEMENTS
from reporting.embedded import overview_uri
from reporting.plots import RAMP, RAMP_STEPS, inline_svg, series_colour
from reporting.sweep_plots import MARKERS, Point, scatter

SERIES = 8
"""Maximum number of combinations with a colour each; of more combinations, colours show ranks."""

MOST_IMAGE_COLUMNS = 4
"""Maximum number of images with a column each; with more images, only the CSV file has them."""


class Spread(NamedTuple):
    """A mean over runs, and their standard deviation, which is None for a single run."""

    mean: float
    sd: float | None


@dataclass(frozen=True)
class SweepSection:
    """A sweep on the page."""

    title: str
    images: list[tuple[str, str]]  # title and marker of each image
    rows: list[TableRow]
    """Rows of ``comparison.csv``, the best first. Each also has a ``label``, the settings in which
    it differs from others; a CSS ``colour``; and ``scores`` on each image, None if not trained on
    it."""
    plots: list[tuple[str, Markup]]  # the label of the horizontal axis of a plot, and the plot
    bests: list[dict[str, Any]]
    """The best render of each image beside the best plain enlargement, see `_best`."""
    wins: int  # the number of images on which the first of the rows is the best
    lead_db: float | None
    """The difference between the scores of the first and the second row, averaged over their common
    images; None if they share the first rank, or there is no second row."""
    seed_sd_db: float | None  # standard deviation between seeds, pooled over networks and images
    complete: bool  # whether every network was trained on every image equally often

    @property
    def firsts(self) -> list[str]:
        """The labels of the rows that share the first rank."""
        return [row["label"] for row in self.rows if row["rank"] == 1]

    @property
    def has_image_columns(self) -> bool:
        """Whether the table has a column for each image; a single image needs no column."""
        return 1 < len(self.images) <= MOST_IMAGE_COLUMNS


def gather_sweeps(tables: Sequence[Path], results: Path) -> list[SweepSection]:
    """Read the contents of all sweeps.

    `tables` are ``summary.csv``, ``comparison.csv`` and ``comparison_by_image.csv``. The best
    renders are read from the folders ``{image}/{field}/comparison`` in `results`.
    """
    runs, overall, images = (read_table(path) for path in tables)
    return [
        _section(
            f"sweep{number}",
            [row for row in runs if name in row["sweep"].split(" ")],
            [row for row in overall if row["sweep"] == name],
            [row for row in images if row["sweep"] == name],
            results,
        )
        for number, name in enumerate(dict.fromkeys(row["sweep"] for row in overall))
    ]


def _section(
    key: str,
    runs: list[TableRow],
    overall: list[TableRow],
    per_image: list[TableRow],
    results: Path,
) -> SweepSection:
    images = list(dict.fromkeys(row["image"] for row in per_image))
    combinations = [row["combination"] for row in overall]
    labels = dict(zip(combinations, short_labels(overall), strict=True))
    colours = {name: _colour(n, len(combinations)) for n, name in enumerate(combinations)}
    scores = {(row["combination"], row["image"]): _score(row) for row in per_image}
    rows = [
        row
        | {
            "label": labels[row["combination"]],
            "colour": series_colour(colours[row["combination"]]),
            "scores": [scores.get((row["combination"], image)) for image in images],
        }
        for row in overall
    ]

    def plot(measure: str, label: str) -> tuple[str, Markup]:
        points = [
            Point(
                label=f"{labels[row['combination']]}: {words_of(row['image'])}",
                colour=colours[row["combination"]],
                marker=images.index(row["image"]),
                x=math.nan if row.get(measure) is None else row[measure],
                score_db=_score(row).mean,
                sd_db=_score(row).sd,
            )
            for row in sorted(per_image, key=lambda row: combinations.index(row["combination"]))
        ]
        return label, inline_svg(scatter(points, label), f"{key}-{measure}")

    best_ranks = {
        image: min(row["rank"] for row in per_image if row["image"] == image) for image in images
    }
    return SweepSection(
        title=words_of(overall[0]["sweep"]),
        images=[(words_of(image), sign) for image, sign in zip(images, cycle(MARKERS))],
        rows=rows,
        plots=[
            plot("train_seconds_mean", "seconds of training"),
            plot("parameters_mean", "parameters"),
            plot("bits_per_pixel_mean", "bits per pixel"),
        ],
        bests=[_best(image, runs, labels, results) for image in images],
        wins=sum(
            row["combination"] == combinations[0] and row["rank"] == best_ranks[row["image"]]
            for row in per_image
        ),
        lead_db=_lead_db(rows),
        seed_sd_db=_pooled_sd_db(per_image),
        complete=len({row["runs"] for row in per_image}) == 1
        and len(per_image) == len(images) * len(combinations),
    )


def short_labels(overall: list[TableRow]) -> list[str]:
    """Describe how the combinations of a sweep differ: 'width 64, steps 100'."""
    keys = [key for key in overall[0] if key.startswith("setting_")]
    differing = [key for key in keys if len({row[key] for row in overall}) > 1]
    several = len({row["base_field"] for row in overall}) > 1 or not differing
    labels = []
    for row in overall:
        settings = [
            f"{key.removeprefix('setting_').replace('_', ' ')} {row[key]}"
            for key in differing
            if row[key]
        ]
        labels.append(", ".join([row["base_field"]] * several + settings))
    # if a sweep includes settings explicitly, two combinations may differ only in their names and
    # have equal labels: full names are then used
    return labels if len(set(labels)) == len(labels) else [row["combination"] for row in overall]


def _colour(number: int, count: int) -> int:
    return number if count <= SERIES else RAMP + round(number * (RAMP_STEPS - 1) / (count - 1))


def _score(row: TableRow) -> Spread:
    """Return the score for ranks on an image: that of the redraw if the source is larger."""
    measure = "psnr_db" if row["upscale_psnr_db_mean"] is None else "upscale_psnr_db"
    return Spread(row[f"{measure}_mean"], row[f"{measure}_sd"])


def _lead_db(rows: Sequence[TableRow]) -> float | None:
    if [row["rank"] for row in rows[:2]] != [1, 2]:
        return None
    both = zip(rows[0]["scores"], rows[1]["scores"], strict=True)
    leads = [first.mean - second.mean for first, second in both if first and second]
    return fmean(leads) if leads else None


def _pooled_sd_db(per_image: list[TableRow]) -> float | None:
    """Pool the deviations between seeds, weighted by their degrees of freedom."""
    known = [(row["runs"] - 1, sd) for row in per_image if (sd := _score(row).sd) is not None]
    freedom = sum(n for n, _ in known)
    return math.sqrt(sum(n * sd**2 for n, sd in known) / freedom) if freedom else None


def _best(
    image: str, runs: list[TableRow], labels: Mapping[str, str], results: Path
) -> dict[str, Any]:
    """Return the best render of an image: its score and label, and images as data URIs.

    Without a larger source, the redraw is the only image.
    """
    own = [row for row in runs if row["image"] == image]
    plain = own[0]["upscale_best_filter"]
    measure = "upscale_psnr_db" if plain else "psnr_db"
    row = max(own, key=lambda row: row[measure])
    folder = results / image / row["field"] / "comparison"
    seeds = {row["random_seed"] for row in own}
    return {
        "title": words_of(image),
        "label": labels[row["combination"]]
        + f", seed {int(row['random_seed'])}" * (len(seeds) > 1),
        "source": overview_uri(folder / "source.png") if plain else None,
        "plain": overview_uri(folder / f"{plain}.png") if plain else None,
        "plain_name": ENLARGEMENTS[plain] if plain else None,
        "redraw": overview_uri(folder / "redraw.png"),
        "score_db": row[measure],
        "plain_db": row[f"upscale_{plain}_psnr_db"] if plain else None,
    }
