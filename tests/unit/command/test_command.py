"""The command `neuralfield`: its files, its output, its exit codes, and Ctrl-C."""

import re
import signal
import subprocess

import numpy as np
import pytest
from PIL import Image
from processes import PATIENCE_S, start_python

import neuralfield as nf
from neuralfield.command import actions
from neuralfield.command.main import main
from neuralfield.system.provenance import sha256_of as sha256

TINY = [
    *("--device", "cpu", "--set", "width=8", "--set", "hidden_layers=1"),
    *("--set", "snapshots=2", "--set", "residual_scale=1"),
]


@pytest.fixture
def photo(tmp_path, monkeypatch):
    """Make a folder with a small photograph the working directory, and return it."""
    monkeypatch.chdir(tmp_path)
    Image.effect_noise((300, 200), 60).convert("RGB").save("photo.jpg")
    return tmp_path


def test_an_image_is_fitted_and_rendered(photo, capsys):
    arguments = ["photo.jpg", "--size", "90", "--steps", "3", *TINY]
    main(arguments)
    shown = capsys.readouterr()
    assert "photo.jpg: fitted by the preset quality, as a photograph" in shown.err
    fitted, rendered = shown.out.splitlines()
    assert fitted.startswith("photo.field/model.safetensors: siren, ")
    assert "256 x 171 pixels in 3 steps" in fitted
    assert rendered == "photo_90.png: 90 x 60 pixels"
    assert Image.open("photo_90.png").size == (90, 60)
    crop = ["--crop", ".25", "0", ".75", "1"]
    main(["render", "photo.field", "--size", "40", *crop, "--bits", "16"])
    assert capsys.readouterr().out == "photo_40.png: 30 x 40 pixels\n"
    field = nf.load("photo.field/model.safetensors", device="cpu")
    field.render(40, box=(0.25, 0, 0.75, 1)).save("same.png", bit_depth=16)
    assert (photo / "photo_40.png").read_bytes() == (photo / "same.png").read_bytes()
    main(["view", "photo.field"])
    assert capsys.readouterr().out.startswith("photo.html: ")
    page = (photo / "photo.html").read_text()
    assert '"label": "step 0 ' in page and '"label": "step 3 ' in page
    main(["info", "photo.field"])
    shown = capsys.readouterr().out
    assert "siren of " in shown and "256 x 171" in shown and "width 8" in shown
    assert re.search(r"^fit: [\d.]+ dB ", shown, re.MULTILINE)


def test_info_describes_networks_of_tables_and_classifiers(tmp_path, capsys):
    x = np.random.default_rng(0).uniform(0, 1, (20, 2))
    nf.TableRegressor(widths=(3,), steps=2).fit(x, x[:, 0]).save(tmp_path / "table")
    main(["info", str(tmp_path / "table")])
    shown = capsys.readouterr().out
    assert "inputs: x0, x1\ntargets: y0\nnetwork: widths [3]" in shown and "steps 2" in shown
    images = np.zeros((4, 6, 8), np.uint8)
    network: dict = {"channels": (1,), "kernel": 3, "hidden": (), "device": "cpu"}
    digits = nf.ImageClassifier(**network, steps=2).fit(images, [0, 1, 2, 0])
    digits.save(tmp_path / "digits")
    main(["info", str(tmp_path / "digits")])
    assert "images of 8 x 6 pixels\nclasses: 3\n" in capsys.readouterr().out


def test_the_time_is_told_before_a_training_for_a_time(photo, capsys):
    main(["fit", "photo.jpg", "--seconds", "1", *TINY])
    _, about, *_ = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"photo\.jpg: about .*: [\d,]+ steps of [\d,]+ pixels", about)


def test_without_a_terminal_progress_is_printed_in_lines(photo, capsys, monkeypatch):
    monkeypatch.setattr(actions, "_LINE_INTERVAL_S", 0)
    main(["fit", "photo.jpg", "--steps", "4", *TINY])
    lines = capsys.readouterr().err.splitlines()
    assert re.fullmatch(r"photo\.jpg: step 4, [\d.]+ dB", lines[-1])


def test_options_are_arguments_of_fit(photo):
    Image.fromarray(np.eye(24, dtype=np.uint8) * 255).save("drawing.png")
    main(["fit", "drawing.png", "--steps", "2", "--folder", "own", *TINY])
    assert nf.load("own/model.safetensors").settings["steepness"] == 8  # of line_art
    given = ["--field", "mlp", "--set", "widths=[4, 3]", "--set", "optimizer=muon", "--seed", "7"]
    given += ["--set", "learning_rate=1e-3", "--set", "keep_best=true", "--train-size", "12"]
    main(["fit", "photo.jpg", "--steps", "2", *given, "--folder", "own", "--device", "cpu"])
    settings = {"widths": (4, 3), "optimizer": "muon", "learning_rate": 1e-3, "keep_best": True}
    expected = nf.fit("photo.jpg", "mlp", steps=2, size=12, seed=7, device="cpu", **settings)
    expected.save("expected.safetensors")
    assert sha256(photo / "own/model.safetensors") == sha256(photo / "expected.safetensors")


