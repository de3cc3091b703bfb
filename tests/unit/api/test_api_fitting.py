"""`neuralfield.fit` and its results: the bytes of the workflow, and errors of built-in types."""

import fcntl
import shutil
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from complaints import read
from PIL import Image
from processes import IMPORTS, output_of, start_python
from small_fields import SMALL_FIELDS

import encode
import neuralfield as nf
import resize
import train
from neuralfield.api.fitting import _chosen
from neuralfield.fields import FIELDS
from neuralfield.system.provenance import sha256_of as sha256
from neuralfield.system.settings import settings_of
from neuralfield.tasks.image.presets import FIT_PRESETS
from neuralfield.tasks.training_settings import BUDGETS, ImageTraining, of_the_training
from neuralfield.training import budget
from neuralfield.training.budget import LEAST_STEPS
from neuralfield.training.state import StateFolder

fit: Any = nf.fit  # some tests pass arguments of other types than the declared ones
TINY = {
    "steps": 30,
    "width": 8,
    "hidden_layers": 1,
    "snapshots": 4,
    "device": "cpu",
}


def picture(*channels):
    y, x = np.mgrid[0:1:12j, 0:1:16j]
    disc = (x - 0.5) ** 2 + (y - 0.4) ** 2 < 0.1
    if not channels:
        return 0.7 * disc + 0.3 * x
    return np.stack([disc, x, y, 0.5 + 0.5 * x][: channels[0]], axis=2) * 1.0


@pytest.mark.parametrize(
    ("field", "training"),
    [
        ({"type": "siren", "width": 8}, {"detail_share": 0.25, "keep_best": True}),
        ({"type": "hashgrid", "levels": 2, "output": "auto"}, {"supervision": "point"}),
    ],
    ids=["siren", "hashgrid"],
)
def test_a_fit_has_the_bytes_of_the_workflow(tmp_path, field, training):
    file = tmp_path / "image.png"
    Image.fromarray((255 * picture(3)).astype(np.uint8)).save(file)
    made = [tmp_path / name for name in ("resized.png", "picture.json", "pixels.csv")]
    resize.main(file, *made[:2], size=10)
    encode.main(*made)
    training = {
        "steps": 8,
        "snapshots": 3,
        "loss": "mse",
        "learning_rate": 1e-3,
        "detail_share": 0.5,
    } | training
    how = {"device": "cpu", "checkpoint_interval_s": 30, "time_margin_s": 60}
    train.main(
        *(made[2], made[1], tmp_path / "model.safetensors"),
        field=field,
        training=training,
        execution=how,
        threads=1,
    )
    given: Any = training | {"threads": 1, "size": 10, "folder": tmp_path / "own"}
    found = fit(file, field, device="cpu", **given)
    assert sha256(tmp_path / "own/model.safetensors") == sha256(tmp_path / "model.safetensors")
    found.save(tmp_path / "saved.safetensors")
    assert sha256(tmp_path / "saved.safetensors") == sha256(tmp_path / "model.safetensors")
    assert nf.load(tmp_path / "own").history["loss"].tolist() == found.history["loss"].tolist()


def test_a_preset_that_suits_the_image_is_chosen(caplog):
    photo = np.random.default_rng(0).uniform(0, 1, (24, 24))
    training: Any = {"preset": "auto", "steps": 1, "device": "cpu"}
    for image, name in ((np.eye(24), "line_art"), (photo, "quality")):
        with caplog.at_level("INFO"):
            field = nf.fit(image, **training)
        assert f"fitted by the preset {name}" in caplog.text
        assert field.parameter_count == nf.fit(image, **training | {"preset": name}).parameter_count


@pytest.mark.parametrize("name", [*FIT_PRESETS, *FIELDS])
def test_settings_are_those_of_the_config(tmp_path, name):
    shipped = {"images": {"one": {"path": str(tmp_path / "one.png")}}}
    Image.new("L", (8, 8), 100).save(tmp_path / "one.png")
    given: Any = {"seed": 0, "steps": None, "seconds": None, "settings": {}}
    if name in FIT_PRESETS:
        chosen, of_training = _chosen(None, name, **given)
        expected = read(shipped | {"preset": name})
    else:
        chosen, of_training = _chosen(name, None, **given)
        expected = read(shipped | {"fields": {name: {"type": name}}})
    network = dict(expected["fields"][name])
    training = of_the_training(network.pop("training"))
    assert of_the_training(of_training) == training
    for setting in BUDGETS:
        assert of_training.get(setting) == expected["fields"][name]["training"].get(setting)
    assert FIELDS[chosen.pop("type")] is FIELDS[network.pop("type")]
    assert {**network, **chosen} == network


def test_no_setting_belongs_to_two_parts():
    training = {*settings_of(ImageTraining)}
    for network in FIELDS.values():
        assert not training & {*settings_of(network)}


def as_pillow(array):
    return Image.fromarray((255 * array).round().astype(np.uint8))


