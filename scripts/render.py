"""Render a network at any size."""

from collections.abc import Sequence
from pathlib import Path

from entry.image_network import ExpectedNetwork
from entry.job import run_job
from neuralfield.rendering.render import render_to_png, size_for_longer_side
from neuralfield.system.device import select_device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.mosaic import load_trained


def main(
    model: Path,
    rendering: Path,
    *,
    size: int,
    box: Sequence[float] = (0, 0, 1, 1),
    samples: int | str = "auto",
    expected: ExpectedNetwork | None = None,
    bit_depth: int = 8,
    max_megapixels: float = 400.0,
    device: str = "auto",
    threads: int = 1,
) -> None:
    """Render an image, or a part of it, in its own proportions.

    Parameters
    ----------
    rendering : Path
        PNG to write.
    size : int
        Longer side of the render in pixels.
    box : (left, top, right, bottom)
        The part to render, in fractions of the image's sides.
    samples : int or "auto"
        Samples in each pixel, of which the mean is taken.
    expected : ExpectedNetwork, optional
        The network that the settings describe: another one is refused.
    bit_depth : {8, 16}
    max_megapixels : float
        A larger render is refused.
    device : {"auto", "cpu", "gpu"}
    """
    network = expected.load(model) if expected else load_trained(model)
    left, top, right, bottom = box
    part = (left, top, right, bottom)
    width, height = size_for_longer_side(network, size, part)
    if width * height > 1e6 * max_megapixels:
        raise ConfigError(
            str(rendering),
            f"{width} x {height} pixels",
            f"at most {max_megapixels:g} megapixels",
            "render it smaller, or raise render.max_megapixels",
        )
    render_to_png(
        network,
        rendering,
        width,
        height,
        device=select_device(device),
        box=part,
        samples=samples,
        threads=threads,
        bit_depth=bit_depth,
    )


if __name__ == "__main__":
    run_job(main, lambda job: {**job.params.settings, "expected": ExpectedNetwork.of_job(job)})
