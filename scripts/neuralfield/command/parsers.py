"""The arguments of the command, and its help."""

import argparse
import json
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

from neuralfield import __version__
from neuralfield.command.actions import decode, encode, enlarge, fit, info, render, trace, view
from neuralfield.rendering.vectors.drawing_svg import TOLERANCE_PX
from neuralfield.system.durations import seconds_of
from neuralfield.tasks.image.presets import FIT_PRESETS

_DESCRIPTION = """\
Fit a small neural network to an image, and render it at any size.

  neuralfield photo.jpg --size 4096        writes photo_4096.png, and photo.field/
  neuralfield fit photo.jpg                writes photo.field/ only
  neuralfield render photo.field --size N  renders what was fitted, or any model.safetensors
  neuralfield view photo.field             writes photo.html, to zoom and share
  neuralfield trace drawing.jpg            fits a drawing, and writes it as drawing.svg
  neuralfield encode photo.jpg --bytes N   codes an image in few bits, as photo.nfz
  neuralfield decode photo.nfz             writes a coded image as photo.png, or as a page
  neuralfield info photo.field             prints what it contains

`neuralfield COMMAND --help` lists the options of a command. To resume an interrupted fit, run the
same command again. `--crop 0.2 0.2 0.6 0.6` renders a part, in fractions of the sides.
"""
_FIT_EXAMPLES = """\
examples:
  neuralfield fit photo.jpg --seconds 5m --train-size 512
  neuralfield fit drawing.png --preset line_art
  neuralfield fit photo.jpg --field siren --steps 2000 --set width=64 --set optimizer=muon
"""
_RENDER_EXAMPLES = """\
examples:
  neuralfield render photo.field --size 4096
  neuralfield render photo.field --size 800 --crop 0.2 0.2 0.6 0.6 -o eye.png
"""
_VIEW_EXAMPLES = """\
examples:
  neuralfield view photo.field --open
  neuralfield view results/lion_cub/siren/model.safetensors -o cub.html
"""
_TRACE_EXAMPLES = """\
examples:
  neuralfield trace drawing.jpg -o drawing.svg
  neuralfield trace drawing.field --tolerance 0.1 --no-paper
"""
_ENCODE_EXAMPLES = """\
examples:
  neuralfield encode photo.jpg -o photo.nfz --bytes 20000
  neuralfield encode photo.png --psnr-db 38 --seconds 5m
  neuralfield encode survey.tif --bpp 0.5 --tile 1024 --folder states
"""
_DECODE_EXAMPLES = """\
examples:
  neuralfield decode photo.nfz -o photo.png
  neuralfield decode photo.nfz -o photo.html
  neuralfield decode survey.nfz -o survey.tif
  neuralfield decode survey.nfz -o part.png --region 9000 4000 1920 1080
"""
_ENLARGE_EXAMPLES = """\
examples:
  neuralfield photo.jpg --size 4096
  neuralfield drawing.png --size 4096 --preset line_art --seconds 60
"""


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse the arguments; without a subcommand, the first is an image to fit and render."""
    parsers = {
        "fit": (_fit_parser, "fit a network to an image", _FIT_EXAMPLES),
        "render": (_render_parser, "render a network", _RENDER_EXAMPLES),
        "view": (_view_parser, "write a page that evaluates a network", _VIEW_EXAMPLES),
        "trace": (_trace_parser, "write a drawing as SVG", _TRACE_EXAMPLES),
        "encode": (_encode_parser, "code an image in few bits", _ENCODE_EXAMPLES),
        "decode": (_decode_parser, "write the image of a coded file", _DECODE_EXAMPLES),
        "info": (partial(_add_model, action=info), "print what a file contains", ""),
    }
    if arguments and arguments[0] in parsers:
        add, description, examples = parsers[arguments[0]]
        parser = _parser(f"neuralfield {arguments[0]}", f"{description.capitalize()}.", examples)
        add(parser)
        return parser.parse_args(arguments[1:])
    parser = _parser("neuralfield", _DESCRIPTION, _ENLARGE_EXAMPLES)
    parser.usage = f"neuralfield IMAGE [options]\n       neuralfield {{{','.join(parsers)}}} ..."
    if arguments and not Path(arguments[0]).exists():
        for close in get_close_matches(arguments[0], parsers, 1):
            parser.error(f"no file or command {arguments[0]!r}; did you mean {close}?")
    parser.add_argument("--version", action="version", version=__version__)
    _fit_parser(parser)
    _add_size_and_crop(parser)
    parser.add_argument(
        "-o", "--output", metavar="PNG", help="file to write; default: IMAGE_SIZE.png"
    )
    parser.set_defaults(action=enlarge)
    if not arguments:
        parser.print_help()
        parser.exit(2)
    return parser.parse_args(arguments)


def _parser(name: str, description: str, epilog: str) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(
        name,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def _fit_parser(
    parser: argparse.ArgumentParser, image: str = "image file: PNG, JPEG, TIFF, WebP, ..."
) -> None:
    add = parser.add_argument
    add("image", metavar="IMAGE", help=image)
    add(
        "--preset",
        choices=[*FIT_PRESETS, "auto"],
        help="ready-made settings: line_art for drawings and prints, quality for photographs,"
        " fast for a close fit in seconds; default: auto, which selects line_art or quality",
    )
    add(
        "--field",
        metavar="TYPE",
        help="type of network instead of a preset: siren, finer, wire, gauss, fourier, hashgrid,"
        " ...",
    )
    add(
        "--seconds",
        type=_seconds,
        metavar="S",
        help="training time: 60, 90s, 5m; default: the number of steps of the preset, on a CPU at"
        " most two minutes",
    )
    add(
        "--steps",
        type=int,
        metavar="N",
        help="number of training steps, instead of a training time",
    )
    add(
        "--train-size",
        type=_count,
        metavar="N",
        help="longer side in pixels of the training image; default: 256",
    )
    add(
        "--seed",
        type=int,
        default=0,
        metavar="N",
        help="random seed: another seed gives another network; default: 0",
    )
    add(
        "--set",
        action="append",
        default=[],
        type=_setting,
        metavar="NAME=VALUE",
        help="any other setting in docs/fields.md or in the section training of config.yaml;"
        " also mode, page, restore, and max_megapixels for an image of more than 100 megapixels",
    )
    add("--folder", metavar="FOLDER", help="folder to write the network to; default: IMAGE.field")
    _add_device(parser)
    parser.set_defaults(action=fit)


def _render_parser(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, render)
    _add_size_and_crop(parser)
    parser.add_argument(
        "-o", "--output", metavar="PNG", help="file to write; default: MODEL_SIZE.png"
    )
    _add_device(parser)


def _view_parser(parser: argparse.ArgumentParser) -> None:
    _add_model(parser, view)
    parser.add_argument("-o", "--output", metavar="HTML", help="file to write; default: MODEL.html")
    parser.add_argument("--open", action="store_true", help="open the page in the browser")
    _add_device(parser)


def _trace_parser(parser: argparse.ArgumentParser) -> None:
    _fit_parser(parser, "drawing to fit, by the preset line_art; or a folder or file to render")
    parser.add_argument("-o", "--output", metavar="SVG", help="file to write; default: IMAGE.svg")
    parser.add_argument(
        "--tolerance",
        type=float,
        default=TOLERANCE_PX,
        metavar="PIXELS",
        help="maximum distance of curves from contours, in pixels of the training image;"
        " default: %(default)s",
    )
    _add_no_paper(parser)
    parser.set_defaults(action=trace)


def _encode_parser(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("image", metavar="IMAGE", help="image file, which is coded at its own size")
    add("-o", "--output", metavar="FILE", help="file to write; default: IMAGE.nfz")
    target = parser.add_mutually_exclusive_group()
    target.add_argument("--bytes", type=_count, metavar="N", help="size of the file in bytes")
    target.add_argument("--bpp", type=float, metavar="N", help="size in bits per pixel")
    target.add_argument("--psnr-db", type=float, metavar="N", help="quality as PSNR in dB")
    target.add_argument(
        "--lambda",
        type=float,
        dest="bit_weight",
        metavar="N",
        help="weight of a bit per pixel against the mean squared error: 2e-2 for few bits, 1e-4 for"
        " many; default: 1e-3",
    )
    add("--seconds", type=_seconds, metavar="S", help="time of training: 60, 90s, 5m")
    add("--steps", type=int, metavar="N", help="training steps instead of a time; default: 3000")
    add(
        "--tile",
        type=int,
        metavar="N",
        help="code an image with a side of more than N pixels in tiles of at most N pixels, each"
        " with all of the steps; default: 2048 for images of more than 16 megapixels",
    )
    add("--mode", default="auto", help="auto, grey, rgb or rgba; default: auto, as the image is")
    add("--seed", type=int, default=0, metavar="N", help="random seed; default: 0")
    add("--folder", metavar="FOLDER", help="folder of states, to resume after an interruption")
    add(
        "--max-megapixels",
        type=float,
        default=2000.0,
        metavar="N",
        help="maximum size of the image in megapixels; default: 2000",
    )
    parser.set_defaults(action=encode)


def _decode_parser(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", metavar="FILE", help="file written by encode (.nfz)")
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="file to write: a PNG, a TIFF (.tif), or a page (.html) that decodes the file in the"
        " browser; default: FILE.png",
    )
    add(
        "--region",
        type=int,
        nargs=4,
        metavar=("X", "Y", "WIDTH", "HEIGHT"),
        help="part of the image to write, in pixels from its top left",
    )
    add(
        "--max-megapixels",
        type=float,
        metavar="N",
        help="maximum size of the image in megapixels; default: 100, or 2000 in tiles",
    )
    parser.set_defaults(action=decode)


def _add_model(parser: argparse.ArgumentParser, action: Callable[..., None]) -> None:
    parser.add_argument(
        "model", metavar="MODEL", help="folder written by fit, or a model.safetensors file"
    )
    parser.set_defaults(action=action)


def _add_size_and_crop(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--size",
        type=_count,
        default=1024,
        metavar="N",
        help="longer side in pixels; default: 1024",
    )
    parser.add_argument(
        "--crop",
        type=float,
        nargs=4,
        default=(0.0, 0.0, 1.0, 1.0),
        metavar=("LEFT", "TOP", "RIGHT", "BOTTOM"),
        help="the part to render, in fractions of the sides",
    )
    _add_no_paper(parser)
    parser.add_argument("--bits", type=int, choices=(8, 16), default=8, help="bits per channel")
    parser.add_argument(
        "--max-megapixels",
        type=float,
        default=400.0,
        metavar="N",
        help="maximum size of a render in megapixels; default: 400",
    )


def _add_no_paper(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--no-paper",
        action="store_false",
        dest="paper",
        help="leave the paper of a drawing transparent",
    )


def _add_device(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")


def _seconds(text: str) -> float:
    seconds = seconds_of(text)
    try:
        return float(text) if seconds is None else seconds
    except ValueError:
        message = f"{text!r} is not a duration such as 60, 90s, 30m or 2h"
        raise argparse.ArgumentTypeError(message) from None


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= 1")
    return int(text)


def _setting(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the value is a number, true, false, a list like [64, 64], or text."""
    name, equals, value = text.partition("=")
    if not (name and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form NAME=VALUE")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
