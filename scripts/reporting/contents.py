"""Collect the contents of the report: the networks of each image, and plain enlargements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from entry.records import read_own_metrics
from neuralfield.images import read_made_image
from neuralfield.system.provenance import require_recorded
from neuralfield.training.history import read_history
from neuralfield.viewing.template import words_of
from reporting.embedded import (
    Box,
    file_uri,
    most_detailed_box,
    overviews_and_crops,
    thumbnail_uri,
)
from reporting.plots import Curve, inline_svg, learning_curves

VIEWER = "viewer"
TIMELAPSE_PREFERENCE = (".mp4", ".webp", ".gif")
ENLARGEMENTS = {
    "bicubic": "Bicubic",
    "lanczos": "Lanczos",
    "back_projection": "Lanczos with back-projection",
}
MODES = {
    "bilevel": "black and white",
    "grey": "grey",
    "rgb": "colour",
    "rgba": "colour with transparency",
}
SHOWN = ("psnr_db", "ssim", "wrong_pixels", "upscale_psnr_db", "parameters", "steps", "versions")
SHOWN_IF_KNOWN = ("upscale_uncorrected_psnr_db", "residual_values")
"""Further metrics, which evaluations by earlier versions lack."""

TIMELAPSE_BYTES = 24 << 20
"""Maximum bytes of time-lapses that are embedded in a page; further ones are linked as files."""

LEAST_GAIN_DB = 0.05
"""Minimum gain of a network over a plain enlargement to be called better: the difference has to be
visible in the displayed numbers."""

COLOURS = 8
"""Number of series colours that the page defines; further networks reuse them."""


@dataclass(frozen=True)
class NetworkFiles:
    """The files of a network that the report shows."""

    folder: Path  # ``results/{image}/{field}``
    kind: str | None  # the type of its field, if that is known
    training_image: Path  # the reduced overview for an image with tiles
    history: Path | None
    timelapses: Sequence[Path]
    linked: Sequence[str]  # the names of its files that the page links to

    @property
    def metrics(self) -> Path:
        return self.folder / "metrics.json"

    @property
    def comparison(self) -> Path:
        """The folder with redraw.png and, if the source is larger than the training image,
        source.png and the files of `ENLARGEMENTS`.
        """
        return self.folder / "comparison"


@dataclass(frozen=True)
class ShownNetwork:
    """One network on one image."""

    name: str
    colour: int  # number of its series colour, the same wherever it appears
    numbers: dict[str, Any]  # its metrics
    # data URIs
    redraw: str
    crop: str
    timelapse: str | None  # data URI of its time-lapse, or its path relative to the page
    timelapse_is_video: bool  # whether the time-lapse is a video; else it is an animated image
    kind: str | None  # the type of its field
    links: list[tuple[str, str]]  # labels of its files, and their paths relative to the page

    @property
    def view(self) -> str | None:
        """The path of the viewer page relative to the page, if there is one."""
        return next((where for words, where in self.links if words == VIEWER), None)

    @property
    def score_db(self) -> float:
        """The PSNR that networks are ranked by: that of the redraw if the source is larger."""
        redraw_db = self.numbers["upscale_psnr_db"]
        return self.numbers["psnr_db"] if redraw_db is None else redraw_db

    @property
    def plain_db(self) -> float | None:
        known = [self.numbers[f"upscale_{name}_psnr_db"] for name in ENLARGEMENTS]
        return None if None in known else max(known)

    @property
    def gain_db(self) -> float | None:
        return None if self.plain_db is None else self.score_db - self.plain_db


@dataclass(frozen=True)
class Enlargement:
    """An enlargement without a network; `image` and `crop` are data URIs."""

    name: str
    psnr_db: float
    image: str
    crop: str


@dataclass(frozen=True)
class ImageSection:
    """One image and everything made from it."""

    name: str
    # data URIs; without a larger source the training image is the source
    thumbnail: str
    training_image: str
    source: str
    source_crop: str
    mode: str  # the mode of the training image: "black and white", "grey", "colour", ...
    # width and height in pixels
    size: tuple[int, int]
    source_size: tuple[int, int]
    crop_place: tuple[float, float, float, float]
    """Left, top, width and height of the crop, in percent of the image's sides."""
    networks: list[ShownNetwork]  # in the order of the settings
    enlargements: list[Enlargement]  # empty if there is no larger source
    curves: list[tuple[str, Markup]]  # the label of the horizontal axis of a plot, and the plot

    @property
    def title(self) -> str:
        return words_of(self.name)

    @property
    def best(self) -> ShownNetwork:
        return max(self.networks, key=lambda network: network.score_db)

    @property
    def winner(self) -> ShownNetwork | None:
        """The best of several networks, if it is better than every filter."""
        gain_db = self.best.gain_db
        is_better = gain_db is None or gain_db >= LEAST_GAIN_DB
        return self.best if is_better and len(self.networks) > 1 else None

    @property
    def merit(self) -> tuple[float, float]:
        """The key that ranks the images of a page: the gain over filters, then the score."""
        return max(self.best.gain_db or 0.0, 0.0), self.best.score_db

    def best_of(self, measure: str) -> float | None:
        """Return the best value of a metric among the networks.

        None is returned if no network has the metric, or if a filter is better.
        """
        if measure in ("upscale_psnr_db", "gain_db") and self.winner is None:
            return None
        values = [
            network.gain_db if measure == "gain_db" else network.numbers[measure]
            for network in self.networks
        ]
        known = [value for value in values if value is not None]
        choose = min if measure in ("wrong_pixels", "step_microseconds") else max
        return choose(known, default=None)