@pytest.mark.parametrize(
    ("image", "mode"),
    [
        (picture() > 0.5, "bilevel"),
        ((picture() > 0.5) * 1.0, "bilevel"),
        ((255 * picture()).astype(np.uint8), "grey"),
        ((65535 * picture(2)[..., 1:]).astype(np.uint16), "grey"),
        ((65535 * picture(3)).astype(">u2"), "rgb"),
        (picture().astype(np.float16), "grey"),
        (picture(3), "rgb"),
        (picture(4).astype(np.float32), "rgba"),
        (as_pillow(picture()), "grey"),
        (as_pillow(picture(3)), "rgb"),
        (as_pillow(picture(3)).convert("P"), "rgb"),
        (as_pillow(picture(4)), "rgba"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_images_of_every_kind(image, mode):
    field = fit(image, **TINY | {"steps": 2})
    assert (field.model.mode, field.width, field.height) == (mode, 16, 12)
    rendered = field.render()
    channels = {"rgb": (3,), "rgba": (4,)}.get(mode, ())
    assert rendered.shape == (12, 16, *channels) and rendered.dtype == np.float32
    values = field([[0.0, 0.0], [1.0, -0.75]])
    assert values.shape == (2, *(channels or (1,)))


BAD_IMAGES: dict[str, Any] = {
    "channels first": (np.zeros((3, 16, 16)), ValueError, "channels come last"),
    "two channels": (np.zeros((16, 16, 2)), ValueError, "shape"),
    "empty": (np.zeros((0, 16)), ValueError, "no pixels"),
    "NaN": (np.full((4, 4), np.nan), ValueError, "NaN or infinity in 16 values"),
    "levels as floats": (np.full((4, 4), 255.0), ValueError, "from 255.0 to 255.0"),
    "an empty path": ("", ValueError, "^image: ''"),
    "huge": (np.zeros((20_000, 10_000), bool), ValueError, "max_megapixels"),
    "whole numbers": (np.zeros((4, 4), np.int64), TypeError, "int64"),
    "masked": (np.ma.masked_less(np.eye(4), 0.5), ValueError, "filled"),
    "a little above white": (np.full((4, 4), 1.0000001), ValueError, "to 1.0000001; .*np.clip"),
    "a list": ([[0.5]], TypeError, r"type list; .*numpy.array\(image\)"),
    "no file": ("nowhere.png", FileNotFoundError, "no such file"),
    "no image": (__file__, ValueError, "is not an image"),
}


@pytest.mark.parametrize(("image", "kind", "message"), BAD_IMAGES.values(), ids=BAD_IMAGES)
def test_images_that_are_none(image, kind, message):
    with pytest.raises(kind, match=message) as caught:
        fit(image, **TINY)
    assert isinstance(caught.value, nf.NeuralfieldError) and "\n" not in str(caught.value)


BAD_SETTINGS: dict[str, Any] = {
    "a field's name": ({"field": "sirne"}, ValueError, "did you mean siren"),
    "a preset's name": ({"preset": "fsat"}, ValueError, "did you mean fast"),
    "a preset of another field": ({"field": "mlp", "preset": "fast"}, ValueError, "hashgrid"),
    "a setting's name": ({"widht": 8}, TypeError, r"config\.yaml; did you mean width"),
    "a setting of another field": ({"field": "siren", "levels": 8}, TypeError, "levels"),
    "random_seed": ({"random_seed": 1}, TypeError, "; use seed$"),
    "out of range": ({"steps": 0}, ValueError, "^steps: 0; expected"),
    "a device": ({"device": "tpu"}, ValueError, "auto, cpu or gpu"),
    "a mode": ({"mode": "cmyk"}, ValueError, "one of auto"),
    "too many threads": ({"threads": 10_000}, RuntimeError, "threads"),
    "no time": ({"steps": None, "seconds": 0}, ValueError, "^seconds: 0; expected"),
    "steps and seconds": ({"seconds": 2}, ValueError, "remove one"),
    "text for a size": ({"size": "large"}, ValueError, "size: 'large'"),
    "a huge size": ({"size": 10**6}, ValueError, "max_megapixels"),
    "a network without a type": ({"field": {"type": None}}, ValueError, "field: None"),
    "a misspelt setting of its training": (
        {"field": {"type": "siren", "training": {"stepz": 3}}},
        ValueError,
        "^training: unknown .'stepz'.; .*; did you mean steps",
    ),
    "its training": ({"field": {"type": "siren", "training": 3}}, TypeError, "field: training"),
    "a number for a list": ({"field": "mlp", "widths": 8}, ValueError, "^widths: 8"),
    "no function": ({"callback": "print"}, TypeError, "callback: 'print'"),
    "a file for a folder": ({"folder": __file__}, OSError, "cannot be made"),
    "a list for a folder": ({"folder": ["here"]}, TypeError, "folder"),
    "a network too large": ({"width": 2**19}, (ValueError, RuntimeError), "width|memory"),
}


@pytest.mark.parametrize(("given", "kind", "message"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_settings_that_are_none(given, kind, message):
    given = {"device": "cpu", "steps": 2} | given
    with pytest.raises(kind, match=message) as caught:
        fit(picture(), **given)
    assert isinstance(caught.value, nf.NeuralfieldError)


class Killed(BaseException):
    """The exception that simulates a kill: no code of the training runs after it."""


def test_a_fit_that_was_killed_goes_on_to_the_same_bytes(tmp_path):
    def kill(row):
        if row["step"] >= 20:
            raise Killed

    whole, cut = tmp_path / "whole", tmp_path / "cut"
    settings = TINY | {"checkpoint_interval_s": 1e-9}
    fit(picture(), folder=whole, **settings)
    with pytest.raises(Killed):
        fit(picture(), folder=cut, callback=kill, **settings)
    assert not (cut / "model.safetensors").exists()
    rows = []
    fit(picture(), folder=cut, callback=rows.append, **settings)
    assert rows[0]["step"] > 10, "it began anew"
    assert sha256(cut / "model.safetensors") == sha256(whole / "model.safetensors")
    fit(picture(), folder=cut, callback=rows.clear, **settings)
    assert rows, "it is there already, and nothing is trained"


def test_a_fit_ends_after_its_time(tmp_path, monkeypatch):
    monkeypatch.setattr(budget, "time_of_step_s", lambda *arguments: 0.002)
    settings = {key: value for key, value in TINY.items() if key != "steps"}
    found = fit(picture(), seconds=0.1, folder=tmp_path / "own", **settings)
    assert found.model.metadata["step"] == 46  # takes 0.92 of the time
    fit(picture(), steps=46, folder=tmp_path / "again", **settings)
    assert sha256(tmp_path / "again/model.safetensors") == sha256(
        tmp_path / "own/model.safetensors"
    )
    monkeypatch.setattr(budget, "time_of_step_s", lambda *arguments: 0.001)
    rows = []
    fit(picture(), seconds=0.1, folder=tmp_path / "own", callback=rows.append, **settings)
    assert not rows, "the folder has it, with the steps that were found before"


def test_the_limit_of_a_preset_counts_on_processors(monkeypatch):
    monkeypatch.setattr(budget, "time_of_step_s", lambda *arguments: 10.0)
    given = {"width": 8, "hidden_layers": 1, "snapshots": 2, "device": "cpu"}
    assert fit(picture(), preset="quality", **given).model.metadata["step"] == LEAST_STEPS
    assert fit(picture(), preset="quality", steps=3, **given).model.metadata["step"] == 3


def test_a_divergence_names_no_file_that_is_removed(tmp_path):
    given = TINY | {"learning_rate": 1e9}
    with pytest.raises(ArithmeticError, match=r"try [\de+]+$"):
        fit(picture(), **given)
    with pytest.raises(ArithmeticError, match=rf"the last good snapshot is {tmp_path}"):
        fit(picture(), **given, folder=tmp_path / "kept")


def test_waiting_for_another_process_is_said_to_a_program(tmp_path):
    program = f"""
import numpy as np, neuralfield as nf
nf.fit(np.eye(8), folder={str(tmp_path)!r}, steps=2, width=8, device="cpu")
"""
    (tmp_path / ".state").mkdir()
    with (tmp_path / ".state" / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        waiting = start_python(program, stderr=subprocess.PIPE)
        assert waiting.stderr is not None
        line = waiting.stderr.readline()
    assert line.endswith("another process is training here; waiting for it to end\n")
    assert waiting.communicate()[1] == "" and waiting.returncode == 0


def test_a_folder_that_another_process_removes_is_named(tmp_path, monkeypatch):
    load_latest = StateFolder.load_latest

    def load_from_nowhere(self, usable):
        shutil.rmtree(tmp_path / "run")
        return load_latest(self, usable)

    monkeypatch.setattr(StateFolder, "load_latest", load_from_nowhere)
    with pytest.raises(nf.NeuralfieldError, match=r"another process has removed \.state"):
        fit(picture(), folder=tmp_path / "run", **TINY)


def test_callback_history_and_progress(capsys):
    rows = []
    field = fit(picture(), callback=rows.append, progress=True, **TINY)
    assert [row["step"] for row in rows] == field.history["step"].tolist()
    assert rows[-1]["step"] == 30 and {"loss", "psnr_db", "learning_rate"} <= {*rows[-1]}
    assert "30" in capsys.readouterr().err


@pytest.mark.parametrize("kind", FIELDS)
def test_numpy_numbers_are_settings(kind):
    given: Any = {"steps": np.int64(1), "seed": np.int64(3)} | SMALL_FIELDS[kind]
    fit(picture(), kind, device="cpu", **given)


def test_importing_the_package_imports_little():
    code = """if True:
        import sys
        import neuralfield
        assert not {"cupy", "numba", "pandas", "PIL", "numpy"} & {*sys.modules}
        neuralfield.fit, neuralfield.load
        assert not {"cupy", "numba", "pandas", "snakemake", "matplotlib", "yaml"} & {*sys.modules}
        assert {"fit", "load", "ImageField"} <= {*dir(neuralfield)}"""
    output_of([sys.executable, "-c", code], env=IMPORTS)


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="has no attribute 'fitt'"):
        nf.fitt  # noqa: B018
