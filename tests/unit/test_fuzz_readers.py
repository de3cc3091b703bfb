"""Files from anywhere, read by every reader: an answer or an error of one line; soon, in few bytes.

The quick suite gives each reader some hundred files; `make fuzz` ten thousand, each time others.
"""

import contextlib
import gzip
import io
import json
import resource
import string
import struct
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tifffile
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import VALUES, changed_within, mutated
from PIL import Image
from small_fields import SMALL_FIELDS
from workspace import SETTINGS

import configuration
import estimates
from config_file import require_harmless
from neuralfield.checkpoint import load_arrays, save_arrays
from neuralfield.classifiers.idx import read_idx, write_idx
from neuralfield.classifiers.model import ClassifierModel, load_classifier, save_classifier
from neuralfield.device import select_device
from neuralfield.errors import NeuralfieldError
from neuralfield.fields import NETWORKS, PictureShape, build_field, network_settings
from neuralfield.files import write_atomically
from neuralfield.history import read_history
from neuralfield.images import (
    Picture,
    read_facts,
    read_picture,
    read_pixel_csv,
    write_facts,
    write_pixel_csv,
)
from neuralfield.model import load_model, save_model
from neuralfield.model_json import import_model_json
from neuralfield.networks.classifier import ConvolutionalClassifier
from neuralfield.networks.dense import Dense
from neuralfield.render import render
from neuralfield.tables.model import TableModel, load_table_model, save_table_model
from neuralfield.tables.samples import read_samples
from neuralfield.tables.scaling import Scaling
from startup import UserError

MEMORY_BYTES = 768 << 20
"""What a reader may take for these files of a few KB, beyond what the process has already."""

DEADLINE = timedelta(seconds=20)
QUICK, LONG = 150, 10_000
CPU = select_device("cpu")
RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Reader:
    """A reader, files that it reads, and what else it may raise."""

    read: Callable[[Path], object]
    files: st.SearchStrategy[bytes]
    refusals: tuple[type[Exception], ...] = (NeuralfieldError,)


def written(write: Callable[[Path], object], name: str = "file") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, name))
        return Path(folder, name).read_bytes()


def pictures() -> list[bytes]:
    colour = Image.fromarray(RNG.integers(0, 256, (11, 13, 3), dtype=np.uint8))
    deep = RNG.integers(0, 65536, (11, 13, 3)).astype(np.uint16)
    frames = {"save_all": True, "append_images": [colour.rotate(90), colour.rotate(180)]}
    alpha = colour.convert("RGBA")
    found = []
    for format, image, options in (
        *(("PNG", colour, {}), ("PNG", alpha, {}), ("PNG", colour.quantize(7), {})),
        *(("PNG", colour.convert("1"), {}), ("PNG", colour, frames), ("JPEG", colour, {})),
        *(("JPEG", colour, {"progressive": True}), ("JPEG", colour.convert("CMYK"), {})),
        *(("WEBP", colour, {}), ("WEBP", alpha, {"lossless": True}), ("WEBP", colour, frames)),
        *(("GIF", colour, {}), ("GIF", colour, frames), ("BMP", colour, {}), ("PPM", colour, {})),
        *(("TIFF", colour, {}), ("TIFF", colour, {"compression": "tiff_lzw"})),
        *(("TIFF", colour, {"compression": "jpeg"}), ("TIFF", colour, frames)),
        *(("TIFF", colour.convert("1"), {"compression": "group4"}), ("JPEG2000", colour, {})),
        *(("ICO", colour, {}), ("TGA", colour, {}), ("PCX", colour, {}), ("AVIF", colour, {})),
    ):
        content = io.BytesIO()
        with contextlib.suppress(OSError, KeyError):  # Pillow was built without it
            image.save(content, format, **options)
            found.append(content.getvalue())
    deep_options: list[dict[str, Any]] = [{}, {"compression": "zlib"}, {"tile": (16, 16)}]
    for options in deep_options:
        content = io.BytesIO()
        tifffile.imwrite(content, deep, photometric="rgb", **options)
        found.append(content.getvalue())
    return found


