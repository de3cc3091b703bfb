import hashlib
import json

import av
import numpy as np
import pytest
from PIL import Image, ImageSequence

import neuralfield as nf
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.system.checkpoint import snapshot_path
from neuralfield.system.provenance import measured
from neuralfield.tasks.image.image_model import Model
from timelapse import choose_steps, main

STEPS = [0, 1, 2, 5, 10, 20, 50, 100]


def write_network(path, step, *, width=12, height=8):
    settings = field_settings({"type": "siren", "hidden_layers": 1, "width": 8})
    shape = ImageShape(width, height, 3)
    arrays = build_field(settings, shape, random_seed=step).arrays
    Model(settings, shape, "rgb", arrays, {"step": step, "footprint": True}).write(path)


@pytest.fixture
def run(tmp_path):
    for step in STEPS:
        write_network(snapshot_path(tmp_path / "checkpoints", step), step)
    write_network(tmp_path / "model.safetensors", 100)
    values = zip(STEPS[1:], np.linspace(5, 30, len(STEPS) - 1), strict=True)
    lines = ["step,psnr_db", *(f"{step},{psnr_db}" for step, psnr_db in values)]
    (tmp_path / "history.csv").write_text("\n".join(lines))
    return tmp_path


def timelapse(run, *names, frames=60, label=True):
    main(
        run / "checkpoints",
        run / "model.safetensors",
        run / "history.csv",
        [run / name for name in names],
        size=48,
        frames=frames,
        frames_per_second=10,
        label=label,
        device="cpu",
    )


def test_every_format_shows_every_snapshot(run):
    timelapse(run, "timelapse.mp4", "timelapse.gif")
    with av.open(str(run / "timelapse.mp4")) as container:
        frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(frames) == len(STEPS) + 20
    assert frames[0].shape == (32, 48, 3)
    with Image.open(run / "timelapse.gif") as animation:
        assert animation.size == (48, 32)
        assert len(list(ImageSequence.Iterator(animation))) == len(STEPS)


def test_a_coded_image_is_shown_as_a_decoder_would(tmp_path):
    y, x = np.mgrid[:18, :24]
    levels = (128 + 90 * np.sin(x / 3) * np.cos(y / 4)).astype(np.uint8)
    Image.fromarray(levels).save(tmp_path / "resized.png")
    encoded = nf.encode(levels, steps=40, snapshots=5, folder=tmp_path)
    encoded.save(tmp_path / "image.nfz")
    main(
        tmp_path / "training/checkpoints",
        tmp_path / "image.nfz",
        tmp_path / "training/history.csv",
        [tmp_path / "timelapse.gif"],
        size=24,
        frames=60,
        frames_per_second=10,
        label=False,
        resized=tmp_path / "resized.png",
    )
    with Image.open(tmp_path / "timelapse.gif") as film:
        frames = [np.asarray(frame.convert("L")) for frame in ImageSequence.Iterator(film)]
    assert len(frames) == 5
    assert np.ptp(frames[0]) == 0
    assert (frames[-1] == nf.decode(encoded.content).levels()).all()
    errors = [abs(frame.astype(float) - levels).mean() for frame in frames]
    assert errors[-1] < min(errors[:3]) < 50


def test_steps_are_spread_in_their_logarithm_with_both_ends():
    assert choose_steps(STEPS, 4) == [0, 5, 20, 100]
    assert choose_steps(STEPS, 1) == [0, 100]
    assert choose_steps(STEPS, 99) == STEPS
    even = list(range(1001))
    chosen = choose_steps(even, 20)
    assert chosen[0] == 0
    assert chosen[-1] == 1000
    assert sorted(set(chosen)) == chosen
    assert sum(step < 100 for step in chosen) > 8


@pytest.mark.parametrize("damage", [None, {"sha256": {}}, {"sha256": 3}, {"psnr_db": []}])
def test_what_was_measured_for_this_network_is_not_measured_again(tmp_path, damage):
    folder = tmp_path / "cub" / "siren"
    folder.mkdir(parents=True)
    (folder / "model.safetensors").write_bytes(b"weights")
    checksum = hashlib.sha256(b"weights").hexdigest()
    numbers = {"psnr_db": 31.5, "sha256": {"model.safetensors": checksum}}
    own = {"image": "cub", "field": "siren"}
    assert measured(folder / "model.safetensors", "psnr_db") is None
    (folder / "metrics.json").write_text(json.dumps(own | numbers | (damage or {})))
    expected = None if damage else 31.5
    assert measured(folder / "model.safetensors", "psnr_db") == expected
