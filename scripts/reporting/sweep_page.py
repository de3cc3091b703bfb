"""Gather what the report shows of sweeps: tables, plots, and the best redraw of each picture."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from markupsafe import Markup

from compare import MEASURES, read_table
from compare import Row as TableRow
from reporting.embedded import overview_uri
from reporting.plots import MARKER_SIGNS, RAMP, RAMP_STEPS, Point, scatter, series_colour

SERIES = 8
"""Combinations that get a colour each; of more, colours go by rank."""

MOST_PICTURE_COLUMNS = 4
"""Pictures that have a column of their own in the table; more are left to the CSV file."""


@dataclass(frozen=True)
class Spread:
    """A mean over runs, and their standard deviation, which one run does not have."""

    mean: float
    sd: float | None


@dataclass(frozen=True)
class Row:
    """One combination of a sweep over all pictures and seeds.

    Attributes
    ----------
    label : str
        The settings in which it differs from others of the sweep.
    colour : str
        A CSS colour.
    rank : int
    mean_rank : float
    runs : int
    measures : dict of str to Spread
        By the names in `compare.MEASURES`.
    scores : list of (Spread or None)
        What it reached on each picture of the table; None where it was not taught it.
    """

    label: str
    colour: str
    rank: int
    mean_rank: float
    runs: int
    measures: dict[str, Spread]
    scores: list[Spread | None]


@dataclass(frozen=True)
class Best:
    """The best drawing of a picture, and what it is up against.

    Attributes
    ----------
    title, label : str
        Of the picture and of the network.
    source, redraw : str
        Data URIs; without a larger source there is only the redraw.
    lanczos : str or None
    score_db : float
    lanczos_db : float or None
    """

    title: str
    label: str
    source: str | None
    lanczos: str | None
    redraw: str
    score_db: float
    lanczos_db: float | None


@dataclass(frozen=True)
class SweepSection:
    """A sweep on the page.

    Attributes
    ----------
    title : str
    runs : int
    pictures : list of (str, str)
        Title and marker of each.
    rows : list of Row
        The best first.
    plots : list of (str, Markup)
        What a plot is over, and the plot.
    bests : list of Best
    wins : int
        Pictures on which the first of the rows is the best.
    lead_db : float or None
        By how much the first is above the second, on the mean over their common pictures; None
        where they share the first rank, or there is no second.
    seed_sd_db : float or None
        Standard deviation between seeds, pooled over networks and pictures.
    complete : bool
        Whether every network was taught every picture equally often.
    """

    title: str
    runs: int
    pictures: list[tuple[str, str]]
    rows: list[Row]
    plots: list[tuple[str, Markup]]
    bests: list[Best]
    wins: int
    lead_db: float | None
    seed_sd_db: float | None
    complete: bool

    @property
    def firsts(self) -> list[str]:
        """Labels of those that share the first rank."""
        return [row.label for row in self.rows if row.rank == 1]

    @property
    def has_picture_columns(self) -> bool:
        """Whether the table shows each picture; with one picture it is the same as all."""
        return 1 < len(self.pictures) <= MOST_PICTURE_COLUMNS


def gather_sweeps(tables: Sequence[Path], comparisons: Iterable[Path]) -> list[SweepSection]:
    """Read the tables of ``summarize.py`` and ``compare.py``, and the best pictures.

    Parameters
    ----------
    tables : (Path, Path, Path)
        ``summary.csv``, ``comparison.csv`` and ``comparison_by_image.csv``.
    comparisons : iterable of Path
        Folders of pictures, ``results/{image}/{field}/comparison``.
    """
    runs, overall, pictures = (read_table(path) for path in tables)
    folders = {(path.parts[-3], path.parts[-2]): path for path in comparisons}
    return [
        _section(
            f"sweep{number}",
            [row for row in runs if name in row["sweep"].split(" ")],
            [row for row in overall if row["sweep"] == name],
            [row for row in pictures if row["sweep"] == name],
            folders,
        )
        for number, name in enumerate(dict.fromkeys(row["sweep"] for row in overall))
    ]


def _section(
    key: str,
    runs: list[TableRow],
    overall: list[TableRow],
    per_picture: list[TableRow],
    folders: Mapping[tuple[str, str], Path],
) -> SweepSection:
    images = list(dict.fromkeys(row["image"] for row in per_picture))
    combinations = [row["combination"] for row in overall]
    labels = dict(zip(combinations, short_labels(overall), strict=True))
    colours = {name: _colour(n, len(combinations)) for n, name in enumerate(combinations)}
    scores = {(row["combination"], row["image"]): _score(row) for row in per_picture}
    rows = [
        Row(
            label=labels[row["combination"]],
            colour=series_colour(colours[row["combination"]]),
            rank=int(row["rank"]),
            mean_rank=row["mean_rank"],
            runs=int(row["runs"]),
            measures={name: Spread(row[f"{name}_mean"], row[f"{name}_sd"]) for name in MEASURES},
            scores=[scores.get((row["combination"], image)) for image in images],
        )
        for row in overall
    ]

    def plot(measure: str, label: str) -> tuple[str, Markup]:
        points = [
            Point(
                label=f"{labels[row['combination']]}: {as_title(row['image'])}",
                colour=colours[row["combination"]],
                marker=images.index(row["image"]),
                x=math.nan if row[measure] is None else row[measure],
                score_db=_score(row).mean,
                sd_db=_score(row).sd,
            )
            for row in sorted(per_picture, key=lambda row: combinations.index(row["combination"]))
        ]
        # Safe: names that users wrote are escaped in it.
        return label, Markup(scatter(points, label, f"{key}-{measure}"))

    best_ranks = {
        image: min(row["rank"] for row in per_picture if row["image"] == image) for image in images
    }
    return SweepSection(
        title=as_title(overall[0]["sweep"]),
        runs=len(runs),
        pictures=[
            (as_title(image), MARKER_SIGNS[number % len(MARKER_SIGNS)])
            for number, image in enumerate(images)
        ],
        rows=rows,
        plots=[
            plot("train_seconds_mean", "seconds of training"),
            plot("parameters_mean", "parameters"),
        ],
        bests=[_best(image, runs, labels, folders) for image in images],
        wins=sum(
            row["combination"] == combinations[0] and row["rank"] == best_ranks[row["image"]]
            for row in per_picture
        ),
        lead_db=_lead_db(rows),
        seed_sd_db=_pooled_sd_db(per_picture),
        complete=len({row["runs"] for row in per_picture}) == 1
        and len(per_picture) == len(images) * len(combinations),
    )


def short_labels(overall: list[TableRow]) -> list[str]:
    """What tells the combinations of a sweep apart, in words: 'width 64, steps 100'."""
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
    # settings that were also included by name can make two names of one network: say them in full
    return labels if len(set(labels)) == len(labels) else [row["combination"] for row in overall]


def as_title(name: str) -> str:
    """A name as words."""
    words = name.replace("_", " ").replace("-", " ").strip()
    return words[:1].upper() + words[1:]


def _colour(number: int, count: int) -> int:
    return number if count <= SERIES else RAMP + round(number * (RAMP_STEPS - 1) / (count - 1))


def _score(row: TableRow) -> Spread:
    """What ranks on a picture go by: the redraw where there is a larger source."""
    measure = "psnr_db" if row["upscale_psnr_db_mean"] is None else "upscale_psnr_db"
    return Spread(row[f"{measure}_mean"], row[f"{measure}_sd"])


def _lead_db(rows: Sequence[Row]) -> float | None:
    if [row.rank for row in rows[:2]] != [1, 2]:
        return None
    both = zip(rows[0].scores, rows[1].scores, strict=True)
    leads = [first.mean - second.mean for first, second in both if first and second]
    return fmean(leads) if leads else None


def _pooled_sd_db(per_picture: list[TableRow]) -> float | None:
    """Variances between seeds, weighted by their degrees of freedom."""
    known = [(row["runs"] - 1, sd) for row in per_picture if (sd := _score(row).sd) is not None]
    freedom = sum(n for n, _ in known)
    return math.sqrt(sum(n * sd**2 for n, sd in known) / freedom) if freedom else None


def _best(
    image: str,
    runs: list[TableRow],
    labels: Mapping[str, str],
    folders: Mapping[tuple[str, str], Path],
) -> Best:
    own = [row for row in runs if row["image"] == image]
    enlarged = own[0]["upscale_psnr_db"] is not None
    measure = "upscale_psnr_db" if enlarged else "psnr_db"
    row = max(own, key=lambda row: row[measure])
    folder = folders[image, row["field"]]
    seeds = {row["random_seed"] for row in own}
    return Best(
        title=as_title(image),
        label=labels[row["combination"]] + f", seed {int(row['random_seed'])}" * (len(seeds) > 1),
        source=overview_uri(folder / "source.png") if enlarged else None,
        lanczos=overview_uri(folder / "lanczos.png") if enlarged else None,
        redraw=overview_uri(folder / "redraw.png"),
        score_db=row[measure],
        lanczos_db=row["upscale_lanczos_psnr_db"],
    )
