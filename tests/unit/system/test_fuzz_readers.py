"""Untrusted files for every reader: a result or an error of one line, in little time and memory.

The quick suite gives each reader some hundred files; `make fuzz` ten thousand other ones each time.
"""

import json
import struct
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from little_effort import little_effort
from mutations import VALUES, changed_within, mutated
from readable_files import (
    BOMBS,
    CONFIG,
    FIELD_SETTINGS,
    HISTORY,
    config_settings,
    headers_of_idx_files,
    idx_files,
    image_facts,
    images,
    original_weights,
    samples,
    save_network,
    save_small_classifier,
    save_table_network,
    saved_models,
    table_of_cells,
    tables,
)

from compare import read_table
from config import configuration
from config.config_file import problem_in
from jobs import estimates
from neuralfield.images import read_facts, read_image, read_pixel_csv
from neuralfield.rendering.render import render
from neuralfield.system.checkpoint import load_arrays, save_arrays
from neuralfield.system.device import select_device
from neuralfield.system.errors import NeuralfieldError
from neuralfield.system.files import write_atomically
from neuralfield.tasks.classifier.classifier_model import ClassifierModel
from neuralfield.tasks.classifier.idx import read_idx
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.model_json import import_model_json
from neuralfield.tasks.table.samples import read_samples
from neuralfield.tasks.table.table_model import TableModel
from neuralfield.training.history import read_history

QUICK, LONG = 150, 10_000
CPU = select_device("cpu")


@dataclass(frozen=True)
class Reader:
    """A reader, files for it, and the errors that it may raise."""

    read: Callable[[Path], object]
    files: st.SearchStrategy[bytes]
    refusals: tuple[type[Exception], ...] = (NeuralfieldError,)


def read_network(path: Path) -> None:
    with np.errstate(all="ignore"):  # finite but large weights overflow
        values = render(Model.load(path), 3, 2, device=CPU, samples=1)
    assert values.shape[:2] == (2, 3) and np.isfinite(values).all()


def read_table_network(path: Path) -> None:
    model = TableModel.load(path)
    with np.errstate(all="ignore"):
        answers = model.predict(np.zeros((3, len(model.inputs))))
    assert answers.shape == (3, len(model.targets))


def read_classifier(path: Path) -> None:
    model = ClassifierModel.load(path)
    shape = (2, model.shape.height, model.shape.width)
    with np.errstate(all="ignore"):
        answers = model.probabilities(np.zeros(shape, np.uint8))
    assert answers.shape == (2, model.classes)


def as_json(strategy: st.SearchStrategy) -> st.SearchStrategy[bytes]:
    return strategy.map(lambda value: json.dumps(value).encode())


def read_config(path: Path) -> None:
    if problem_in(path):
        return
    try:
        config = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (yaml.YAMLError, ValueError, RecursionError):
        return  # Snakemake reports this
    if not isinstance(config, dict):
        return
    found = configuration.read_settings(config)
    for image, field in configuration.runs(found):
        if found["fields"][field]["type"] != "imported":
            about = (found["images"][image], found["fields"][field])
            estimates.field_memory_mb(*about, 1, 1, 0)
            estimates.minutes(estimates.field_s(*about, 1, 0))
    for table in found["tables"].values():
        estimates.table_work(table, 1)
    for classifier in found["classifiers"].values():
        estimates.classifier_work(classifier, 1)


