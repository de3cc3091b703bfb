"""Compare SVG files of fitted drawings with those of potrace and vtracer.

    python benchmarks/vectors.py --models fits
    python benchmarks/vectors.py --models fits --set a --kinds map text --inputs exact jpeg

The reference is a drawing of 1,000 pixels (measuring/drawing_kinds.py), and the input the drawing
reduced to 200 pixels: exact, as JPEG of quality 75, with noise of 3 %, or as a scan, which is
slightly blurred, on grey paper, with noise, and is compared with the reference after its ink and
paper were made black and white. A network is fitted to the input by `line_art`, unless the folder
of models has it. All SVG files are drawn at 1,000 pixels by rsvg-convert. Of each tracer there are
two rows: on the 200 pixels, and on the image enlarged by Lanczos and thresholded, each with the
setting that is closest to the reference. The last rows are means.
"""

import argparse
import io
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from measuring.command_line import new_parser, start
from measuring.drawing_kinds import SETS, drawing_of
from measuring.measure import print_header, print_row
from measuring.tracers import (
    ENLARGED,
    potrace_settings,
    rasterized,
    segment_count,
    vtracer_settings,
)
from PIL import Image, ImageFilter

import neuralfield as nf
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import resize_channel
from neuralfield.rendering.vectors.drawing_svg import TOLERANCE_PX

_SIDE, _TRUTH_SIDE = 200, 1000
_INPUTS = ("exact", "jpeg", "noise", "scan")
_SCAN_INK, _SCAN_PAPER = 41 / 255, 234 / 255


class VectorScore(NamedTuple):
    """The measurements of an SVG file; those of pixels have no bytes or segments."""

    db: float
    size_bytes: float = 0
    segments: float = 0

    def cells(self) -> list[str]:
        """Return the numbers as text for a table."""
        counts = (f"{count:,.0f}" if count else "-" for count in self[1:])
        return [f"{self.db:.2f}", *counts]


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each drawing, input and tracer, and the means of all drawings."""
    print_header("drawing", "input", "tracer", "dB", "bytes", "segments")
    found: defaultdict[tuple[str, str], list[VectorScore]] = defaultdict(list)
    for kind in arguments.kinds or SETS[arguments.set]:
        truth = drawing_of(kind, arguments.set, _TRUTH_SIDE)[..., 0]
        for name in arguments.inputs:
            folder = arguments.models / f"{arguments.set}_{kind}_{name}"
            for tracer, score in _scores(_degraded(truth, name), truth, folder, arguments):
                print_row(kind, name, tracer, *score.cells())
                found[name, tracer.split(":")[0]].append(score)
    for (name, tracer), scores in found.items():
        means = VectorScore(*np.mean(scores, axis=0).tolist())
        print_row(f"**mean of {len(scores)}**", name, tracer, *means.cells())


def _degraded(truth: np.ndarray, name: str) -> Image.Image:
    """Return the input of a kind, of 8 bits; a JPEG is decoded again."""
    random = np.random.default_rng(1)
    small = resize_channel(truth, (_SIDE, _SIDE), "box")
    if name == "scan":
        blurred = Image.fromarray(np.rint(255 * truth).astype(np.uint8)).filter(
            ImageFilter.GaussianBlur(0.6 * _TRUTH_SIDE / _SIDE)
        )
        small = resize_channel(np.asarray(blurred, np.float32) / 255, (_SIDE, _SIDE), "box")
        small = _SCAN_INK + (_SCAN_PAPER - _SCAN_INK) * small
    share = {"noise": 0.03, "scan": 0.016}.get(name, 0)
    small = small + share * random.standard_normal(small.shape)
    image = Image.fromarray(np.rint(255 * np.clip(small, 0, 1)).astype(np.uint8))
    if name == "jpeg":
        file = io.BytesIO()
        image.save(file, "JPEG", quality=75)
        image = Image.open(file)
    return image


def _scores(
    image: Image.Image, truth: np.ndarray, folder: Path, arguments: argparse.Namespace
) -> Iterator[tuple[str, VectorScore]]:
    """Yield the rows of a drawing; tracers have the setting that is closest to the reference."""
    ink, paper = (_SCAN_INK, _SCAN_PAPER) if folder.name.endswith("_scan") else (0.0, 1.0)
    field = _field(image, folder, arguments)
    render = (np.asarray(field.render(_TRUTH_SIDE)) - ink) / (paper - ink)
    yield "line_art, pixels", VectorScore(psnr_db(np.clip(render, 0, 1), truth))
    with TemporaryDirectory() as temporary:
        path = Path(temporary, "drawing.svg")
        field.to_svg(path, tolerance=arguments.tolerance)
        yield "line_art, SVG", _score(path.read_text(), truth, ink, paper)
    values = np.asarray(image, np.float32) / 255
    for tracer, settings_of in (("potrace", potrace_settings), ("vtracer", vtracer_settings)):
        for pixels, times in (("200 pixels", (1,)), ("enlarged", ENLARGED)):
            settings = settings_of(values, (ink + paper) / 2, times)
            found = {name: _score(trace(), truth, 0, 1) for name, trace in settings}
            if found:
                best = max(found, key=lambda name: found[name].db)
                yield f"{tracer}, {pixels}: {best}", found[best]


def _score(svg: str, truth: np.ndarray, ink: float, paper: float) -> VectorScore:
    """Measure a file whose ink and paper have these levels."""
    shown = np.clip((rasterized(svg, _TRUTH_SIDE) - ink) / (paper - ink), 0, 1)
    return VectorScore(psnr_db(shown, truth), len(svg.encode()), segment_count(svg))


def _field(image: Image.Image, folder: Path, arguments: argparse.Namespace) -> nf.ImageField:
    """Load the network of a folder, or fit one to the image if there is none."""
    file = folder / "model.safetensors"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        nf.fit(image, preset="line_art", device=arguments.device).save(file)
    found = nf.load(file, device=arguments.device)
    assert isinstance(found, nf.ImageField)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device")
    add = parser.add_argument
    add("--models", type=Path, required=True, help="folder of fitted networks, kept for later")
    add("--set", choices=SETS, default="b", help="a for tuning, b for evaluation")
    add("--kinds", nargs="+", help="names of drawings (default: all of the set)")
    add("--inputs", nargs="+", choices=_INPUTS, default=["exact"], help="what is traced")
    add("--tolerance", type=float, default=TOLERANCE_PX, help="that of our SVG files")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
