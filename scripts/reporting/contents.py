"""Collect the contents of the report: the networks of each image, and plain enlargements."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
from markupsafe import Markup

from neuralfield.images import read_made_image
from neuralfield.images.detail import most_detailed_box
from neuralfield.system.input_files import read_own_csv
from neuralfield.system.provenance import remedy_for, require_recorded
from neuralfield.training.history import read_history
from neuralfield.viewing.template import words_of
from reporting.embedded import file_uri, overviews_and_crops, thumbnail_uri
from reporting.plots import Curve, inline_svg, learning_curves

VIEWER = "viewer"
TIMELAPSES = ("timelapse.mp4", "timelapse.webp", "timelapse.gif")
"""The names of time-lapses; the page shows the first one that a network has."""

ENLARGEMENTS = {
    "bicubic": "Bicubic",
    "lanczos": "Lanczos",
    "back_projection": "Lanczos with back-projection",
    "two_tone": "Two-tone filter",
}
MODES = {
    "bilevel": "black and white",
    "grey": "grey",
    "rgb": "colour",
    "rgba": "colour with transparency",
}
SHOWN = ("psnr_db", "ssim", "wrong_pixels", "upscale_psnr_db", "parameters", "steps", "versions")

TIMELAPSE_BYTES = 24 << 20
"""Maximum bytes of time-lapses that are embedded in a page; further ones are linked as files."""

LEAST_GAIN_DB = 0.05
"""Minimum gain of a network over a plain enlargement to be called better: the difference has to be
visible in the displayed numbers."""

COLOURS = 8
"""Number of series colours that the page defines; further networks reuse them."""


@dataclass(eq=False)
class Network:
    """One network on one image, and what the page shows of it."""

    folder: Path  # ``results/{image}/{field}``
    numbers: dict[str, Any]  # its metrics, with at least the keys `SHOWN`
    kind: str | None  # the type of its field, if that is known
    linked: Sequence[str]  # the names of its files that the page links to
    colour: int = 0  # number of its series colour, the same wherever it appears
    # data URIs
    redraw: str = ""
    crop: str = ""
    timelapse: str | None = None  # data URI of its time-lapse, or its path relative to the page

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def image(self) -> str:
        return self.folder.parent.name

    @property
    def comparison(self) -> Path:
        """The folder with redraw.png and, if the source is larger than the training image,
        source.png and the files of `ENLARGEMENTS`.
        """
        return self.folder / "comparison"

    @property
    def training_image(self) -> Path:
        """The training image, or its reduced overview if it has tiles."""
        name = "overview.png" if "tiles" in self.numbers else "resized.png"
        return self.folder.parent / name

    @property
    def timelapse_name(self) -> str | None:
        return next((name for name in TIMELAPSES if name in self.linked), None)

    @property
    def links(self) -> list[tuple[str, str]]:
        """The labels of its files, and their paths relative to the page."""
        return [(_in_words(name), self.path_to(name)) for name in self.linked]

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
    def gain_db(self) -> float | None:
        """The gain over the best plain enlargement, if there are any."""
        plain_db = [self.numbers[f"upscale_{name}_psnr_db"] for name in ENLARGEMENTS]
        return None if None in plain_db else self.score_db - max(plain_db)

    def path_to(self, name: str) -> str:
        """Return the URL of one of its files relative to the page."""
        return quote(f"{self.image}/{self.name}/{name}")


class Enlargement(NamedTuple):
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
    crop_place: list[float]
    """Left, top, width and height of the crop, in percent of the image's sides."""
    networks: list[Network]  # in the order of the settings
    enlargements: list[Enlargement]  # empty if there is no larger source
    curves: list[tuple[str, Markup]]  # the label of the horizontal axis of a plot, and the plot
    rates: Markup | None  # a plot of dB over bits, if an image was coded in few bits
    codecs: dict[str, int]  # the numbers of the series colours of other codecs in this plot

    @property
    def title(self) -> str:
        return words_of(self.name)

    @property
    def best(self) -> Network:
        return max(self.networks, key=lambda network: network.score_db)

    @property
    def winner(self) -> Network | None:
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


def gather(networks: Iterable[Network]) -> list[ImageSection]:
    """Read the displayed contents of all networks, grouped by image."""
    timelapse_bytes = 0
    colours: dict[str, int] = {}
    of_images: dict[str, list[Network]] = {}
    for network in networks:
        of_images.setdefault(network.image, []).append(network)
        network.colour = colours.setdefault(network.name, len(colours) % COLOURS)
        if name := network.timelapse_name:
            path = network.folder / name
            timelapse_bytes += path.stat().st_size
            is_embedded = timelapse_bytes <= TIMELAPSE_BYTES
            network.timelapse = file_uri(path) if is_embedded else network.path_to(name)
    return [
        _section(f"picture-{number}", name, own)
        for number, (name, own) in enumerate(of_images.items())
    ]


