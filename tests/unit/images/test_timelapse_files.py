import av
import numpy as np
import pytest
from PIL import Image, ImageSequence

from neuralfield.images.timelapse import label_frame, to_frame, write_timelapse
from neuralfield.system.errors import ConfigError, InputError

COLOURS = [(255, 0, 0), (0, 255, 0), (0, 0, 255), (128, 128, 128), (255, 255, 255), (200, 120, 40)]


def colour_bars(height=64):
    frame = np.zeros((height, 32 * len(COLOURS), 3), np.uint8)
    for number, colour in enumerate(COLOURS):
        frame[:, 32 * number : 32 * (number + 1)] = colour
    return frame


def grey_frames(count, height=32, width=48):
    for number in range(count):
        yield np.full((height, width, 3), 20 * number, np.uint8)


def decoded(path):
    with av.open(str(path)) as container:
        return [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]


def test_mp4_plays_everywhere_and_holds_the_last_frame_for_two_seconds(tmp_path):
    path = tmp_path / "timelapse.mp4"
    write_timelapse(path, grey_frames(5), 10)
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        assert stream.codec_context.name == "h264"
        assert stream.codec_context.pix_fmt == "yuv420p"
        assert stream.average_rate == 10
        assert stream.codec_context.colorspace == stream.codec_context.color_primaries == 1
    # The index stands before the frames, so that a browser can start at once.
    content = path.read_bytes()
    assert content.index(b"moov") < content.index(b"mdat")
    brightness = [frame.mean() for frame in decoded(path)]
    assert brightness == pytest.approx([0, 20, 40, 60] + 21 * [80], abs=2)


def test_mp4_keeps_the_colours(tmp_path):
    write_timelapse(tmp_path / "timelapse.mp4", [colour_bars()], 15)
    last = decoded(tmp_path / "timelapse.mp4")[-1]
    for number, colour in enumerate(COLOURS):
        assert last[32, 32 * number + 16] == pytest.approx(colour, abs=3)


@pytest.mark.parametrize(("height", "width"), [(33, 47), (33, 48), (32, 47), (1, 1)])
def test_mp4_of_odd_sides_repeats_the_last_row_and_column(tmp_path, height, width):
    frame = np.tile(np.linspace(0, 200, width).astype(np.uint8)[None, :, None], (height, 1, 3))
    write_timelapse(tmp_path / "timelapse.mp4", [frame], 15)
    last = decoded(tmp_path / "timelapse.mp4")[-1].astype(int)
    assert last.shape == (height + height % 2, width + width % 2, 3)
    assert last[:height, :width] == pytest.approx(frame.astype(int), abs=8)
    assert last[-1] == pytest.approx(last[height - 1], abs=8)
    assert last[:, -1] == pytest.approx(last[:, width - 1], abs=8)


@pytest.mark.parametrize("suffix", ["gif", "webp"])
def test_gif_and_webp_repeat_for_ever_and_hold_the_last_frame(tmp_path, suffix):
    write_timelapse(tmp_path / f"timelapse.{suffix}", grey_frames(4), 15)
    with Image.open(tmp_path / f"timelapse.{suffix}") as timelapse:
        assert (timelapse.size, timelapse.info["loop"]) == ((48, 32), 0)
        durations_ms, brightness = [], []
        for frame in ImageSequence.Iterator(timelapse):
            brightness.append(np.asarray(frame.convert("L")).mean())
            durations_ms.append(frame.info["duration"])
    assert sum(durations_ms[:3]) == 200
    assert durations_ms[3] == 2000
    assert brightness == pytest.approx([0, 20, 40, 60], abs=2)


def test_gif_keeps_grey_exactly(tmp_path):
    ramp = np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    write_timelapse(tmp_path / "timelapse.gif", [ramp, ramp[:, ::-1]], 10)
    with Image.open(tmp_path / "timelapse.gif") as timelapse:
        assert (np.asarray(timelapse.convert("RGB")) == ramp).all()


@pytest.mark.parametrize("suffix", ["mp4", "gif", "webp"])
def test_equal_frames_give_equal_bytes(tmp_path, suffix):
    paths = [tmp_path / f"{name}.{suffix}" for name in ("one", "two")]
    for path in paths:
        write_timelapse(path, grey_frames(6), 15)
    assert paths[0].read_bytes() == paths[1].read_bytes()


@pytest.mark.parametrize("suffix", ["mp4", "gif", "webp"])
def test_a_failing_frame_leaves_the_old_timelapse_and_nothing_else(tmp_path, suffix):
    def failing():
        yield from grey_frames(2)
        raise InterruptedError

    path = tmp_path / f"timelapse.{suffix}"
    path.write_text("the old time-lapse")
    with pytest.raises(InterruptedError):
        write_timelapse(path, failing(), 15)
    assert path.read_text() == "the old time-lapse"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["mp4", "gif", "webp"])
def test_no_frames_or_frames_of_two_sizes_are_refused(tmp_path, suffix):
    sizes = [np.zeros((4, 4, 3), np.uint8), np.zeros((4, 6, 3), np.uint8)]
    for frames, message in (([], "no frames; expected at least one"), (sizes, "of one shape")):
        with pytest.raises(InputError, match=message):
            write_timelapse(tmp_path / f"timelapse.{suffix}", frames, 15)
    assert not list(tmp_path.iterdir())


def test_unknown_formats_and_speeds_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="mp4, gif or webp"):
        write_timelapse(tmp_path / "timelapse.avi", grey_frames(1), 15)
    for suffix in ("mp4", "gif", "webp"):
        for frames_per_second in (0, 1e-308, 1e-3, 1e9, float("nan")):
            with pytest.raises(ConfigError, match=r"a number from 0\.1 to 120"):
                write_timelapse(tmp_path / f"timelapse.{suffix}", grey_frames(2), frames_per_second)
        for frames_per_second in (0.1, 120):
            write_timelapse(tmp_path / f"timelapse.{suffix}", grey_frames(2), frames_per_second)


def test_a_label_changes_the_lower_left_corner_alone():
    frame = np.full((200, 300, 3), 255, np.uint8)
    labelled = label_frame(frame, "step 1,234  31.2 dB")
    assert labelled.shape == frame.shape
    assert labelled.dtype == np.uint8
    rows, columns = np.nonzero((labelled != frame).any(axis=2))
    assert rows.min() > 150
    assert columns.max() < 200
    assert labelled.min() < 100  # the plate
    assert (frame == 255).all()


def test_frames_of_every_kind_of_image():
    assert (to_frame(np.full((2, 3, 1), 0.5)) == 128).all()
    assert (to_frame(np.full((2, 3, 3), 2.0)) == 255).all()
    transparent = to_frame(np.zeros((16, 16, 4)))
    assert sorted(np.unique(transparent)) == [204, 255]
    opaque = np.zeros((16, 16, 4))
    opaque[..., 3] = 1
    assert (to_frame(opaque) == 0).all()
