"""Compare SVG files of fitted drawings with those of potrace and vtracer.

    python benchmarks/vectors.py --models fits
    python benchmarks/vectors.py --models fits --set a --kinds map text --inputs exact jpeg

The reference is a drawing of 1,000 pixels (measuring/drawing_kinds.py), and the input the drawing
reduced to 200 pixels and degraded (measuring/degradations.py). A network is fitted to the restored
input by `line_art`, unless the folder of models has it. All SVG files are drawn at 1,000 pixels by
rsvg-convert. Of each tracer there are two rows: on the 200 pixels, and on the image enlarged by
Lanczos and thresholded half-way between ink and paper, each with the setting that is closest to
the reference. The last rows are means.
"""

import argparse
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from measuring.command_line import new_parser, start
from measuring.degradations import DEGRADATIONS, Degraded, degraded
from measuring.drawing_kinds import SETS, drawing_of
from measuring.measure import print_header, print_row
from measuring.tracers import (
    ENLARGED,
    potrace_settings,
    rasterized,
    segment_count,
    vtracer_settings,
)

import neuralfield as nf
from neuralfield.images.metrics import psnr_db
from neuralfield.images.resizing import ink_and_paper
from neuralfield.images.restoring import restore
from neuralfield.rendering.vectors.drawing_svg import TOLERANCE_PX

_SIDE, _TRUTH_SIDE = 200, 1000


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
        master, number = (
            drawing_of(kind, arguments.set, _TRUTH_SIDE),
            SETS[arguments.set].index(kind),
        )
        for name in arguments.inputs:
            folder = arguments.models / f"{arguments.set}_{kind}_{name}"
            small = degraded(master, name, arguments.set[0], number, _SIDE)
            for tracer, score in _scores(small, master[..., 0], folder, arguments):
                print_row(kind, name, tracer, *score.cells())
                found[name, tracer.split(":")[0]].append(score)
    for (name, tracer), scores in found.items():
        means = VectorScore(*np.mean(scores, axis=0).tolist())
        print_row(f"**mean of {len(scores)}**", name, tracer, *means.cells())


def _scores(
    small: Degraded, truth: np.ndarray, folder: Path, arguments: argparse.Namespace
) -> Iterator[tuple[str, VectorScore]]:
    """Yield the rows of a drawing; tracers have the setting that is closest to the reference."""
    field = _field(small, folder, arguments)
    render = np.clip(np.asarray(field.render(_TRUTH_SIDE)), 0, 1)
    yield "line_art, pixels", VectorScore(psnr_db(render, truth))
    with TemporaryDirectory() as temporary:
        path = Path(temporary, "drawing.svg")
        field.to_svg(path, tolerance=arguments.tolerance)
        yield "line_art, SVG", _score(path.read_text(), truth)
    values = small.image.values()[..., 0]
    middle = sum(ink_and_paper(values)) / 2
    for tracer, settings_of in (("potrace", potrace_settings), ("vtracer", vtracer_settings)):
        for pixels, times in (("200 pixels", (1,)), ("enlarged", ENLARGED)):
            settings = settings_of(values, middle, times)
            found = {name: _score(trace(), truth) for name, trace in settings}
            if found:
                best = max(found, key=lambda name: found[name].db)
                yield f"{tracer}, {pixels}: {best}", found[best]


def _score(svg: str, truth: np.ndarray) -> VectorScore:
    """Measure a file against the reference."""
    shown = rasterized(svg, _TRUTH_SIDE)
    return VectorScore(psnr_db(shown, truth), len(svg.encode()), segment_count(svg))


def _field(small: Degraded, folder: Path, arguments: argparse.Namespace) -> nf.ImageField:
    """Load the network of a folder, or fit one to the restored image."""
    file = folder / "model.safetensors"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        restored = restore(small.image, jpeg=small.jpeg)
        image = small.image if restored is None else restored.image
        pixels, device = image.pixels, arguments.device
        nf.fit(pixels, preset="line_art", device=device, restore=False).save(file)
    found = nf.load(file, device=arguments.device)
    assert isinstance(found, nf.ImageField)
    return found


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device")
    add = parser.add_argument
    add("--models", type=Path, required=True, help="folder of fitted networks, kept for later")
    add("--set", choices=SETS, default="b", help="a for tuning, b for evaluation")
    add("--kinds", nargs="+", help="names of drawings (default: all of the set)")
    add("--inputs", nargs="+", choices=DEGRADATIONS, default=["exact"], help="what is traced")
    add("--tolerance", type=float, default=TOLERANCE_PX, help="that of our SVG files")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
