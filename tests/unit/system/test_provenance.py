"""Every reader refuses a file that was swapped for another, and no other file is named."""

import json
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageSequence
from small_fields import SMALL_FIELDS

import encode
import evaluate
import render
import resize
import summarize
import timelapse
import train
import view
from entry.image_network import ExpectedNetwork
from import_weights import main as import_weights
from neuralfield.images import read_pixel_csv
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.image.image_task import ImageTask

TRAINING: dict[str, Any] = {
    **{"steps": 8, "snapshots": 3, "batch_pixels": 50, "loss": "mse", "random_seed": 0},
    **{"supervision": "point", "device": "cpu", "engine": "tape"},
}
HOW = {"checkpoint_interval_s": 30, "time_margin_s": 30}
SIREN = {"type": "siren", "width": 6, "hidden_layers": 1, "output": "auto"}
FIELDS: dict[str, dict[str, Any]] = {
    "own": {"field": SIREN, "training": TRAINING},
    "seed": {"field": SIREN, "training": TRAINING | {"random_seed": 1}},
    "short": {"field": SIREN, "training": TRAINING | {"steps": 6}},
    "wide": {"field": SIREN | {"width": 7}, "training": TRAINING},
    "fast": {"field": SIREN | {"first_omega_0": 9}, "training": TRAINING},
    "best": {"field": SIREN, "training": TRAINING | {"keep_best": True, "batch_pixels": 0}},
}


