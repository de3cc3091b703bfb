"""The subcommands: each calls the API, and prints a line about the result."""

import logging
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic
from typing import Any

from tqdm import tqdm

import neuralfield as nf  # whose functions are imported on first use, because that takes a while
from neuralfield.api.arguments import render_sides, require_output, require_png
from neuralfield.fields import ImageShape
from neuralfield.images.image import usual_size_px
from neuralfield.images.image_file import image_size
from neuralfield.images.saving import write_bands, write_tiff_bands
from neuralfield.system.errors import InputError, NeuralfieldError
from neuralfield.system.files import write_atomically
from neuralfield.system.settings import AUTO

_MODEL_NAME = "model.safetensors"

_WRITERS = {".png": write_bands, ".tif": write_tiff_bands, ".tiff": write_tiff_bands}

_LINE_INTERVAL_S = 20.0
"""Seconds between lines of progress if the output is not a terminal, which has a bar."""

_OPTIONS_OF_FIT = {
    "seconds": "--seconds",
    "steps": "--steps",
    "device": "--device",
    "size": "--train-size",
    "seed": "--seed",
    "field": "--field",
    "preset": "--preset",
    "folder": "--folder",
    "max_megapixels": "--set max_megapixels",
}
_OPTIONS_OF_RENDER = {"box": "--crop", "size": "--size", "max_megapixels": "--max-megapixels"}
"""The options that set arguments of `neuralfield.fit` and of `ImageField.render_to`."""


def enlarge(chosen: Namespace) -> None:
    """Fit a network to an image, and render it."""
    output = Path(chosen.output or f"{Path(chosen.image).stem}_{chosen.size}.png")
    require_png("--output", output)
    if output.exists() and output.samefile(chosen.image):
        raise InputError("--output", f"{output}, which is the input image", "another file", "")
    # checked before the training, so that errors are not raised only after it
    shape = ImageShape(*image_size(Path(chosen.image)), channels=3)
    with _options_named(_OPTIONS_OF_RENDER):
        render_sides(shape, chosen.size, tuple(chosen.crop), chosen.max_megapixels)
    _render(_fitted(chosen), output, chosen)


def fit(chosen: Namespace) -> None:
    """Fit a network to an image."""
    _fitted(chosen)


def render(chosen: Namespace) -> None:
    """Render a network."""
    path = Path(chosen.model)
    output = Path(chosen.output or f"{_stem(path)}_{chosen.size}.png")
    require_png("--output", output)
    _render(_image_field(path, chosen.device), output, chosen)


def view(chosen: Namespace) -> None:
    """Write the page that evaluates a network, and open it."""
    path = Path(chosen.model)
    output = require_output("--output", chosen.output or f"{_stem(path)}.html")
    if output.suffix.lower() not in (".html", ".htm"):
        raise InputError("--output", f"{output}", "a name that ends with .html", "")
    _image_field(path, chosen.device).to_html(output)
    print(f"{output}: {output.stat().st_size:,} bytes", flush=True)
    if chosen.open:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())


def trace(chosen: Namespace) -> None:
    """Write a drawing as SVG, from a saved network or after fitting one."""
    path = Path(chosen.image)
    is_model = path.is_dir() or path.suffix == Path(_MODEL_NAME).suffix
    output = require_output("--output", chosen.output or f"{_stem(path)}.svg")
    if output.suffix.lower() != ".svg":
        raise InputError("--output", f"{output}", "a name that ends with .svg", "")
    if not is_model and not (chosen.preset or chosen.field):
        chosen.preset = "line_art"
    field = _image_field(path, chosen.device) if is_model else _fitted(chosen)
    with _options_named({"tolerance": "--tolerance"}):
        field.to_svg(output, tolerance=chosen.tolerance, paper=chosen.paper)
    print(f"{output}: {output.stat().st_size:,} bytes", flush=True)


def encode(chosen: Namespace) -> None:
    """Code an image in few bits."""
    image = Path(chosen.image)
    output = require_output("--output", chosen.output or f"{image.stem}.nfz")
    names = ("bytes", "bpp", "psnr_db", "seconds", "steps", "mode", "seed", "tile", "folder")
    options = {name: getattr(chosen, name) for name in (*names, "max_megapixels")}
    options |= {"lambda_": chosen.bit_weight, "progress": sys.stderr.isatty()}
    if not sys.stderr.isatty():
        options["callback"] = _progress_lines(image)
    flags = {name: f"--{name.replace('_', '-')}" for name in options}
    with _notes_shown(image), _options_named(flags | {"lambda_": "--lambda"}):
        encoded = nf.encode(image, **options)
    encoded.save(output)
    print(
        f"{output}: {len(encoded.content):,} bytes, {encoded.bits_per_pixel:.3f} bits per pixel,"
        f" {encoded.psnr_db:.2f} dB; lambda {encoded.lambda_:.2e}, {encoded.steps:,} steps",
        flush=True,
    )


def decode(chosen: Namespace) -> None:
    """Write the image of a coded file as PNG or TIFF, or as a page that contains the file."""
    from neuralfield.api.decoding import content_of, decoded_bands, page_of

    path = Path(chosen.file)
    output = require_output("--output", chosen.output or f"{path.stem}.png")
    kind = output.suffix.lower()
    if kind not in _WRITERS and kind != ".html":
        expected = "a name that ends with .png, .tif, .tiff or .html"
        raise InputError("--output", f"{output}", expected, "")
    if kind == ".html":
        if chosen.region:
            raise InputError("--region", chosen.region, "no region for a page", "remove it")
        write_atomically(output, page_of(path, chosen.max_megapixels).encode())
    else:
        with _options_named({"region": "--region", "max_megapixels": "--max-megapixels"}):
            found = decoded_bands(*content_of(path), chosen.region, chosen.max_megapixels)
        width, height, bands = found
        _WRITERS[kind](output, bands, width, height, 8)
    print(f"{output}: {output.stat().st_size:,} bytes", flush=True)


