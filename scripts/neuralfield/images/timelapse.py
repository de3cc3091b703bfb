"""Time-lapses: frames with labels, written as MP4, GIF or WebP."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorPrimaries, ColorRange, Colorspace, ColorTrc
from PIL import Image, ImageDraw, ImageFont

from neuralfield.system.errors import ConfigError, InputError
from neuralfield.system.files import replacing

HOLD_S = 2.0
"""Duration of the last frame in seconds; in an MP4, in addition to that of every frame."""

FRAMES_PER_SECOND = (0.1, 120.0)
"""The slowest and the fastest time-lapse."""

X264_OPTIONS = {
    "crf": "18",
    "preset": "slow",
    "threads": "1",  # the bytes depend on the number of threads
}
CHECKERBOARD = (204, 255)
CHECKERBOARD_SQUARE_PX = 8
GIF_TICK_S = Fraction(1, 100)
WEBP_TICK_S = Fraction(1, 1000)
LABEL_HEIGHT = 1 / 20
SMALLEST_LABEL_PX = 9


def choose_steps(available: list[int], count: int) -> list[int]:
    """Choose up to `count` of the sorted steps, evenly spaced in their logarithm.

    >>> choose_steps([0, 1, 2, 5, 10, 20, 50, 100], 4)
    [0, 5, 20, 100]
    """
    if count >= len(available):
        return available
    positions = np.log1p(available)
    wanted = np.linspace(positions[0], positions[-1], max(count, 2))
    nearest = np.abs(positions[None, :] - wanted[:, None]).argmin(axis=1)
    return [available[index] for index in np.unique(nearest)]


def write_timelapse(path: Path, frames: Iterable[np.ndarray], frames_per_second: float) -> None:
    """Write a time-lapse of frames, uint8 of equal shape (h, w, 3).

    The last frame is shown for two seconds. The suffix selects the format: ``.mp4`` (H.264 that
    every browser and phone plays; frames are encoded one after another), ``.gif`` or ``.webp`` (all
    frames are held in memory). For MP4, an odd width or height is made even by repeating the last
    column or row. Equal frames give equal bytes. Raises `ConfigError` for another suffix or an
    invalid speed, and `InputError` if there are no frames or their sizes differ.
    """
    path = Path(path)
    writer = WRITERS.get(path.suffix.lower())
    if writer is None:
        raise ConfigError("timelapse.formats", path.suffix or path.name, "mp4, gif or webp")
    slowest, fastest = FRAMES_PER_SECOND
    if not slowest <= frames_per_second <= fastest:
        expected = f"a number from {slowest:g} to {fastest:g}"
        raise ConfigError("timelapse.frames_per_second", frames_per_second, expected)
    with replacing(path) as temporary:
        writer(temporary, _checked(path, frames), Fraction(frames_per_second).limit_denominator())


def to_frame(values: np.ndarray) -> np.ndarray:
    """Convert a rendered image to a frame, uint8 of shape (h, w, 3).

    `values` are in [0, 1], shape (h, w, 1, 3 or 4). Transparent pixels show a checkerboard.
    """
    height, width, channels = values.shape
    colour = np.clip(values[..., :3], 0, 1) * 255
    if channels == 1:
        colour = np.repeat(colour, 3, axis=2)
    elif channels == 4:
        rows, columns = np.indices((height, width)) // CHECKERBOARD_SQUARE_PX
        background = np.asarray(CHECKERBOARD)[(rows + columns) % 2][..., None]
        alpha = np.clip(values[..., 3:], 0, 1)
        colour = alpha * colour + (1 - alpha) * background
    return np.rint(colour).astype(np.uint8)


def label_frame(frame: np.ndarray, text: str) -> np.ndarray:
    """Return a copy of a frame with a small one-line label in its lower left corner.

    Frames are uint8 of shape (h, w, 3). The font size is reduced, down to nine pixels, until the
    text fits the width.
    """
    height, width = frame.shape[:2]
    image = Image.fromarray(frame)
    draw = ImageDraw.Draw(image, "RGBA")
    size_px = max(round(height * LABEL_HEIGHT), 12)
    while True:
        font = ImageFont.load_default(size_px)
        padding_px = size_px // 2
        text_width_px = draw.textlength(text, font=font)
        if size_px <= SMALLEST_LABEL_PX or text_width_px + 4 * padding_px <= width:
            break
        size_px -= 1
    left, bottom = padding_px, height - padding_px - 1
    top = bottom - size_px - padding_px
    # white letters on a dark background can be read on any image
    draw.rounded_rectangle(
        (left, top, left + text_width_px + 2 * padding_px, bottom),
        radius=padding_px,
        fill=(16, 18, 24, 190),
    )
    middle = (left + padding_px, (top + bottom) / 2)
    draw.text(middle, text, font=font, fill=(255, 255, 255, 255), anchor="lm")
    return np.asarray(image)


def _checked(path: Path, frames: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the frames; raise `InputError` if there are none or their shapes differ."""
    shape = None
    for frame in frames:
        if shape is None:
            shape = frame.shape
        if frame.shape != shape or frame.ndim != 3 or frame.shape[2] != 3:
            raise InputError(
                str(path), f"a frame of shape {frame.shape}", f"frames of one shape {shape[:2]} x 3"
            )
        yield np.ascontiguousarray(frame, np.uint8)
    if shape is None:
        raise InputError(
            str(path),
            "no frames",
            "at least one",
            "training must keep at least one snapshot: see training.snapshots",
        )


