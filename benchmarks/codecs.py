"""Measure the bits and the quality of images coded by ours, JPEG, WebP, AVIF, JPEG XL and BPG.

    python benchmarks/codecs.py kodim*.png --seconds 60
    python benchmarks/codecs.py photo.jpg --codecs ours AVIF --lambdas 1e-4 1e-3 --figure rates.png
    python benchmarks/codecs.py photo.jpg --codecs ours --targets bytes=20000 psnr_db=38

Each codec writes files of several qualities, which are read and decoded again; PSNR is that of the
decoded levels, over all channels together, and bits are those of the whole file. Others are as
Pillow writes them, with 4:4:4 colour where the format has it: JPEG optimised and progressive, WebP
with method 6, AVIF and JPEG XL with settings that are slow to encode. JPEG XL needs the package
pillow-jxl-plugin, and BPG the programs of libbpg.

With `--targets`, ours is coded to sizes or qualities, and rows say by how much they are missed.

BD-rates compare curves at equal PSNR (measuring/rate_curves.py): negative is better. They are means
over the images of which there are both curves; those of BPG and the published ones of Cool-Chic are
known for eight Kodak images.
"""

import argparse
import importlib
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from measuring.bpg import PROGRAMS, Bpg
from measuring.command_line import new_parser, start
from measuring.measure import print_header, print_row
from measuring.rate_curves import BPG, COOL_CHIC, Curve, bd_rate_percent, mean_curve
from PIL import Image

import neuralfield as nf
from neuralfield.images.codecs import CODECS
from neuralfield.images.metrics import psnr_db

OURS, JPEG_XL = "ours", "JPEG XL"
OTHERS = {**CODECS, "BPG": Bpg()}
_NEEDS = {JPEG_XL: "the package pillow-jxl-plugin", "BPG": f"the programs {' and '.join(PROGRAMS)}"}

_SHARED = ("seconds", "steps", "device")
"""Options that are arguments of `nf.encode`."""

_LAMBDAS = (2e-2, 4e-3, 1e-3, 4e-4, 1e-4)


class Coded(NamedTuple):
    """A file that a codec has written, and what was decoded from it."""

    quality: str
    bits_per_pixel: float
    psnr_db: float
    encoding_s: float
    decoding_s: float


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each file, the means and BD-rates."""
    names = [name for name in arguments.codecs if _is_available(name)]
    curves: dict[str, dict[str, Curve]] = {name: {} for name in names}
    print_header("image", "codec", "quality", "bits/pixel", "dB", "encoded in s", "decoded in s")
    for path in arguments.images:
        with Image.open(path) as file:
            image = file.convert("L" if file.mode in ("L", "1") else "RGB")
        for name in names:
            found = []
            for coded in _coded(name, image, arguments):
                found.append((coded.bits_per_pixel, coded.psnr_db))
                numbers = f"{coded.bits_per_pixel:.4f}", f"{coded.psnr_db:.2f}"
                times = f"{coded.encoding_s:.2f}", f"{coded.decoding_s:.3f}"
                print_row(path.stem, name, coded.quality, *numbers, *times)
            curves[name][path.stem] = sorted(found)
    _print_means(curves)
    _print_bd_rates(curves)
    if arguments.figure:
        _plot(curves, arguments.figure)


def _is_available(name: str) -> bool:
    if name == JPEG_XL:
        with suppress(ImportError):
            importlib.import_module("pillow_jxl")  # which tells Pillow of the format
    if name == OURS or OTHERS[name].is_available:
        return True
    print(f"{name} is left out: {_NEEDS.get(name, 'a Pillow that has it')} would be needed\n")
    return False


def _coded(name: str, image: Image.Image, arguments: argparse.Namespace) -> Iterator[Coded]:
    """Encode an image at each quality, write the file, read and decode it."""
    levels = np.asarray(image)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "coded")
        for quality, goal in _qualities(name, arguments):
            start_s = time.monotonic()
            if name == OURS:
                how: dict[str, Any] = {key: vars(arguments)[key] for key in _SHARED}
                content = nf.encode(levels, **how, **goal).content
            else:
                content = OTHERS[name].encode(image, int(quality))
            path.write_bytes(content)
            middle_s = time.monotonic()
            if name == OURS:
                decoded = nf.decode(path, device=arguments.decode_on).levels()
            else:
                decoded = OTHERS[name].decode(path.read_bytes(), image.mode)
            seconds = middle_s - start_s, time.monotonic() - middle_s
            db = psnr_db(decoded / 255, levels / 255)
            bits = 8 * len(content) / (image.width * image.height)
            found = {"bytes": len(content), "bpp": bits, "psnr_db": db}
            missed = "".join(f": {found[key] / goal[key] - 1:+.1%}" for key in goal if key in found)
            yield Coded(quality + missed, bits, db, *seconds)


def _qualities(name: str, arguments: argparse.Namespace) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a codec is to aim for: in words, and for ours as an argument of `nf.encode`."""
    if name != OURS:
        yield from ((str(quality), {}) for quality in OTHERS[name].qualities)
    elif arguments.targets:
        for text in arguments.targets:
            goal, value = text.split("=")
            yield text, {goal: float(value)}
    else:
        yield from ((f"{value:g}", {"lambda_": value}) for value in arguments.lambdas)


def _print_means(curves: dict[str, dict[str, Curve]]) -> None:
    print()
    print_header("codec", "mean bits/pixel and dB of each quality")
    for name, own in curves.items():
        means = mean_curve(list(own.values()))
        print_row(name, ", ".join(f"{bits:.3f} {db:.2f}" for bits, db in means))


def _print_bd_rates(curves: dict[str, dict[str, Curve]]) -> None:
    print()
    anchors = {"BPG": BPG, "Cool-Chic 5.0": COOL_CHIC}
    anchors |= {name: curves[name] for name in ("AVIF", JPEG_XL, "BPG") if name in curves}
    print_header("codec", *(f"bits at equal PSNR, to {name}" for name in anchors))
    for name, own in curves.items():
        cells = []
        for of_images in anchors.values():
            found = [
                bd_rate_percent(curve, of_images[image])
                for image, curve in own.items()
                if image in of_images
            ]
            cells.append(f"{np.mean(found):+.1f} % of {len(found)}" if found else "")
        print_row(name, *cells)


def _plot(curves: dict[str, dict[str, Curve]], path: Path) -> None:
    """Plot mean dB against mean bits."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 5), layout="constrained")
    axes = figure.subplots()
    for name, own in curves.items():
        axes.plot(*zip(*mean_curve(list(own.values())), strict=True), marker="o", label=name)
    axes.set(xlabel="bits per pixel", ylabel="PSNR in dB", xscale="log")
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device")
    add = parser.add_argument
    add("images", nargs="+", type=Path, help="image files; those of 16 bits or alpha become RGB")
    codecs = [OURS, *OTHERS]
    add("--codecs", nargs="+", choices=codecs, default=codecs, help="the codecs")
    add("--lambdas", nargs="+", type=float, default=_LAMBDAS, help="of ours: for few bits first")
    add("--targets", nargs="+", metavar="NAME=N", help="of ours: bytes, bpp or psnr_db of files")
    add("--decode-on", default="cpu", choices=("cpu", "gpu"), help="of ours: where to decode")
    add("--seconds", type=float, help="of ours: time of encoding")
    add("--steps", type=int, help="of ours: steps, in place of a time")
    add("--figure", type=Path, metavar="PNG", help="figure of mean dB against mean bits to write")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
