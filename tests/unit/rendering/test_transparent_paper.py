"""Renders of drawings in one ink on transparent paper."""

import numpy as np
import pytest
from PIL import Image

import neuralfield as nf
from neuralfield.rendering.transparent_paper import PaperAndInk
from neuralfield.system.errors import InputError

COLOURS = {
    "black on white": ([1.0], [0.0]),
    "grey on grey": ([0.85], [0.2]),
    "white on black": ([0.0], [1.0]),
    "blue on cream": ([0.94, 0.9, 0.78], [0.16, 0.24, 0.6]),
}


def _shares() -> np.ndarray:
    """Return the share of ink in each pixel of rings; float32, shape (80, 100, 1)."""
    y, x = np.mgrid[:80, :100]
    return (2 - np.abs(np.hypot(x - 45, y - 42) % 16 - 6)).clip(0, 1).astype(np.float32)[..., None]


@pytest.mark.parametrize(("paper", "ink"), COLOURS.values(), ids=COLOURS)
def test_alpha_is_the_share_of_ink(paper, ink):
    shares = _shares()
    values = (np.array(paper) + shares * (np.array(ink) - np.array(paper))).astype(np.float32)
    shown = PaperAndInk.of(values).transparent(None, values)
    np.testing.assert_allclose(shown[..., 3:], shares, atol=0.03)
    np.testing.assert_allclose(shown[..., :3], np.broadcast_to(ink, (80, 100, 3)), atol=0.01)
    levels = PaperAndInk.of(values).transparent(8, values)
    assert levels.dtype == np.uint8
    assert levels[..., 3][shares[..., 0] == 0].max() == 0


def test_photographs_and_several_inks_are_refused():
    random = np.random.default_rng(0).uniform(0, 1, (80, 100, 1)).astype(np.float32)
    shares = _shares()
    left = np.arange(100)[:, None] < 50
    two = 1 - shares * np.where(left, [0.1, 0.9, 0.9], [0.9, 0.9, 0.1]).astype(np.float32)
    for values in (random, two):
        with pytest.raises(InputError, match="a drawing in one ink"):
            PaperAndInk.of(values.astype(np.float32))


def test_a_field_is_rendered_without_paper(tmp_path):
    drawing = np.full((24, 32), 255, np.uint8)
    drawing[6:18, 8:20] = 0
    drawing[3:21, 24:28] = 0
    field = nf.fit(drawing, "hashgrid", steps=150, device="cpu", output="sigmoid")
    over_white = 1 - field.render(96, paper=False)[..., 3]
    assert over_white.shape == (72, 96)
    np.testing.assert_allclose(over_white, field.render(96), atol=0.1)
    field.render_to(tmp_path / "open.png", 64, paper=False)
    with Image.open(tmp_path / "open.png") as image:
        assert (image.mode, image.size) == ("RGBA", (64, 48))
        alpha = np.asarray(image)[..., 3]
    assert alpha[1, 1] == 0
    assert alpha[24, 28] > 240