def tables() -> list[bytes]:
    shapes = {"grey": (3, 4, 1), "rgb": (3, 4, 3), "rgba": (2, 2, 4)}
    found = []
    for mode, shape in shapes.items():
        picture = Picture(RNG.integers(0, 256, shape, dtype=np.uint8), mode, 8)
        found.append(written(lambda path, picture=picture: write_pixel_csv(path, picture)))
    return [*found, b"x,y,pixel_value\n0,0,1\n2147483646,2147483646,1\n"]


def table_of_cells() -> st.SearchStrategy[bytes]:
    cell = st.one_of(
        st.integers(-2, 3).map(str),
        st.sampled_from(
            ["0.5", "1", "1e0", "nan", "inf", "", " ", "0x1", "9" * 19, "1,", '"', "é"]
        ),
        st.text(string.printable, max_size=5),
    )
    row = st.lists(cell, min_size=3, max_size=3).map(",".join)
    rows = st.lists(row, max_size=6)
    return rows.map(lambda lines: "\n".join(["x,y,pixel_value", *lines]).encode())


FIELD_SETTINGS = [
    *({"type": kind} | small for kind, small in SMALL_FIELDS.items()),
    {"type": "upscaler", "hidden_layers": 1, "channels": 3, "crop": 4},
]


def save_network(path: Path, field: dict) -> None:
    own, shape = network_settings(field), PictureShape(6, 5, 3)
    save_model(path, build_field(own, shape), own, shape, "rgb", {"step": 3, "training": {}})


def networks() -> list[bytes]:
    return [written(lambda path, f=field: save_network(path, f)) for field in FIELD_SETTINGS]