def _section(key: str, name: str, networks: list[Network]) -> ImageSection:
    """Read the images of a section, and the histories of its networks."""
    first = networks[0]
    trained_on, numbers = first.training_image, first.numbers
    source_path = first.comparison / "source.png"
    if not (is_larger := source_path.exists()):
        source_path = trained_on
    source, image = read_made_image(source_path), read_made_image(trained_on)
    box = most_detailed_box(source.values(), round(source.width / image.width))
    plain = {kind: first.comparison / f"{kind}.png" for kind in ENLARGEMENTS if is_larger}
    redraws = [network.comparison / "redraw.png" for network in networks]
    uris = overviews_and_crops({trained_on, source_path, *redraws, *plain.values()}, box)
    for network, path in zip(networks, redraws, strict=True):
        network.redraw, network.crop = uris[path]
    size = (image.width, image.height)
    if "tiles" in numbers:  # the training image that was read is only an overview
        size = (numbers["width"], numbers["height"])
    left, top, right, bottom = box
    sides = 2 * (source.width, source.height)
    place = zip((left, top, right - left, bottom - top), sides, strict=True)
    return ImageSection(
        name=name,
        thumbnail=thumbnail_uri(trained_on),
        training_image=uris[trained_on][0],
        source=uris[source_path][0],
        source_crop=uris[source_path][1],
        mode=MODES[image.mode],
        size=size,
        source_size=(source.width, source.height) if is_larger else size,
        crop_place=[round(100 * part / side, 3) for part, side in place],
        networks=networks,
        enlargements=[
            Enlargement(ENLARGEMENTS[kind], numbers[f"upscale_{kind}_psnr_db"], *uris[path])
            for kind, path in plain.items()
        ],
        curves=_curves(key, networks),
        **_rates(key, networks),
    )


def _curves(key: str, networks: list[Network]) -> list[tuple[str, Markup]]:
    """Return the plots of the trainings, over steps and over time; none without a training."""
    trained = []
    for network in networks:
        if network.numbers["steps"] is not None:
            path = network.folder / "history.csv"
            require_recorded(path, network.numbers, path.with_name("metrics.json"))
            trained.append((network.colour, read_history(path)))

    def plot(column: str, label: str) -> tuple[str, Markup]:
        curves = [Curve(colour, table[column], table["psnr_db"]) for colour, table in trained]
        return label, inline_svg(learning_curves(curves, label), f"{key}-{column}")

    return [plot("step", "steps"), plot("seconds", "seconds of training")] if trained else []


def _rates(key: str, networks: list[Network]) -> dict[str, Any]:
    """Return a plot of dB over bits, with the curves of other codecs, and their colours."""
    paths = [network.comparison / "rates.csv" for network in networks]
    if not (found := [path for path in paths if path.exists()]):
        return {"rates": None, "codecs": {}}
    table = read_own_csv(found[0], "the rates of codecs", remedy_for(found[0]))
    names = np.array(table["codec"])
    points = np.array([table["bits_per_pixel"], table["psnr_db"]], float)
    unused = sorted({*range(COLOURS)} - {network.colour for network in networks})
    codecs = dict(zip(dict.fromkeys(table["codec"]), [*unused, *range(COLOURS)], strict=False))
    curves = [Curve(colour, *points[:, names == name]) for name, colour in codecs.items()]
    for network in networks:
        if bits := network.numbers.get("bits_per_pixel"):
            point = np.array([bits]), np.array([network.numbers["psnr_db"]])
            curves.append(Curve(network.colour, *point, marker="o"))
    plot = inline_svg(learning_curves(curves, "bits per pixel"), f"{key}-rates")
    return {"rates": plot, "codecs": codecs}


def _in_words(name: str) -> str:
    """Return the label of a file of a network."""
    if name.startswith("pyramid"):
        return "zoom"
    stem, _, suffix = name.rpartition(".")
    kind, _, part = stem.partition("_")
    words = {
        "view": VIEWER,
        "render": f"{part} pixels",
        "crop": f"crop {part}",
        "timelapse": f"time-lapse, {suffix}",
        "image": name,
    }
    return words.get(kind, "weights")
