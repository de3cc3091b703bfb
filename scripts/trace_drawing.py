"""Write a fitted drawing as an SVG file of lines and curves."""

from pathlib import Path

from entry.job import run_job
from neuralfield.rendering.vectors.drawing_svg import TOLERANCE_PX, field_svg
from neuralfield.system.device import select_device
from neuralfield.system.files import write_atomically
from neuralfield.tasks.image.mosaic import load_trained


def main(model: Path, drawing: Path, *, device: str = "auto", threads: int = 1) -> None:
    """Trace the contours of a render; an image without flat tones is refused."""
    place = {"device": select_device(device), "threads": threads}
    svg = field_svg(load_trained(model), tolerance_px=TOLERANCE_PX, paper=True, **place)
    write_atomically(drawing, svg.encode())


if __name__ == "__main__":
    run_job(main)
