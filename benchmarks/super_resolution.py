"""Measures enlarged photographs by the protocol of papers on super-resolution.

    python benchmarks/super_resolution.py FOLDER --factors 2 3 4
    python benchmarks/super_resolution.py FOLDER --factors 4 --networks quality --longest 256

Each image of the folder, cut to whole training pixels, is a reference. It is reduced with MATLAB's
imresize (measuring/bicubic.py), a bicubic kernel scaled by `factor`, rounded to 8 bits, and
enlarged again. PSNR and SSIM are those of the luma Y of BT.601, from 16 to 235 and rounded to 8
bits, without `factor` pixels at each border. Rows are means over the images; SSIM is multiplied by
1,000.

A network is a preset or a network of config.yaml, followed by changed settings. All networks, and
the filter that is back-projected with a box, assume that a pixel is the mean over its square, which
is not the case here. Rows "bicubic known" are back-projected with the true kernel, like methods
that know the kernel. `--longest` first reduces larger images with a box filter, for networks on a
processor; published numbers are for images of the original size.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from measuring import bicubic
from measuring.command_line import new_parser, start
from measuring.field_runs import ImagePair
from measuring.images import images_in_folder
from measuring.measure import print_header, print_row
from measuring.preset_network import PresetNetwork

from neuralfield.images import ImageData
from neuralfield.images.metrics import psnr_db, ssim
from neuralfield.images.resizing import back_projected
from neuralfield.system.device import Device, select_device

_BICUBIC = "bicubic"
_LUMA = np.array([65.481, 128.553, 24.966]) / 255
_BLACK = 16 / 255
_HEADER = (
    *("factor", "method", "kernel assumed", "images", "PSNR, dB", "over bicubic", "least"),
    *("SSIM", "over bicubic"),
)


class Quality(NamedTuple):
    """PSNR in dB and SSIM of an enlarged image."""

    db: float
    ssim: float


def main(arguments: argparse.Namespace) -> None:
    """Print a row for each method and factor."""
    networks = [PresetNetwork.read(text) for text in arguments.networks]
    device = select_device(arguments.device)
    print(f"{device.name}, {arguments.threads} threads; {arguments.folder}\n")
    print_header(*_HEADER)
    for factor in arguments.factors:
        found: dict[tuple[str, str], list[Quality]] = {}
        for _, image in images_in_folder(arguments.folder, arguments.longest, factor):
            truth = image.converted("rgb").values()
            pixels = ImageData.from_values(np.clip(bicubic.reduced(truth, factor), 0, 1), "rgb", 8)
            pair = ImagePair(pixels, ImageData.from_values(truth, "rgb", 8))
            for method, values in _enlarged(pair, factor, networks, device, arguments.threads):
                found.setdefault(method, []).append(quality(values, truth, factor))
        for method, qualities in found.items():
            _print_means(factor, method, qualities, found[_BICUBIC, "-"])


def _enlarged(
    pair: ImagePair, factor: int, networks: list[PresetNetwork], device: Device, threads: int
) -> Iterator[tuple[tuple[str, str], np.ndarray]]:
    """Yield the name of each method, the kernel that it assumes, and its enlarged image."""
    small = pair.small.values()
    yield (_BICUBIC, "-"), bicubic.enlarged(small, factor)
    lanczos = bicubic.enlarged(small, factor, "lanczos")
    yield ("lanczos", "-"), lanczos
    channels = [back_projected(lanczos[..., c], small[..., c]) for c in range(small.shape[2])]
    yield ("lanczos, back-projected", "box"), np.stack(channels, axis=2)
    corrected = bicubic.back_projected(lanczos, small, factor)
    yield ("lanczos, back-projected", "bicubic known"), corrected
    for network in networks:
        (values,), _ = network.renders(pair, device, threads)
        yield (network.text, "box"), values
        corrected = bicubic.back_projected(np.clip(values, 0, 1), small, factor)
        yield (network.text, "bicubic known"), corrected


def quality(values: np.ndarray, truth: np.ndarray, border_px: int) -> Quality:
    """Compare the luma of two images, shape (height, width, 3), without their borders."""
    inside = slice(border_px, -border_px)
    seen, true = (luma(image)[inside, inside] for image in (values, truth))
    return Quality(psnr_db(seen, true), ssim(seen, true))


def luma(values: np.ndarray) -> np.ndarray:
    """Return the luma of BT.601, from 16 / 255 to 235 / 255 and rounded to 8 bits."""
    levels = np.round(255 * np.clip(values, 0, 1)) / 255
    return np.round(255 * (_BLACK + levels @ _LUMA)) / 255


def _print_means(
    factor: int, method: tuple[str, str], found: list[Quality], of_bicubic: list[Quality]
) -> None:
    over = np.subtract(found, of_bicubic)
    db, similarity = np.mean(found, axis=0)
    over_db, over_ssim = np.mean(over, axis=0)
    numbers = (f"{db:.2f}", f"{over_db:+.2f}", f"{over[:, 0].min():+.2f}")
    similarities = (f"{1000 * similarity:.1f}", f"{1000 * over_ssim:+.1f}")
    print_row(f"x{factor}", *method, str(len(found)), *numbers, *similarities)


def _parser() -> argparse.ArgumentParser:
    parser = new_parser(__doc__, "device", "threads")
    add = parser.add_argument
    add("folder", type=Path, help="a folder of images")
    add("--factors", nargs="+", type=int, default=[2, 3, 4], help="how much images are reduced")
    add("--networks", nargs="*", default=[], help="presets or networks, with changed settings")
    add("--longest", type=int, help="pixels of the longest side; larger images are reduced first")
    return parser


if __name__ == "__main__":
    start(main, _parser(), blas_threads=1)