def test_a_time_may_have_a_unit(photo, monkeypatch):
    given = {}
    monkeypatch.setattr(nf, "fit", lambda *arguments, **options: given.update(options) or 1 / 0)
    for text, seconds in (("60", 60), ("90s", 90), ("1.5m", 90)):
        with pytest.raises(ZeroDivisionError):
            main(["photo.jpg", "--seconds", text])
        assert given["seconds"] == seconds


MISTAKES = {
    "no image": (["nowhere.png"], "nowhere.png: there is no such file; expected an image"),
    "no network": (["info", "photo.jpg"], "photo.jpg: cannot be read"),
    "a setting": (["photo.jpg", "--set", "widht=8"], "did you mean width?"),
    "a field": (["photo.jpg", "--field", "sirne"], "--field: 'sirne'; expected"),
    "a crop": (["photo.jpg", "--seconds", "99", "--crop", *"1001"], "--crop: (1.0, 0.0, 0.0, 1.0)"),
    "a size to train at": (["photo.jpg", "--train-size", "99999"], "raise --set max_megapixels"),
    "a size to render": (["photo.jpg", "--size", "99999"], "raise --max-megapixels"),
    "an option as a setting": (["photo.jpg", "--set", "steps=3"], "--set: steps; expected"),
    "a time": (["photo.jpg", "--seconds", "-3"], "neuralfield: --seconds: -3"),
    "both": (["photo.jpg", "--seconds", "3", "--steps", "4"], "remove one"),
    "a folder": (["photo.jpg", "-o", "typo/large.png"], "--output: typo/large.png; no folder"),
    "a name": (["photo.jpg", "-o", "large.jpg"], "a name that ends in .png"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_line(photo, capsys, arguments, message):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    shown = capsys.readouterr()
    assert caught.value.code == 1 and message in shown.err
    assert shown.err.startswith("neuralfield: ") and shown.err.count("\n") == 1


def test_the_image_itself_is_not_written_over(photo, capsys):
    Image.new("L", (8, 8)).save("image.png")
    with pytest.raises(SystemExit):
        main(["image.png", "-o", "image.png"])
    assert "which is the input image" in capsys.readouterr().err
    assert Image.open("image.png").size == (8, 8)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["a.jpg", "--sise", "9"],
        ["a.jpg", "--set", "8"],
        ["fit"],
        ["a.jpg", "--size", "0"],
        ["rendr", "a.field"],
    ],
)
def test_arguments_that_are_none(arguments, capsys):
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    shown = capsys.readouterr()
    assert caught.value.code == 2 and "usage: neuralfield" in shown.out + shown.err
    assert ("did you mean render?" in shown.err) == (arguments[:1] == ["rendr"])


@pytest.mark.parametrize("command", [[], ["fit"], ["render"], ["info"]])
def test_help(command, capsys):
    with pytest.raises(SystemExit) as caught:
        main([*command, "--help"])
    shown = capsys.readouterr().out
    assert caught.value.code == 0 and f"usage: {' '.join(['neuralfield', *command])}" in shown
    assert all(len(line) <= 100 for line in shown.splitlines())


PAUSED = """
import sys
import pausing
from neuralfield.command.main import main
pausing.pause_before(20)
main(sys.argv[1:])
"""


def test_ctrl_c_saves_the_state_and_the_same_command_goes_on(photo, capsys):
    command = ["fit", "photo.jpg", "--steps", "40", "--train-size", "32", *TINY]
    process = start_python(PAUSED, *command, stderr=subprocess.PIPE)
    assert process.stdout and process.stdout.readline() == "paused\n"
    process.send_signal(signal.SIGINT)
    _, shown = process.communicate("go on\n", timeout=PATIENCE_S)
    assert process.returncode == 130, shown
    assert "run the same command again to resume" in shown.splitlines()[1], shown
    main(command)
    assert "resuming from the state saved after step" in capsys.readouterr().err
    main([*command, "--folder", "whole"])
    assert sha256(photo / "photo.field/model.safetensors") == sha256(
        photo / "whole/model.safetensors"
    )


def test_a_drawing_is_traced(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    drawing = np.full((24, 32), 255, np.uint8)
    drawing[6:18, 8:20] = 0
    Image.fromarray(drawing).save("drawing.png")
    quick = ["--train-size", "32", "--steps", "150", *TINY, "--set", "width=32"]
    main(["trace", "drawing.png", *quick])
    assert capsys.readouterr().out.splitlines()[1].startswith("drawing.svg: ")
    first = (tmp_path / "drawing.svg").read_bytes()
    assert b'<g fill="#' in first
    main(["trace", "drawing.field", "-o", "again.svg"])
    assert (tmp_path / "again.svg").read_bytes() == first
    main(["trace", "drawing.field", "-o", "open.svg", "--no-paper"])
    assert len((tmp_path / "open.svg").read_bytes()) < len(first)
    main(["render", "drawing.field", "--size", "64", "--no-paper"])
    assert Image.open("drawing_64.png").mode == "RGBA"


def test_a_drawing_is_traced_only_to_svg(photo, capsys):
    with pytest.raises(SystemExit):
        main(["trace", "photo.jpg", "-o", "photo.pdf", *TINY])
    assert "--output: photo.pdf; expected a name that ends with .svg" in capsys.readouterr().err
    assert not (photo / "photo.field").exists()
