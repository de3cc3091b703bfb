"""Files of images in tiles: what they decode to, parts of it, and damage."""

import struct
import zlib
from typing import Any

import numpy as np
import pytest
from coded_images import random_coded_image

import neuralfield as nf
from neuralfield.coding import nfz, tiles
from neuralfield.coding.decoding import pixels_of
from neuralfield.images.tiling import Tiling
from neuralfield.system.errors import InputError


def tiled(width, height, tile_px=48, overlap_px=5, channels=3):
    """Return a file, and the levels of its tiles by their row and column."""
    tiling = Tiling(width, height, tile_px, overlap_px)
    coded = [
        random_coded_image(tile.height, tile.width, channels, seed=number, zeros=0.9)
        for number, tile in enumerate(tiling)
    ]
    content = tiles.to_bytes(tiling, channels, [nfz.to_bytes(image) for image in coded])
    return content, {tile: pixels_of(image) for tile, image in zip(tiling, coded, strict=True)}


def weights_along(start, end, side):
    """Return the weights of a tile from `start` to `end`, whose overlaps are 5 pixels."""
    weights, rise = np.ones(end - start), np.arange(1, 10, 2) / 10
    weights[:5] = rise if start > 0 else 1
    weights[-5:] = rise[::-1] if end < side else weights[-5:]
    return weights


@pytest.mark.parametrize(("size", "channels"), [((49, 101), 1), ((97, 50), 3), ((130, 131), 4)])
def test_levels_are_means_that_are_weighted_linearly_across_overlaps(size, channels):
    content, levels = tiled(*size, channels=channels)
    total = np.zeros((size[1], size[0], channels))
    for tile, own in levels.items():
        down = weights_along(tile.top, tile.bottom, size[1])[:, None, None]
        across = weights_along(tile.left, tile.right, size[0])[:, None]
        total[tile.top : tile.bottom, tile.left : tile.right] += down * across * own
    decoded = nf.decode(content).levels().reshape(total.shape)
    # levels are rounded twice where four tiles meet
    assert abs(decoded - total).max() <= 1.0
    assert abs(decoded - total).mean() < 0.1


def test_a_region_is_a_crop():
    content, _ = tiled(130, 97)
    whole = nf.decode(content).levels()
    random = np.random.default_rng(0)
    regions = [(0, 0, 1, 1), (129, 96, 1, 1), (42, 45, 3, 2), (0, 47, 130, 1)]
    for _ in range(20):
        left, top = int(random.integers(130)), int(random.integers(97))
        sides = random.integers(1, (131 - left, 98 - top)).tolist()
        regions.append((left, top, *sides))
    for left, top, width, height in regions:
        part = nf.decode(content, region=(left, top, width, height)).levels()
        assert np.array_equal(part, whole[top : top + height, left : left + width])
    one_piece = nfz.to_bytes(random_coded_image(20, 30))
    part = nf.decode(one_piece, region=(3, 4, 5, 6))
    assert np.array_equal(part, nf.decode(one_piece)[4:10, 3:8])
    wrong: list[Any] = [(0, 0, 131, 1), (-1, 0, 2, 2), (0, 0, 0, 1), (0.5, 0, 1, 1), (1, 2, 3), "1"]
    for region in wrong:
        with pytest.raises(ValueError, match=r"^region: .*within 130 x 97"):
            nf.decode(content, region=region)


def error_of_decoding(content):
    """Return the error of decoding, which is one line, or an empty text."""
    try:
        nf.decode(content, max_megapixels=0.1)
    except InputError as error:
        return str(error)
    return ""


def test_damage_ends_in_an_error():
    content, _ = tiled(97, 50)
    end = tiles.TiledImage.from_bytes(content).ends[0]
    for length in (4, 9, 17, 18, 30, end - 1, end, end + 9, len(content) - 1):
        assert "damaged" in error_of_decoding(content[:length])
    assert "damaged" in error_of_decoding(content + b"\0")
    for place in [*range(4, end, 9), *range(end, len(content), 997)]:
        changed = bytearray(content)
        changed[place] ^= 5
        assert "expected" in error_of_decoding(bytes(changed))
    with pytest.raises(InputError, match="tile 1_2: is cut off or damaged"):
        nf.decode(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match="is an image in tiles; expected an image in one piece"):
        nfz.from_bytes(content)
    with pytest.raises(InputError, match=r"decode a region, or raise max_megapixels"):
        nf.decode(content, max_megapixels=0.004)
    nf.decode(content, region=(30, 20, 50, 30), max_megapixels=0.004)


@pytest.mark.parametrize("seed", range(4))
def test_hostile_headers_with_a_right_checksum_end_in_an_error(seed):
    content, _ = tiled(97, 50)
    random, end = np.random.default_rng(seed), tiles.TiledImage.from_bytes(content).ends[0]
    for _ in range(100):
        changed = bytearray(content)
        for place in random.integers(4, end - 4, random.integers(1, 4)):
            changed[place] = random.integers(256)
        if changed != content:
            changed[end - 4 : end] = struct.pack("<I", zlib.crc32(changed[: end - 4]))
            assert "expected" in (error_of_decoding(bytes(changed)) or "expected")
    huge = struct.pack("<4sBBHHII", b"NFZT", 1, 3, 48, 5, 1 << 20, 1 << 20)
    assert "damaged" in error_of_decoding(huge + struct.pack("<I", zlib.crc32(huge)))