def _write_mp4(path: Path, frames: Iterator[np.ndarray], frames_per_second: Fraction) -> None:
    first = next(frames)
    height, width = first.shape[:2]
    options = {"movflags": "+faststart", "fflags": "+bitexact"}
    with av.open(str(path), "w", format="mp4", options=options) as container:
        stream = container.add_stream("libx264", rate=frames_per_second, options=X264_OPTIONS)
        stream.width, stream.height = width + width % 2, height + height % 2
        stream.pix_fmt = "yuv420p"
        context = stream.codec_context
        context.color_primaries, context.color_trc = ColorPrimaries.BT709, ColorTrc.BT709
        context.colorspace, context.color_range = Colorspace.ITU709, ColorRange.MPEG
        held_frames = round(HOLD_S * frames_per_second)
        for number, frame in enumerate(_with_last_repeated(first, frames, held_frames)):
            even = np.pad(frame, ((0, height % 2), (0, width % 2), (0, 0)), mode="edge")
            image = av.VideoFrame.from_ndarray(even, format="rgb24").reformat(
                format="yuv420p",
                src_color_range=ColorRange.JPEG,
                dst_colorspace=Colorspace.ITU709,
                dst_color_range=ColorRange.MPEG,
            )
            image.pts, image.time_base = number, 1 / frames_per_second
            container.mux(stream.encode(image))
        container.mux(stream.encode())


def _with_last_repeated(
    first: np.ndarray, others: Iterator[np.ndarray], times: int
) -> Iterator[np.ndarray]:
    """Yield all frames, and the last frame `times` more times."""
    frame = first
    yield frame
    for frame in others:
        yield frame
    yield from repeat(frame, times)


def _write_gif(path: Path, frames: Iterator[np.ndarray], frames_per_second: Fraction) -> None:
    images = [_with_palette(frame) for frame in frames]
    durations_ms = _durations_ms(len(images), frames_per_second, GIF_TICK_S)
    _save_animation(path, images, format="GIF", duration=durations_ms)


def _write_webp(path: Path, frames: Iterator[np.ndarray], frames_per_second: Fraction) -> None:
    images = [Image.fromarray(frame) for frame in frames]
    durations_ms = _durations_ms(len(images), frames_per_second, WEBP_TICK_S)
    _save_animation(path, images, format="WebP", duration=durations_ms, quality=90, method=4)


def _save_animation(path: Path, images: Sequence[Image.Image], **options: Any) -> None:
    images[0].save(path, save_all=True, append_images=images[1:], loop=0, **options)


def _with_palette(frame: np.ndarray) -> Image.Image:
    """Convert a frame to a palette: grey exactly, colour to the nearest of 256 colours."""
    if (frame == frame[..., :1]).all():
        return Image.fromarray(frame[..., 0])
    return Image.fromarray(frame).quantize(256)


def _durations_ms(count: int, frames_per_second: Fraction, tick_s: Fraction) -> list[int]:
    """Return durations of frames; start times are rounded, so that errors do not accumulate."""
    ticks = [round(number / frames_per_second / tick_s) for number in range(count)]
    ticks.append(ticks[-1] + round(Fraction(HOLD_S) / tick_s))
    return [int((end - start) * tick_s * 1000) for start, end in pairwise(ticks)]


WRITERS: dict[str, Callable[[Path, Iterator[np.ndarray], Fraction], None]] = {
    ".mp4": _write_mp4,
    ".gif": _write_gif,
    ".webp": _write_webp,
}