@st.composite
def networks_with_a_checksum(draw: st.DrawFn) -> bytes:
    """What somebody would write who wants it to be believed: anything, with the right checksum."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        save_network(path, draw(st.sampled_from(FIELD_SETTINGS)))
        arrays, description = load_arrays(path)
        description = draw(changed_within(description))
        for name in list(arrays):
            kind = draw(st.integers(0, 12))
            if kind == 0:
                arrays[draw(st.text(string.ascii_letters, max_size=9))] = arrays.pop(name)
            elif kind == 1:
                arrays[name] = arrays[name].astype(draw(st.sampled_from(["f2", "i8", "u1", "?"])))
            elif kind == 2:
                arrays[name] = arrays[name] * draw(st.floats(width=32))
            elif kind == 3:
                arrays[name] = arrays[name].reshape(-1, 1)
        # JSON knows no numbers beyond its own; what cannot be written is no file
        save_arrays(path, arrays, json.loads(json.dumps(description)))
        return path.read_bytes()


def read_network(path: Path) -> None:
    with np.errstate(all="ignore"):  # of weights that are finite, and large
        values = render(load_model(path), 3, 2, device=CPU, samples=1)
    assert values.shape[:2] == (2, 3) and np.isfinite(values).all()


def original_weights() -> dict:
    layers = []
    for number, (into, out) in enumerate(((3, 4), (4, 1))):
        weights = [round(float(w), 3) for w in RNG.normal(size=into * out)]
        name = f"fc{number}"
        layers.append(
            {"layer_type": "Linear", "name": name, "shape": [into, out], "weights": weights}
        )
        layers.append({"layer_type": "Sigmoid" if number else "Tanh", "name": f"a{number}"})
    return {"layers": layers}


def samples() -> list[bytes]:
    return [b"a,b,t\n0,1.5,1\n-2e-3,4,0\n", b"\xef\xbb\xbft, a ,note,b\r\n1,2,x,3\r\n"]


def samples_of_cells() -> st.SearchStrategy[bytes]:
    cell = st.one_of(
        st.floats(width=32).map(str),
        st.sampled_from(["0", "1", "", " ", "NA", "True", "1e999", "9" * 400, "1,", '"', "é"]),
        st.text(string.printable, max_size=5),
    )
    names = st.permutations(["a", "b", "t", "a"]).map(lambda some: some[:3])
    rows = st.lists(st.lists(cell, min_size=3, max_size=3), max_size=6)
    lines = st.tuples(names, rows).map(lambda table: [table[0], *table[1]])
    return lines.map(lambda some: "\n".join(map(",".join, some)).encode())


def save_table_network(path: Path) -> None:
    network, one = Dense((3,), output="sigmoid"), np.ones(1)
    model = TableModel(
        network, ("a", "b"), ("t",), Scaling(np.zeros(2), np.ones(2)), Scaling(0 * one, one), {}
    )
    record = {"step": 3, "training": {}, "table": "digest"}
    save_table_model(path, network.build(2, 1, np.random.default_rng(0)), model, record)


@st.composite
def table_networks_with_a_checksum(draw: st.DrawFn) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        save_table_network(path)
        arrays, description = load_arrays(path)
        changed = json.loads(json.dumps(draw(changed_within(description))))
        save_arrays(path, arrays, changed)
        return path.read_bytes()


def read_table_network(path: Path) -> None:
    model = load_table_model(path)
    with np.errstate(all="ignore"):
        answers = model.predict(np.zeros((3, len(model.inputs))))
    assert answers.shape == (3, len(model.targets))


def idx_files() -> list[bytes]:
    pictures = RNG.integers(0, 256, (3, 5, 4), dtype=np.uint8)
    plain = [
        written(lambda path, v=values: write_idx(path, v)) for values in (pictures, pictures[0, 0])
    ]
    return [*plain, *map(gzip.compress, plain)]


def headers_of_idx_files() -> st.SearchStrategy[bytes]:
    sizes = st.lists(st.sampled_from([0, 1, 3, 4096, 1 << 16, 2**32 - 1]), max_size=4)
    values = st.integers(0, 40).map(bytes)

    def content(parts: tuple[list[int], bytes, bool]) -> bytes:
        shape, follows, packed = parts
        whole = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + follows
        return gzip.compress(whole) if packed else whole

    return st.tuples(sizes, values, st.booleans()).map(content)


def save_small_classifier(path: Path) -> None:
    settings, shape = ConvolutionalClassifier((2,), 3, 1, 2, (4,)), PictureShape(6, 5, 1)
    model = ClassifierModel(settings, shape, 3, Scaling(np.ones(1), np.ones(1)), {})
    record = {"step": 3, "training": {}, "pictures": "digest"}
    save_classifier(path, settings.build(shape, 3, np.random.default_rng(0)), model, record)


@st.composite
def classifiers_with_a_checksum(draw: st.DrawFn) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        save_small_classifier(path)
        arrays, description = load_arrays(path)
        changed = json.loads(json.dumps(draw(changed_within(description))))
        save_arrays(path, arrays, changed)
        return path.read_bytes()


def read_classifier(path: Path) -> None:
    model = load_classifier(path)
    shape = (2, model.shape.height, model.shape.width)
    with np.errstate(all="ignore"):
        answers = model.probabilities(np.zeros(shape, np.uint8))
    assert answers.shape == (2, model.classes)


def as_json(strategy: st.SearchStrategy) -> st.SearchStrategy[bytes]:
    return strategy.map(lambda value: json.dumps(value).encode())


def read_config(path: Path) -> None:
    require_harmless(path)
    config = yaml.safe_load(path.read_text(encoding="utf-8"))
    if not isinstance(config, dict):
        return  # Snakemake says so
    found = configuration.read_settings(config, lambda place: "config.yaml")
    for image, field in configuration.runs(found):
        if found["fields"][field]["type"] != "imported":
            about = (found["images"][image], found["fields"][field], 1, 0)
            estimates.training_memory_mb(*about)
            estimates.training_minutes(*about)
    for table in found["tables"].values():
        estimates.table_memory_mb(table, 0)
        estimates.table_minutes(table)
    for classifier in found["classifiers"].values():
        estimates.classifier_memory_mb(classifier, 1, 0)
        estimates.classifier_minutes(classifier, 1, 0)


def picture_facts() -> bytes:
    picture = Picture(np.zeros((2, 3, 1), np.uint8), "grey", 8)
    return written(lambda path: write_facts(path, picture, picture))


def config_settings() -> dict:
    return SETTINGS | {
        "images": {"tiny": {"path": __file__, "size": 16, "mode": "grey", "fields": ["siren"]}},
        "tables": {"rows": {"path": __file__, "inputs": ["a", "b"], "targets": ["t"]}},
        "classifiers": {"digits": {"path": "workflow/resources/digits", "checksums": {}}},
        "max_megapixels": 3,
    }


HISTORY = b"step,seconds,loss,psnr_db,learning_rate\n1,0.1,0.3,5.0,0.001\n9,0.2,0.2,,0.001\n"
BOMBS = [
    b"a: &a [x, x]\nb: &b [*a, *a, *a, *a]\nc: [*b, *b]",
    b"images: !!python/object/apply:os.system [id]",
    b"__use_yte__: true\n?1+1: 2",
]
CONFIG = yaml.safe_dump(config_settings()).encode()

READERS = {
    "picture": Reader(lambda path: read_picture(path, max_megapixels=1), mutated(pictures())),
    "table": Reader(read_pixel_csv, st.one_of(mutated(tables()), table_of_cells())),
    "network": Reader(read_network, st.one_of(mutated(networks()), networks_with_a_checksum())),
    "model.json": Reader(
        lambda path: import_model_json(path, 8, 8),
        st.one_of(
            mutated([json.dumps(original_weights()).encode()]),
            as_json(changed_within(original_weights())),
        ),
    ),
    "config": Reader(
        read_config,
        st.one_of(
            mutated([CONFIG, *BOMBS]),
            as_json(changed_within(config_settings())),
            changed_within(config_settings()).map(lambda value: yaml.dump(value).encode()),
        ),
        (UserError, configuration.Problems),
    ),
    "picture.json": Reader(
        read_facts,
        st.one_of(
            mutated([picture_facts()]),
            as_json(changed_within(json.loads(picture_facts()))),
            as_json(VALUES),
        ),
    ),
    "history": Reader(read_history, mutated([HISTORY])),
    "samples": Reader(
        lambda path: read_samples(path, ["a", "b"], ["t"]),
        st.one_of(mutated(samples()), samples_of_cells()),
    ),
    "network of a table": Reader(
        read_table_network,
        st.one_of(mutated([written(save_table_network)]), table_networks_with_a_checksum()),
    ),
    "pictures with labels": Reader(
        lambda path: read_idx(path, 3), st.one_of(mutated(idx_files()), headers_of_idx_files())
    ),
    "labels": Reader(
        lambda path: read_idx(path, 1), st.one_of(mutated(idx_files()), headers_of_idx_files())
    ),
    "classifier": Reader(
        read_classifier,
        st.one_of(mutated([written(save_small_classifier)]), classifiers_with_a_checksum()),
    ),
}


@contextlib.contextmanager
def little_memory() -> Iterator[None]:
    """Within this context the process can have no more than some memory on top of what it has."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + MEMORY_BYTES, before[1])
    )
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


