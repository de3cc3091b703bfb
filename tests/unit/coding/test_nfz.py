"""Files of coded images: they hold exactly what was written, and damaged ones end in an error."""

import zlib

import numpy as np
import pytest
from coded_images import is_same, random_coded_image

from neuralfield.coding import nfz
from neuralfield.coding.decoding import latent_bits, pixels_of
from neuralfield.system.errors import InputError

SIZES = [(1, 1), (1, 9), (9, 1), (2, 3), (37, 50), (64, 64), (3, 130)]


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("size", SIZES)
def test_a_file_holds_what_was_written(size, channels):
    image = random_coded_image(size[0], size[1], channels, seed=sum(size))
    content = nfz.to_bytes(image)
    assert is_same(nfz.from_bytes(content), image)
    assert pixels_of(image).shape == (*size, channels)


def test_a_file_is_as_large_as_the_entropy_of_its_latents():
    image = random_coded_image(200, 300, seed=3)
    blank = random_coded_image(200, 300, seed=3)
    for grid in blank.latents:
        grid[:] = 0
    # the rest is the header and the weights, which both have; a blank image has one state
    difference = len(nfz.to_bytes(image)) - len(nfz.to_bytes(blank))
    assert difference == pytest.approx(sum(latent_bits(image)) / 8 + 12, abs=8)
    assert latent_bits(blank) == [0.0] * 7


def corrected(content):
    return content[:-4] + zlib.crc32(content[:-4]).to_bytes(4, "little")


def test_damage_ends_in_an_error():
    content = nfz.to_bytes(random_coded_image(20, 30))
    for length in (0, 1, 4, 5, 9, 40, len(content) - 5, len(content) - 1):
        with pytest.raises(InputError):
            nfz.from_bytes(content[:length])
    with pytest.raises(InputError, match="damaged"):
        nfz.from_bytes(content + b"\0")
    with pytest.raises(InputError, match=f"version {nfz.VERSION + 1}"):
        nfz.from_bytes(corrected(content[:3] + bytes([nfz.VERSION + 1]) + content[4:]))
    with pytest.raises(InputError, match="not a coded image"):
        nfz.from_bytes(b"\x89PNG\r\n\x1a\n" + content)


def test_hostile_files_with_a_right_checksum_end_in_an_error_or_an_image():
    content = nfz.to_bytes(random_coded_image(20, 30))
    random = np.random.default_rng(5)
    errors = 0
    for number in range(400):
        changed = bytearray(content)
        # most of the changes are in the header
        end = 80 if number % 4 else len(content)
        for place in random.integers(4, end, 1 + number % 3):
            changed[place] = random.integers(256)
        if number % 5 == 0:
            del changed[random.integers(4, len(changed)) :]
        try:
            image = nfz.from_bytes(corrected(bytes(changed)), max_megapixels=0.1)
        except InputError as error:
            assert "expected" in str(error)
            errors += 1
        else:
            pixels_of(image)
    assert errors > 300


def test_a_large_image_is_refused_before_it_is_decoded():
    content = nfz.to_bytes(random_coded_image(20, 30))
    with pytest.raises(InputError, match=r"30 x 20 pixels; expected at most 0\.0005 megapixels"):
        nfz.from_bytes(content, max_megapixels=0.0005)
    huge = content[:4] + b"\xff\xff\x3f" * 2 + content[6:]
    with pytest.raises(InputError, match=r"1,048,575 x 1,048,575 pixels"):
        nfz.from_bytes(corrected(huge))