def gather(networks: Iterable[NetworkFiles]) -> list[ImageSection]:
    """Read the displayed contents of all networks, grouped by image."""
    timelapse_bytes = 0
    colours: dict[str, int] = {}
    of_images: dict[str, list[NetworkFiles]] = {}
    for files in networks:
        of_images.setdefault(files.folder.parent.name, []).append(files)
        colours.setdefault(files.folder.name, len(colours) % COLOURS)

    def timelapse(path: Path) -> str:
        nonlocal timelapse_bytes
        timelapse_bytes += path.stat().st_size
        return file_uri(path) if timelapse_bytes <= TIMELAPSE_BYTES else _where(path)

    def network(files: NetworkFiles, redraw: tuple[str, str]) -> ShownNetwork:
        films = sorted(files.timelapses, key=lambda p: TIMELAPSE_PREFERENCE.index(p.suffix))
        return ShownNetwork(
            name=files.folder.name,
            colour=colours[files.folder.name],
            numbers=read_own_metrics(files.metrics, SHOWN),
            redraw=redraw[0],
            crop=redraw[1],
            timelapse=timelapse(films[0]) if films else None,
            timelapse_is_video=bool(films) and films[0].suffix == ".mp4",
            kind=files.kind,
            links=[(_in_words(name), _where(files.folder / name)) for name in files.linked],
        )

    sections = []
    for number, (name, own) in enumerate(of_images.items()):
        comparison, trained_on = own[0].comparison, own[0].training_image
        enlarged = (comparison / "source.png").exists()
        source_path = comparison / "source.png" if enlarged else trained_on
        source, image = read_made_image(source_path), read_made_image(trained_on)
        box = most_detailed_box(source.values(), round(source.width / image.width))
        plain = {key: comparison / f"{key}.png" for key in ENLARGEMENTS if enlarged}
        redraws = [files.comparison / "redraw.png" for files in own]
        uris = overviews_and_crops({trained_on, source_path, *redraws, *plain.values()}, box)
        shown = [network(files, uris[redraw]) for files, redraw in zip(own, redraws, strict=True)]
        size, numbers = (image.width, image.height), shown[0].numbers
        if "tiles" in numbers:  # the training image that was read is only an overview
            size = (numbers["width"], numbers["height"])
        sections.append(
            ImageSection(
                name=name,
                thumbnail=thumbnail_uri(trained_on),
                training_image=uris[trained_on][0],
                source=uris[source_path][0],
                source_crop=uris[source_path][1],
                mode=MODES[image.mode],
                size=size,
                source_size=(source.width, source.height) if enlarged else size,
                crop_place=_in_percent(box, source.width, source.height),
                networks=shown,
                enlargements=[
                    Enlargement(ENLARGEMENTS[key], numbers[f"upscale_{key}_psnr_db"], *uris[path])
                    for key, path in plain.items()
                ],
                curves=_curves(number, shown, own),
            )
        )
    return sections


def _where(path: Path) -> str:
    """Return the URL of a network's file relative to the folder of results."""
    depth = 4 if path.parent.name.startswith("pyramid") else 3
    return "/".join(map(quote, path.parts[-depth:]))


def _in_words(name: str) -> str:
    if name.startswith("pyramid"):
        return "zoom"
    stem, _, suffix = name.rpartition(".")
    kind, _, part = stem.partition("_")
    words = {
        "view": VIEWER,
        "render": f"{part} pixels",
        "crop": f"crop {part}",
        "timelapse": f"time-lapse, {suffix}",
    }
    return words.get(kind, "weights")


def _in_percent(box: Box, width: int, height: int) -> tuple[float, float, float, float]:
    left, top, right, bottom = box
    return (
        round(100 * left / width, 3),
        round(100 * top / height, 3),
        round(100 * (right - left) / width, 3),
        round(100 * (bottom - top) / height, 3),
    )


def _curves(
    number: int, networks: list[ShownNetwork], own: list[NetworkFiles]
) -> list[tuple[str, Markup]]:
    learned = []
    for network, files in zip(networks, own, strict=True):
        if files.history is not None:
            require_recorded(files.history, network.numbers, files.metrics)
            learned.append((network, read_history(files.history)))
    if not learned:
        return []

    def plot(column: str, label: str) -> tuple[str, Markup]:
        curves = [
            Curve(shown.colour, history[column], history["psnr_db"]) for shown, history in learned
        ]
        return label, inline_svg(learning_curves(curves, label), f"{column}{number}")

    return [plot("step", "steps"), plot("seconds", "seconds of training")]