PIXEL_NAMES = ["x", "y", "pixel_value"]
SAMPLE_NAMES = st.permutations(["a", "b", "t", "a"]).map(lambda some: some[:3])
NETWORK_WRITERS = [partial(save_network, field=field) for field in FIELD_SETTINGS]
READERS = {
    "image": Reader(lambda path: read_image(path, max_megapixels=1), mutated(images())),
    "table": Reader(
        read_pixel_csv,
        st.one_of(mutated(tables()), table_of_cells(st.just(PIXEL_NAMES))),
    ),
    "network": Reader(read_network, saved_models(*NETWORK_WRITERS)),
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
        (configuration.Problems,),
    ),
    "picture.json": Reader(
        read_facts,
        st.one_of(
            mutated([image_facts()]),
            as_json(changed_within(json.loads(image_facts()))),
            as_json(VALUES),
        ),
    ),
    "history": Reader(read_history, mutated([HISTORY])),
    "samples": Reader(
        lambda path: read_samples(path, ["a", "b"], ["t"]),
        st.one_of(mutated(samples()), table_of_cells(SAMPLE_NAMES)),
    ),
    "network of a table": Reader(
        read_table_network,
        saved_models(save_table_network),
    ),
    "images with labels": Reader(
        lambda path: read_idx(path, 3), st.one_of(mutated(idx_files()), headers_of_idx_files())
    ),
    "labels": Reader(
        lambda path: read_idx(path, 1), st.one_of(mutated(idx_files()), headers_of_idx_files())
    ),
    "classifier": Reader(
        read_classifier,
        saved_models(save_small_classifier),
    ),
}


def fuzz(name: str, count: int, folder: Path, *, repeatable: bool) -> None:
    reader = READERS[name]

    @settings(max_examples=count, derandomize=repeatable)
    @given(reader.files)
    def one_file(content: bytes) -> None:
        path = folder / "file"
        path.write_bytes(content)
        with little_effort():
            try:
                reader.read(path)
            except reader.refusals as error:
                if isinstance(error, NeuralfieldError):
                    assert "\n" not in str(error) and len(str(error)) < 4000
        assert [file.name for file in folder.iterdir()] == ["file"], "it has written something"

    one_file()


pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_a_reader_answers_or_says_why_not(tmp_path, name):
    fuzz(name, QUICK, tmp_path, repeatable=True)


@pytest.mark.fuzz
@pytest.mark.parametrize("name", READERS)
def test_a_reader_answers_or_says_why_not_ten_thousand_times(tmp_path, name):
    fuzz(name, LONG, tmp_path, repeatable=False)


WIDE_TABLES = {
    "a name 80,000 times": b",".join([b"abc"] * 80_000) + b"\n1\n",
    "10 million columns": b"," * 10_000_000 + b"\n",
    "a wide row below blank lines": b"\n \r\n" * 9 + b"a,b,t\n\n" + b"," * 300_000 + b"\n",
    "lines within quotes": b'"\n",' * 300_000 + b"\n",
    "a quote that is not closed": b'a,b,t\n"' + b"0,0,0\n" * 300_000,
    "nothing but lines": b"\n" * 3_000_000,
}
"""Small files for which pandas would need minutes or gigabytes."""


@pytest.mark.parametrize("content", WIDE_TABLES.values(), ids=WIDE_TABLES)
def test_a_small_table_with_many_columns_is_refused_soon(tmp_path, content):
    path = tmp_path / "file.csv"
    path.write_bytes(content)
    readers = read_pixel_csv, read_history, read_table, lambda path: read_samples(path, "ab", "t")
    for read in readers:
        with little_effort(), pytest.raises(NeuralfieldError) as caught:
            read(path)
        assert "\n" not in str(caught.value)


def test_a_small_file_that_claims_a_huge_network(tmp_path):
    path = tmp_path / "model.safetensors"
    too_few, unknown = "are too few for", "expected a whole number"
    for key, value, message in (
        ("width", 10**5, too_few),
        ("width", 10**9, too_few),
        ("hidden_layers", 1000, too_few),
        ("hidden_layers", 10**9, unknown),
    ):
        save_network(path, FIELD_SETTINGS[0])
        arrays, description = load_arrays(path)
        description["field"][key] = value
        save_arrays(path, arrays, description)
        with little_effort(), pytest.raises(NeuralfieldError, match=message):
            Model.load(path)


def test_a_header_that_claims_more_than_the_file(tmp_path):
    path = tmp_path / "model.safetensors"
    header = {"a": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 1 << 42]}}
    text = json.dumps(header).encode()
    for content in (struct.pack("<Q", 1 << 62), struct.pack("<Q", len(text)) + text):
        write_atomically(path, content)
        with little_effort(), pytest.raises(NeuralfieldError, match="cannot be read"):
            Model.load(path)
