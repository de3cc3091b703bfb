"""Images with labels from IDX files: what is read, and the messages for what is refused."""

import gzip
import hashlib
import struct
from functools import partial

import numpy as np
import pytest
from idx_writer import write_idx
from little_effort import little_effort

from neuralfield.images.image import ImageShape
from neuralfield.system.errors import InputError
from neuralfield.tasks.classifier.idx import read_idx, read_idx_shape
from neuralfield.tasks.classifier.labelled import (
    HELD_OUT,
    TRAINING,
    brightness_scaling,
    find_files,
    network_inputs,
    read_labelled,
)

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 5, 4), dtype=np.uint8)
LABELS = np.array([0, 3, 1, 1, 0, 2, 3], np.uint8)

packed = partial(gzip.compress, mtime=0)  # otherwise the time would be in names of tests


def header(*sizes, code=8):
    return bytes([0, 0, code, len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes)


@pytest.fixture
def folder(tmp_path):
    """Write the four files of a set, and return their folder."""
    for images, labels in (TRAINING, HELD_OUT):
        write_idx(tmp_path / images, IMAGES)
        write_idx(tmp_path / labels, LABELS)
    return tmp_path


def test_what_is_written_is_read(folder):
    content = (folder / TRAINING[0]).read_bytes()
    assert content[:16] == bytes([0, 0, 8, 3, 0, 0, 0, 7, 0, 0, 0, 5, 0, 0, 0, 4])
    np.testing.assert_array_equal(read_idx(folder / TRAINING[0], 3), IMAGES)
    assert read_idx_shape(folder / TRAINING[0], 3) == (7, 5, 4)
    labelled = read_labelled(*find_files(folder, TRAINING))
    np.testing.assert_array_equal(labelled.labels, LABELS)
    assert (labelled.count, labelled.shape, labelled.classes) == (7, ImageShape(4, 5, 1), 4)


def test_packed_files_are_read_whatever_they_are_called(folder):
    for name in (*TRAINING, *HELD_OUT):
        content = (folder / name).read_bytes()
        (folder / f"{name}.gz").write_bytes(packed(content))
        (folder / name).unlink()
    np.testing.assert_array_equal(read_labelled(*find_files(folder, HELD_OUT)).images, IMAGES)
    plain = folder / "plain"
    plain.write_bytes((folder / f"{TRAINING[0]}.gz").read_bytes())
    np.testing.assert_array_equal(read_idx(plain, 3), IMAGES)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "is empty; expected an IDX file of images"),
        (b"<html>not found</html>", "begins with the bytes 3c 68 74 6d; expected 00 00 08 03"),
        (header(7) + LABELS.tobytes(), "begins with the bytes 00 00 08 01; expected 00 00 08 03"),
        (header(0, 5, 4), "has 0 x 5 x 4 values; expected at least one"),
        (header(7, 5, 4) + bytes(139), "cannot hold more than 139 values; expected 140, as its"),
        (
            header(7, 5, 4) + bytes(141),
            "continues after its last value; expected 140, as its header",
        ),
        (header(*[2**32 - 1] * 3), "claims 4,294,967,295 x 4,294,967,295 x 4,294,967,295 values"),
        (header(1, 1, 5000) + bytes(5000), "and sides of at most 4,096 pixels"),
        (packed(header(7, 5, 4) + bytes(139)), "ends after 139 values; expected 140"),
        (packed(header(7, 5, 4) + bytes(141)), "continues after its last value; expected 140"),
        (packed(header(7, 5, 4) + bytes(140)) + b"more", "is damaged"),
    ],
)
def test_complaint(tmp_path, content, complaint):
    path = tmp_path / "images"
    path.write_bytes(content)
    with pytest.raises(InputError) as caught:
        read_idx(path, 3)
    assert str(caught.value).startswith(f"{path}: ") and complaint in str(caught.value)


def test_a_small_file_takes_little_memory_whatever_it_claims_or_unpacks_to(tmp_path):
    path = tmp_path / "images"
    for content in (
        packed(header(1 << 30, 1, 1) + bytes(1000)),
        packed(header(7, 5, 4) + bytes(1 << 28), 1),
        header(1 << 20, 32, 32),
    ):
        path.write_bytes(content)
        with little_effort(), pytest.raises(InputError):
            read_idx(path, 3)


def test_checksums_are_of_the_file_and_named_where_they_are_wrong(folder):
    files = find_files(folder, TRAINING)
    right = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}
    assert read_labelled(*files, {name: sha.upper() for name, sha in right.items()}).count == 7
    found = right[TRAINING[1]]
    with pytest.raises(InputError) as caught:
        read_labelled(*files, right | {TRAINING[1]: "0" * 64})
    assert f"{files[1]}: has the SHA-256 {found}; expected {'0' * 64}" in str(caught.value)


def test_as_many_labels_as_images(folder):
    write_idx(folder / TRAINING[1], LABELS[:6])
    with pytest.raises(InputError, match=r"labels-idx1-ubyte: has 6 labels; expected 7, one for"):
        read_labelled(*find_files(folder, TRAINING))


def test_what_is_held_out_has_to_be_like_what_was_trained(folder):
    labelled = read_labelled(*find_files(folder, HELD_OUT))
    labelled.require_fit(ImageShape(4, 5, 1), 4, "as in training")
    with pytest.raises(InputError, match="label 3 of image 2; expected labels from 0 to 2"):
        labelled.require_fit(ImageShape(4, 5, 1), 3, "as in training")
    with pytest.raises(InputError, match="images of 4 x 5 pixels; expected 5 x 4, as in training"):
        labelled.require_fit(ImageShape(5, 4, 1), 4, "as in training")


def test_files_that_are_missing_or_there_twice(folder):
    (folder / f"{TRAINING[0]}.gz").write_bytes(b"x")
    with pytest.raises(InputError, match=r"has both train-images-idx3-ubyte and .*; remove one"):
        find_files(folder, TRAINING)
    (folder / HELD_OUT[1]).unlink()
    with pytest.raises(InputError, match="has no file t10k-labels-idx1-ubyte; expected t10k-lab"):
        find_files(folder, HELD_OUT)


def test_brightness_is_scaled_over_all_pixels():
    scaling = brightness_scaling(IMAGES)
    scaled = network_inputs(IMAGES, scaling, "float64")
    assert scaled.shape == (7, 5, 4, 1)
    assert scaled.mean() == pytest.approx(0, abs=1e-12)
    assert scaled.std() == pytest.approx(1, rel=1e-12)
    same = np.full((2, 3, 3), 9, np.uint8)
    assert not network_inputs(same, brightness_scaling(same), "float32").any()