def info(chosen: Namespace) -> None:
    """Print the contents of a file."""
    path = Path(chosen.model)
    if path.suffix.lower() == ".nfz":
        from neuralfield.api.decoding import content_of, in_words

        print(f"{path}: {in_words(*content_of(path))}")
        return
    found = nf.load(path, device="cpu")
    print(f"{path}: {found!r}")
    if isinstance(found, nf.ImageField):
        model, settings = found.model, found.settings
        if found.history:
            print(f"fit: {_level(found)}, after {found.history['seconds'][-1]:.1f} s")
    else:
        model = found.model_
        settings = model.settings.described()
        print(_ends_in_words(found))
    print("network:", _in_words(settings))
    training = model.metadata.get("training")
    if isinstance(training, dict):
        print("training:", _in_words(training))


def _ends_in_words(found: "nf.TableRegressor | nf.ImageClassifier") -> str:
    """Return the inputs and outputs of a network that is not of an image, in words."""
    if isinstance(found, nf.TableRegressor):
        columns = found.model_
        return f"inputs: {', '.join(columns.inputs)}\ntargets: {', '.join(columns.targets)}"
    shape, classes = found.model_.shape, found.model_.classes
    return f"inputs: images of {shape.width} x {shape.height} pixels\nclasses: {classes}"


def _fitted(chosen: Namespace) -> "nf.ImageField":
    """Fit a network with the given options, or load the result of an earlier call with the same."""
    image = Path(chosen.image)
    size = chosen.train_size or usual_size_px(*image_size(image))
    folder = Path(chosen.folder or f"{image.stem}.field")
    preset = chosen.preset or (None if chosen.field else AUTO)
    same_names = ("field", "steps", "seconds", "seed", "device")
    options: dict[str, Any] = {name: getattr(chosen, name) for name in same_names}
    options |= {"preset": preset, "size": size, "folder": folder, "progress": sys.stderr.isatty()}
    if not sys.stderr.isatty():
        options["callback"] = _progress_lines(image)
    for name, _ in chosen.set:
        if name in options or name == "image":
            expected = "a setting of the network or of its training"
            raise InputError("--set", name, expected, "neuralfield fit --help lists the options")
    with _notes_shown(image), _options_named(_OPTIONS_OF_FIT):
        field = nf.fit(image, **options, **dict(chosen.set))
    steps, seconds = field.history["step"][-1], field.history["seconds"][-1]
    print(
        f"{folder / _MODEL_NAME}: {field.settings['type']},"
        f" {field.parameter_count:,} parameters, fitted to {field.width} x {field.height} pixels"
        f" in {steps:,.0f} steps and {seconds:.1f} s: {_level(field)}",
        flush=True,
    )
    return field


def _level(field: "nf.ImageField") -> str:
    """Return the PSNR of a network in words, noting whether renders are corrected in addition."""
    corrected = "" if field.model.residual is None else " without the correction of renders"
    return f"{field.history['psnr_db'][-1]:.2f} dB{corrected}"


@contextmanager
def _options_named(options: dict[str, str]) -> Iterator[None]:
    """Name options of the command, in place of arguments of the API, in errors of this context."""
    try:
        yield
    except NeuralfieldError as error:
        if error.where not in options:
            raise
        remedy = error.remedy.replace("device: ", "--device ")
        remedy = remedy.replace("max_megapixels", options["max_megapixels"])
        raise type(error)(options[error.where], error.found, error.expected, remedy) from error


@contextmanager
def _notes_shown(image: Path) -> Iterator[None]:
    """Print the package's log lines in this context, such as the duration of a training."""

    class Notes(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tqdm.write(f"{image}: {record.getMessage()}", file=sys.stderr)

    log, handler = logging.getLogger("neuralfield"), Notes()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _progress_lines(image: Path) -> Callable[[dict[str, float]], None]:
    """Return a callback that prints the progress from time to time."""
    printed_s = monotonic()

    def report(row: dict[str, float]) -> None:
        nonlocal printed_s
        if monotonic() - printed_s >= _LINE_INTERVAL_S:
            printed_s = monotonic()
            text = f"{image}: step {row['step']:,.0f}, {row['psnr_db']:.2f} dB"
            print(text, file=sys.stderr, flush=True)

    return report


def _render(field: "nf.ImageField", output: Path, chosen: Namespace) -> None:
    options = {"bit_depth": chosen.bits, "max_megapixels": chosen.max_megapixels}
    options["paper"] = chosen.paper
    with _options_named(_OPTIONS_OF_RENDER):
        width, height = field.render_to(output, chosen.size, box=tuple(chosen.crop), **options)
    print(f"{output}: {width} x {height} pixels")


def _stem(path: Path) -> str:
    """Return the stem of the names of files that are made from a network."""
    return (path.parent if path.name == _MODEL_NAME else path).resolve().stem


def _image_field(path: Path, device: str) -> "nf.ImageField":
    found = nf.load(path, device=device)
    if not isinstance(found, nf.ImageField):
        raise InputError(str(path), f"a {type(found).__name__}", "the network of an image", "")
    return found


def _in_words(settings: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())