class Results:
    """A folder ``results``, and the scripts that run in it without Snakemake."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        return self.folder / name

    def prepare(self, image: str, seed: int) -> None:
        noise = np.random.default_rng(seed).integers(0, 256, (16, 24, 3), dtype=np.uint8)
        Image.fromarray(noise).save(self.path(f"{image}.png"))
        names = (f"{image}.png", f"{image}/resized.png", f"{image}/picture.json")
        resize.main(*map(self.path, names), size=12)
        encode.main(*map(self.path, (names[1], names[2], f"{image}/pixels.csv")))

    def train(self, image: str = "one", field: str = "own") -> None:
        folder = self.path(f"{image}/{field}")
        settings = FIELDS[field]
        train.main(
            *(self.path(f"{image}/pixels.csv"), self.path(f"{image}/picture.json")),
            field=settings["field"],
            training=settings["training"] | HOW,
            folder=folder,
            threads=1,
            name=field,
        )

    def expected(self, image: str, field: str) -> ExpectedNetwork:
        return ExpectedNetwork(self.path(f"{image}/picture.json"), **FIELDS[field])

    def evaluate(self, image: str = "one", field: str = "own") -> None:
        folder = self.path(f"{image}/{field}")
        evaluate.main(
            folder / "model.safetensors",
            *(self.path(f"{image}/resized.png"), self.path(f"{image}.png")),
            *(folder / "training.json", folder / "metrics.json", folder / "comparison"),
            image=image,
            field=field,
            expected=self.expected(image, field),
            device="cpu",
        )

    def render(self, image: str = "one", field: str = "own") -> None:
        model, drawing = (self.path(f"{image}/{field}/{n}") for n in ("model.safetensors", "r.png"))
        parts = [{"size": 9, "box": [0, 0, 1, 1]}]
        render.main(model, drawing, parts=parts, expected=self.expected(image, field), device="cpu")

    def film(self, image: str = "one", field: str = "own", resized: Path | None = None) -> None:
        folder = self.path(f"{image}/{field}")
        timelapse.main(
            *(folder / "checkpoints", folder / "model.safetensors", folder / "history.csv"),
            [folder / "timelapse.gif"],
            size=160,
            frames=60,
            frames_per_second=10,
            resized=resized,
            metrics=None if resized else folder / "metrics.json",
            record=folder / "training.json",
            expected=self.expected(image, field),
            device="cpu",
        )

    def view(self, image: str = "one", field: str = "own") -> None:
        folder = self.path(f"{image}/{field}")
        view.main(
            folder / "model.safetensors",
            *(self.path(f"{image}/resized.png"), folder / "comparison/redraw.png"),
            folder / "view.html",
            image=image,
            field=field,
            checkpoints=folder / "checkpoints",
            history=folder / "history.csv",
            record=folder / "training.json",
            expected=self.expected(image, field),
        )

    def film_beside_the_image(self) -> None:
        self.film(resized=self.path("one/resized.png"))

    def summarize(self) -> None:
        summarize.main([self.path("one/own/metrics.json")], self.path("summary.csv"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Results:
    results = Results(tmp_path_factory.mktemp("results"))
    for seed, image in enumerate(("one", "two")):
        results.prepare(image, seed)
        for field in FIELDS if image == "one" else ("own",):
            results.train(image, field)
            results.evaluate(image, field)
    results.film()
    results.render()
    return results


SNAPSHOT = "checkpoints/step_00000002.safetensors"
MODEL = "one/own/model.safetensors"
NETWORK_READERS = ("evaluate", "render", "film", "view")


@pytest.mark.parametrize(
    ("swapped", "with_", "readers", "complaint"),
    [
        (MODEL, "one/seed/model.safetensors", NETWORK_READERS, "random_seed 1, not 0"),
        (MODEL, "one/wide/model.safetensors", NETWORK_READERS, "width 7, not 6"),
        (MODEL, "one/short/model.safetensors", NETWORK_READERS, "steps 6, not 8"),
        (MODEL, "two/own/model.safetensors", NETWORK_READERS, "belongs to another image"),
        (MODEL, f"one/own/{SNAPSHOT}", NETWORK_READERS, "the network of step 2"),
        (
            "one/own/training.json",
            "one/seed/training.json",
            ("evaluate", "film", "view"),
            "random_seed 1",
        ),
        ("one/own/training.json", "one/wide/training.json", ("evaluate",), "parameters"),
        (
            "one/own/training.json",
            "one/fast/training.json",
            ("evaluate", "film", "view"),
            "not belong",
        ),
        ("one/own/history.csv", "one/seed/history.csv", ("film", "view"), "not belong"),
        ("one/own/history.csv", "one/short/history.csv", ("film",), "ends with step 6"),
        ("one/own/metrics.json", "one/seed/metrics.json", ("film", "summarize"), "field 'seed'"),
        ("one/own/metrics.json", "two/own/metrics.json", ("film", "summarize"), "image 'two'"),
        (f"one/own/{SNAPSHOT}", f"one/seed/{SNAPSHOT}", ("film", "view"), "random_seed 1, not 0"),
        (f"one/own/{SNAPSHOT}", MODEL, ("film", "view"), "the network of step 8"),
        ("one/picture.json", "two/picture.json", NETWORK_READERS, "belongs to another image"),
        (
            "one/resized.png",
            "two/resized.png",
            ("evaluate", "film_beside_the_image"),
            "belongs to another image",
        ),
        ("one/pixels.csv", "two/pixels.csv", ("train",), "belongs to another image"),
    ],
)
def test_a_swapped_file_is_named(finished, swapped, with_, readers, complaint):
    path = finished.path(swapped)
    own = path.read_bytes()
    shutil.copyfile(finished.path(with_), path)
    try:
        for reader in readers:
            with pytest.raises(NeuralfieldError) as caught:
                getattr(finished, reader)()
            messages = str(caught.value)
            assert (
                messages.startswith(f"{path}: ") and complaint in messages and "\n" not in messages
            )
            to_remove = re.search(r"remove the folder (\S+),", messages)
            assert Path(to_remove[1] if to_remove else path) in (path, path.parent), messages
            assert bool(to_remove) == (path.parent.name == "checkpoints")
    finally:
        path.write_bytes(own)
    for reader in readers:
        getattr(finished, reader)()


def test_facts_that_were_changed_are_named(finished):
    """The facts on the image's kind decide on the network, which is not to blame."""
    path = finished.path("one/picture.json")
    own = path.read_text()
    path.write_text(own.replace('"is_line_art": false', '"is_line_art": true'))
    for reader in NETWORK_READERS:
        with pytest.raises(NeuralfieldError, match=r"one/picture\.json: its content"):
            getattr(finished, reader)()
    path.write_text(own)


