"""Draw redraw.png, the figure of the README, from the results of the default run.

.venv/bin/python docs/draw_figure.py
"""

from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

ROOT = Path(__file__).parents[1]
COMPARISON = ROOT / "results/lion_cub_grey/siren_footprint/comparison"
PANELS = {
    "lanczos": "Lanczos",
    "redraw": "siren_footprint",
    "source": "the source, never shown to it",
}
CROP_PX = (150, 130, 290, 270)
SCALE, GAP_PX, CAPTION_PX = 2, 12, 24


def main() -> None:
    """Put the same part of each image side by side, pixel by pixel."""
    side = (CROP_PX[2] - CROP_PX[0]) * SCALE
    width = len(PANELS) * side + (len(PANELS) - 1) * GAP_PX
    figure = Image.new("L", (width, side + CAPTION_PX), 255)
    draw, font = ImageDraw.Draw(figure), ImageFont.load_default(14)
    for index, (name, caption) in enumerate(PANELS.items()):
        left = index * (side + GAP_PX)
        with Image.open(COMPARISON / f"{name}.png") as image:
            part = image.convert("L").crop(CROP_PX)
        figure.paste(part.resize((side, side), Image.Resampling.NEAREST), (left, 0))
        draw.text((left, side + 5), caption, fill=90, font=font)
    figure.save(Path(__file__).with_name("redraw.png"), optimize=True)


if __name__ == "__main__":
    main()
