"""The workflow codes images in one piece."""

import numpy as np
import pytest

from code_image import main
from neuralfield.images import ImageData, write_facts, write_image
from neuralfield.system.errors import InputError


def test_an_image_that_would_be_coded_in_tiles_is_refused_before_its_training(tmp_path):
    image = ImageData(np.zeros((1, 70_000, 1), np.uint8), "grey", 8)
    write_image(tmp_path / "resized.png", image)
    write_facts(tmp_path / "facts.json", image, image)
    names = ("resized.png", "facts.json", "image.nfz", "image.png", "h.csv", "t.json", "c")
    with pytest.raises(InputError, match="70,000 x 1 pixels; expected at most 16"):
        main(*(tmp_path / name for name in names), target={"bpp": 1}, training={})