def fuzz(name: str, count: int, folder: Path, *, repeatable: bool) -> None:
    reader = READERS[name]

    @settings(
        max_examples=count,
        deadline=DEADLINE,
        derandomize=repeatable,
        database=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(reader.files)
    def one_file(content: bytes) -> None:
        path = folder / "file"
        path.write_bytes(content)
        try:
            reader.read(path)
        except reader.refusals as error:
            if isinstance(error, NeuralfieldError):
                assert "\n" not in str(error) and len(str(error)) < 4000
        assert [file.name for file in folder.iterdir()] == ["file"], "it has written something"

    with little_memory():
        one_file()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.mark.parametrize("name", READERS)
def test_a_reader_answers_or_says_why_not(tmp_path, name):
    fuzz(name, QUICK, tmp_path, repeatable=True)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", READERS)
def test_a_reader_answers_or_says_why_not_ten_thousand_times(tmp_path, name):
    fuzz(name, LONG, tmp_path, repeatable=False)


def test_every_kind_is_among_the_networks():
    assert {field["type"] for field in FIELD_SETTINGS} == set(NETWORKS)


def test_a_small_file_that_claims_a_huge_network(tmp_path):
    path = tmp_path / "model.safetensors"
    for claim in ({"width": 10**5}, {"width": 10**9}, {"hidden_layers": 10**9}):
        save_network(path, FIELD_SETTINGS[0])
        arrays, description = load_arrays(path)
        description["field"] |= claim
        save_arrays(path, arrays, description)
        with little_memory(), pytest.raises(NeuralfieldError, match="are too few for"):
            load_model(path)


def test_a_header_that_claims_more_than_the_file(tmp_path):
    path = tmp_path / "model.safetensors"
    header = {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
    text = json.dumps(header).encode()
    for content in (struct.pack("<Q", 1 << 62), struct.pack("<Q", len(text)) + text):
        write_atomically(path, content)
        with little_memory(), pytest.raises(NeuralfieldError, match="cannot be read"):
            load_model(path)
