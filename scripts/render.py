"""Draw a network again, at any size."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from entry.image_network import ExpectedNetwork
from neuralfield.rendering.render import render_to_png, size_for_longer_side
from neuralfield.system.device import select_device
from neuralfield.system.errors import ConfigError
from neuralfield.tasks.image.mosaic import load_trained

if TYPE_CHECKING:
    from entry.job import snakemake


def main(
    model: Path,
    drawing: Path,
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
    """Draw a picture, or a part of it, in its own proportions.

    Parameters
    ----------
    model : Path
    drawing : Path
        PNG to write.
    size : int
        Longer side of the drawing in pixels.
    box : (left, top, right, bottom)
        The part to draw, in fractions of the picture's sides.
    samples : int or "auto"
        Samples of each pixel, of which the mean is drawn.
    expected : ExpectedNetwork, optional
        What the settings say of the network: another one is refused.
    bit_depth : {8, 16}
    max_megapixels : float
        A larger drawing is refused.
    device : {"auto", "cpu", "gpu"}
    threads : int

    Raises
    ------
    ConfigError
        The drawing would be larger than `max_megapixels`.
    CheckpointError, InputError
        The network is damaged, or of another image or training.
    """
    network = expected.load(model) if expected else load_trained(model)
    left, top, right, bottom = box
    part = (left, top, right, bottom)
    width, height = size_for_longer_side(network, size, part)
    if width * height > 1e6 * max_megapixels:
        raise ConfigError(
            str(drawing),
            f"{width} x {height} pixels",
            f"at most {max_megapixels:g} megapixels",
            "draw it smaller, or raise render.max_megapixels",
        )
    render_to_png(
        network,
        drawing,
        width,
        height,
        device=select_device(device),
        box=part,
        samples=samples,
        threads=threads,
        bit_depth=bit_depth,
    )


if __name__ == "__main__":
    from entry.job import run_job

    run_job(
        main,
        snakemake,
        model=Path(snakemake.input.model),
        expected=ExpectedNetwork.of_job(snakemake),
        drawing=Path(snakemake.output.drawing),
        size=snakemake.params.size,
        box=snakemake.params.box,
        device=snakemake.params.device,
        threads=snakemake.threads,
        **snakemake.params.settings,
    )
