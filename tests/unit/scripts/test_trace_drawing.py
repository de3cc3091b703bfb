"""The job that writes a drawing as SVG."""

import numpy as np
import pytest

import neuralfield as nf
from neuralfield.system.errors import InputError
from trace_drawing import main


def fitted(folder, image):
    """Fit a small network to an image, and return its file."""
    quick: dict = {"steps": 150, "width": 32, "hidden_layers": 1, "residual_scale": 1}
    nf.fit(image, preset="line_art", device="cpu", **quick).save(folder / "model.safetensors")
    return folder / "model.safetensors"


def test_a_drawing_has_the_bytes_of_the_package(tmp_path):
    image = np.ones((24, 32))
    image[6:18, 8:20] = 0
    model = fitted(tmp_path, image)
    main(model, tmp_path / "drawing.svg", device="cpu", threads=2)
    nf.load(model, device="cpu").to_svg(tmp_path / "same.svg")
    written = (tmp_path / "drawing.svg").read_bytes()
    assert written == (tmp_path / "same.svg").read_bytes()
    assert written.count(b"<g ") == 1


def test_a_photograph_is_refused(tmp_path):
    y, x = np.mgrid[:24, :32] / 32
    model = fitted(tmp_path, 0.5 + 0.5 * np.sin(5 * x + 3 * y))
    with pytest.raises(InputError, match="without flat tones"):
        main(model, tmp_path / "drawing.svg", device="cpu")
    assert not (tmp_path / "drawing.svg").exists()
