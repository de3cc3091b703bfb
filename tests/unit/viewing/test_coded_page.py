"""A page with the file of an image decodes it in the browser to the same pixels."""

import numpy as np
import pytest
from coded_images import random_coded_image

from neuralfield.coding import nfz
from neuralfield.coding.decoding import pixels_of
from neuralfield.viewing.coded_page import coded_page


@pytest.mark.parametrize(
    ("size", "channels"),
    [((1, 1), 1), ((45, 66), 3), ((70, 33), 4), ((140, 101), 3), ((9, 3), 1)],
)
def test_a_browser_decodes_the_same_pixels(page, tmp_path, size, channels):
    image = random_coded_image(size[0], size[1], channels, seed=7)
    content = nfz.to_bytes(image)
    path = tmp_path / "photo.html"
    path.write_text(coded_page(content, "A <photo>"), encoding="utf-8")
    page.open(path)
    assert page.errors() == []
    levels = page.run("Array.from(decodeCoded(coded).levels)")
    shown = np.array(levels, np.uint8).reshape(*size, 4)
    pixels = pixels_of(image)
    colour = np.broadcast_to(pixels[..., :3], (*size, 3))
    np.testing.assert_array_equal(shown[..., :3], colour)
    np.testing.assert_array_equal(shown[..., 3:], pixels[..., 3:] if channels == 4 else 255)
    on_canvas = "[...canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data]"
    if channels < 4:  # a canvas stores premultiplied colour
        assert page.run(on_canvas) == levels
    assert page.run("document.title").startswith("A <photo>")