def test_a_missing_snapshot_is_named(finished):
    path = finished.path(f"one/own/{SNAPSHOT}")
    own = path.read_bytes()
    path.unlink()
    with pytest.raises(NeuralfieldError, match=r"own/checkpoints: lacks the snapshot of step 2;"):
        finished.film()
    path.write_bytes(own)


def test_weights_of_another_imported_network_are_named(finished, tmp_path):
    layers = [
        {"layer_type": "Linear", "shape": [3, 2], "weights": [1, 2, 3, 4, 5, 6]},
        {"layer_type": "Sigmoid"},
        {"layer_type": "Linear", "shape": [2, 3], "weights": [1, 2, 3, 4, 5, 6]},
        {"layer_type": "Sigmoid"},
    ]
    weights, others = tmp_path / "model.json", tmp_path / "others" / "model.json"
    weights.write_text(json.dumps({"layers": layers}))
    layers[0]["weights"] = [6, 5, 4, 3, 2, 1]
    others.parent.mkdir()
    others.write_text(json.dumps({"layers": layers}))
    facts, model = finished.path("one/picture.json"), tmp_path / "model.safetensors"
    own = ExpectedNetwork(facts, {"type": "imported", "path": str(weights)}, {})
    import_weights(weights, facts, model)
    own.load(model)
    for path in (others, None):
        if path:
            import_weights(path, facts, model)
        else:
            shutil.copyfile(finished.path(MODEL), model)
        with pytest.raises(NeuralfieldError, match="does not hold the weights of"):
            own.load(model)


def last_label(monkeypatch, film: Callable[[], None]) -> str:
    labels = []
    label_frame = timelapse.label_frame

    def noting(frame, text):
        labels.append(text)
        return label_frame(frame, text)

    monkeypatch.setattr(timelapse, "label_frame", noting)
    film()
    return labels[-1]


@pytest.mark.parametrize("field", ["own", "best"])
def test_the_last_frame_has_the_number_of_the_report(finished, monkeypatch, field):
    """The last frame shows the finished network, even if the best one is of an earlier step."""
    metrics = finished.path(f"one/{field}/metrics.json")
    own = metrics.read_text()
    resized = finished.path("one/resized.png")
    label = last_label(monkeypatch, lambda: finished.film(field=field, resized=resized))
    assert label.endswith(f"  {json.loads(own)['psnr_db']:.1f} dB")
    metrics.write_text(json.dumps(json.loads(own) | {"psnr_db": 77.77}))
    label = last_label(monkeypatch, lambda: finished.film(field=field))
    metrics.write_text(own)
    assert label.endswith("  77.8 dB")
    model = finished.expected("one", field).load(finished.path(f"one/{field}/model.safetensors"))
    assert label.startswith(f"step {model.metadata['step']} ")
    with Image.open(finished.path(f"one/{field}/timelapse.gif")) as film:
        assert len(list(ImageSequence.Iterator(film))) >= 2


@pytest.mark.parametrize("kind", SMALL_FIELDS)
@pytest.mark.parametrize("supervision", ["point", "footprint"])
def test_a_network_of_every_kind_is_accepted_in_its_own_folder(
    finished, tmp_path, kind, supervision
):
    """The settings read back from a file equal those that were saved."""
    field = {"type": kind, **SMALL_FIELDS[kind]}
    training = TRAINING | {"supervision": supervision}
    expected = ExpectedNetwork(finished.path("one/picture.json"), field, training)
    settings, how = expected.settings
    values = read_pixel_csv(finished.path("one/pixels.csv"))
    task = ImageTask(values, "rgb", settings, how)
    record = task.record() | {"step": how.steps, "training": how.described()}
    model = tmp_path / "model.safetensors"
    replace(task.model, arrays=task.fresh_network().arrays, metadata=record).write(model)
    expected.load(model)
    others = ExpectedNetwork(expected.facts_path, field, training | {"learning_rate": 0.5})
    with pytest.raises(NeuralfieldError, match=r"learning_rate 0\.001, not 0\.5"):
        others.load(model)
