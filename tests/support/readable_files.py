"""Files of every kind that the package reads: some valid, some almost valid."""

import contextlib
import gzip
import io
import json
import string
import struct
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import tifffile
import yaml
from hypothesis import strategies as st
from icc_profiles import ADOBE, GAMMA_1_8
from idx_writer import write_idx
from mutations import changed_within, mutated
from PIL import Image
from small_fields import SMALL_FIELDS
from workspace import SETTINGS

from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images import ImageData, write_facts, write_pixel_csv
from neuralfield.nn.scaling import Scaling
from neuralfield.system.checkpoint import load_arrays, save_arrays
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.convolutional_network import ConvolutionalClassifier
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.table.dense_network import Dense
from neuralfield.tasks.table.table_model import TableModel

RNG = np.random.default_rng(0)

packed = partial(gzip.compress, mtime=0)  # by default gzip stores the time


def written(write: Callable[[Path], object], name: str = "file") -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, name))
        return Path(folder, name).read_bytes()


def images() -> list[bytes]:
    colour = Image.fromarray(RNG.integers(0, 256, (11, 13, 3), dtype=np.uint8))
    deep = RNG.integers(0, 65536, (11, 13, 3)).astype(np.uint16)
    frames = {"save_all": True, "append_images": [colour.rotate(90), colour.rotate(180)]}
    profile, alpha, bits = {"icc_profile": ADOBE}, colour.convert("RGBA"), colour.convert("1")
    found = []
    for format, image, options in (
        *(("PNG", colour, profile), ("PNG", alpha, frames), ("PNG", colour.quantize(7), {})),
        *(("JPEG", colour, {"progressive": True}), ("JPEG", colour.convert("CMYK"), {})),
        *(("JPEG", colour.convert("L"), {"icc_profile": GAMMA_1_8}), ("WEBP", colour, {})),
        *(("WEBP", alpha, {"lossless": True} | frames), ("GIF", colour, frames), ("BMP", bits, {})),
        *(("PPM", colour, {}), ("TIFF", colour, {"compression": "jpeg"} | frames)),
        *(("TIFF", colour, {"compression": "tiff_lzw"} | profile), ("AVIF", colour, {})),
        ("TIFF", bits, {"compression": "group4"}),
    ):
        content = io.BytesIO()
        with contextlib.suppress(OSError, KeyError):  # Pillow was built without the format
            image.save(content, format, **options)
            found.append(content.getvalue())
    for pixels, tile in ((deep, None), (deep, (16, 16)), (deep / np.float32(65535), None)):
        content = io.BytesIO()
        tifffile.imwrite(content, pixels, photometric="rgb", tile=tile)
        found.append(content.getvalue())
    return found


def tables() -> list[bytes]:
    shapes = {"grey": (3, 4, 1), "rgb": (3, 4, 3), "rgba": (2, 2, 4)}
    found = []
    for mode, shape in shapes.items():
        image = ImageData(RNG.integers(0, 256, shape, dtype=np.uint8), mode, 8)
        found.append(written(lambda path, image=image: write_pixel_csv(path, image)))
    return [*found, b"x,y,pixel_value\n0,0,1\n2147483646,2147483646,1\n"]


_CELLS = ["0", "0.5", "1e0", "NA", "True", "1e999", "", " ", "0x1", "9" * 400, "1,", '"', "é"]


def table_of_cells(names: st.SearchStrategy[list[str]]) -> st.SearchStrategy[bytes]:
    """Sample tables with the given names of three columns, and cells that may not be numbers."""
    cell = st.one_of(
        st.integers(-2, 3).map(str),
        st.floats(width=32).map(str),
        st.sampled_from(_CELLS),
        st.text(string.printable, max_size=5),
    )
    rows = st.lists(st.lists(cell, min_size=3, max_size=3), max_size=6)
    lines = st.tuples(names, rows).map(lambda table: [table[0], *table[1]])
    return lines.map(lambda some: "\n".join(map(",".join, some)).encode())


FIELD_SETTINGS = [{"type": kind} | small for kind, small in SMALL_FIELDS.items()]


def save_network(path: Path, field: dict) -> None:
    own, shape = field_settings(field), ImageShape(6, 5, 3)
    arrays, record = build_field(own, shape).arrays, {"step": 3, "training": {}}
    Model(own, shape, "rgb", arrays, record).write(path)


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


def save_table_network(path: Path) -> None:
    network, one = Dense((3,), output="sigmoid"), np.ones(1)
    scaling = Scaling(np.zeros(2), np.ones(2)), Scaling(0 * one, one)
    arrays = network.build(2, 1, np.random.default_rng(0)).arrays
    record = {"step": 3, "training": {}, "table": "digest"}
    TableModel(network, ("a", "b"), ("t",), *scaling, arrays, record).write(path)


def saved_models(*saves: Callable[[Path], object]) -> st.SearchStrategy[bytes]:
    """Sample damaged model files, and wrong ones with a valid checksum, as of an attacker."""
    return st.one_of(mutated([written(save) for save in saves]), with_a_checksum(saves))


@st.composite
def with_a_checksum(draw: st.DrawFn, saves: tuple[Callable[[Path], object], ...]) -> bytes:
    """Sample a model file with a changed description or arrays, and a valid checksum."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "file")
        draw(st.sampled_from(saves))(path)
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
        # JSON only has some types of numbers; a description that it cannot hold makes no file
        save_arrays(path, arrays, json.loads(json.dumps(description)))
        return path.read_bytes()


def idx_files() -> list[bytes]:
    images = RNG.integers(0, 256, (3, 5, 4), dtype=np.uint8)
    plain = [
        written(lambda path, v=values: write_idx(path, v)) for values in (images, images[0, 0])
    ]
    return [*plain, *map(packed, plain)]


def headers_of_idx_files() -> st.SearchStrategy[bytes]:
    sizes = st.lists(st.sampled_from([0, 1, 3, 4096, 1 << 16, 2**32 - 1]), max_size=4)
    values = st.integers(0, 40).map(bytes)

    def content(parts: tuple[list[int], bytes, bool]) -> bytes:
        shape, follows, is_packed = parts
        whole = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + follows
        return packed(whole) if is_packed else whole

    return st.tuples(sizes, values, st.booleans()).map(content)


def save_small_classifier(path: Path) -> None:
    settings, shape = ConvolutionalClassifier((2,), 3, 1, 2, (4,)), ImageShape(6, 5, 1)
    scaling = Scaling(np.ones(1), np.ones(1))
    arrays = settings.build(shape, 3, np.random.default_rng(0)).arrays
    record = {"step": 3, "training": {}, "pictures": "digest"}
    ClassifierModel(settings, shape, 3, scaling, arrays, record).write(path)


def image_facts() -> bytes:
    image = ImageData(np.zeros((2, 3, 1), np.uint8), "grey", 8)
    return written(lambda path: write_facts(path, image, image))


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
