"""The bits and the quality of other codecs, beside those of coded images."""

import numpy as np
import pytest

from neuralfield.images import ImageData
from neuralfield.images.codecs import rates


@pytest.mark.parametrize("mode", ["grey", "rgb"])
def test_more_bits_are_of_higher_quality(mode):
    y, x = np.mgrid[0:24, 0:32] / 32
    values = np.stack(
        [0.5 + 0.5 * np.sin(9 * x * y + k) for k in range(3 if mode == "rgb" else 1)], 2
    )
    image = ImageData.from_values(values.astype(np.float32), mode, 8)
    found = [rate for rate in rates(image) if rate.codec == "JPEG"]
    assert [rate.bytes for rate in found] == sorted(rate.bytes for rate in found)
    assert found[0].psnr_db + 5 < found[-1].psnr_db
    assert found[0].bits_per_pixel == 8 * found[0].bytes / (24 * 32)


def test_images_with_transparency_have_no_rates():
    assert not [*rates(ImageData.from_values(np.ones((4, 4, 4), np.float32), "rgba", 8))]
