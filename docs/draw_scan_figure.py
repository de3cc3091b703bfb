"""Draw scan.png, the figure of drawings.md: a scan, enlarged by filters and rendered by a network.

PYTHONPATH=scripts:benchmarks .venv/bin/python docs/draw_scan_figure.py
"""

from pathlib import Path

import numpy as np
from measuring.degradations import degraded
from measuring.drawing_kinds import drawing_of
from PIL import Image, ImageDraw, ImageFont

import neuralfield as nf
from neuralfield.images import resize_image

SIDE_PX, FACTOR, PANEL_PX, GAP_PX, CAPTION_PX = 200, 5, 280, 10, 22
CROP_PX = (60, 90, 340, 370)
STEPS = 1000


def main() -> None:
    """Put the same part of each image side by side, pixel by pixel."""
    size_px = SIDE_PX * FACTOR
    master = drawing_of("gears", "b", size_px)
    scan = degraded(master, "scan", "b", 1, SIDE_PX).image
    field = nf.fit(scan.pixels[..., 0], preset="line_art", steps=STEPS, batch_pixels=2048)
    panels = {
        "the scan": np.kron(scan.pixels[..., 0], np.ones((FACTOR, FACTOR), np.uint8)),
        "the two-tone filter": resize_image(scan, size_px, "two_tone").pixels[..., 0],
        "line_art": np.rint(255 * field.render(size_px)).astype(np.uint8),
    }
    width = len(panels) * PANEL_PX + (len(panels) - 1) * GAP_PX
    figure = Image.new("L", (width, PANEL_PX + CAPTION_PX), 255)
    draw, font = ImageDraw.Draw(figure), ImageFont.load_default(14)
    for index, (caption, pixels) in enumerate(panels.items()):
        left = index * (PANEL_PX + GAP_PX)
        figure.paste(Image.fromarray(np.asarray(pixels).squeeze()).crop(CROP_PX), (left, 0))
        draw.text((left, PANEL_PX + 4), caption, fill=90, font=font)
    figure.quantize(32).save(Path(__file__).with_name("scan.png"), optimize=True)


if __name__ == "__main__":
    main()
