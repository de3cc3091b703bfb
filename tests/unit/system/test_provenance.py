"""A file that was swapped for another is refused before numbers are made with it, and named."""

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
import resize
import summarize
import timelapse
import train
import view
from entry.image_network import read_own
from neuralfield.images import read_facts, read_pixel_csv
from neuralfield.system.errors import NeuralfieldError
from neuralfield.tasks.image.image_task import ImageTask
from neuralfield.tasks.image_fit import settings_for_facts

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
        self.encode(image)

    def encode(self, image: str = "one") -> None:
        files = (f"{image}/{name}" for name in ("resized.png", "picture.json", "pixels.csv"))
        encode.main(*map(self.path, files))

    def train(self, image: str = "one", field: str = "own") -> None:
        folder = self.path(f"{image}/{field}")
        train.main(
            *(self.path(f"{image}/pixels.csv"), self.path(f"{image}/picture.json")),
            folder / "model.safetensors",
            **FIELDS[field],
            execution=HOW,
            threads=1,
        )

    def own(self, image: str = "one", field: str = "own") -> Any:
        paths = self.path(f"{image}/{field}/model.safetensors"), self.path(f"{image}/picture.json")
        return read_own(*paths, **FIELDS[field])

    def evaluate(self, image: str = "one", field: str = "own") -> None:
        folder = self.path(f"{image}/{field}")
        evaluate.main(
            self.own(image, field),
            folder / "model.safetensors",
            *(self.path(f"{image}/resized.png"), self.path(f"{image}.png")),
            *(folder / "training.json", folder / "metrics.json", folder / "comparison"),
            device="cpu",
        )

    def film(self, image: str = "one", field: str = "own", resized: Path | None = None) -> None:
        folder = self.path(f"{image}/{field}")
        timelapse.main(
            *(folder / "checkpoints", folder / "model.safetensors", folder / "history.csv"),
            [folder / "timelapse.gif"],
            size=160,
            frames=60,
            frames_per_second=10,
            resized=resized,
            device="cpu",
        )

    def view(self, image: str = "one", field: str = "own") -> None:
        folder = self.path(f"{image}/{field}")
        view.main(
            folder / "model.safetensors",
            *(self.path(f"{image}/resized.png"), folder / "comparison"),
            folder / "view.html",
            image=image,
            field=field,
            checkpoints=folder / "checkpoints",
            history=folder / "history.csv",
        )

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
    return results


SNAPSHOT = "checkpoints/step_00000002.safetensors"
MODEL = "one/own/model.safetensors"


@pytest.mark.parametrize(
    ("swapped", "with_", "readers", "complaint"),
    [
        (MODEL, "one/seed/model.safetensors", ["evaluate"], "random_seed 1, not 0"),
        (MODEL, "one/wide/model.safetensors", ["evaluate"], "width 7, not 6"),
        (MODEL, "one/short/model.safetensors", ["evaluate"], "steps 6, not 8"),
        (MODEL, "two/own/model.safetensors", ["evaluate"], "belongs to another image"),
        (MODEL, f"one/own/{SNAPSHOT}", ["evaluate"], "the network of step 2"),
        ("one/own/training.json", "one/seed/training.json", ["evaluate"], "not belong"),
        ("one/own/metrics.json", "one/seed/metrics.json", ["summarize"], "field 'seed'"),
        ("one/own/metrics.json", "two/own/metrics.json", ["summarize"], "image 'two'"),
        (f"one/own/{SNAPSHOT}", f"one/seed/{SNAPSHOT}", ["film", "view"], "random_seed 1, not 0"),
        (f"one/own/{SNAPSHOT}", MODEL, ["film", "view"], "the network of step 8"),
        ("one/picture.json", "two/picture.json", ["evaluate"], "belongs to another image"),
        ("one/resized.png", "two/resized.png", ["encode"], "belongs to another image"),
        ("one/pixels.csv", "two/pixels.csv", ["train"], "belongs to another image"),
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
    with pytest.raises(NeuralfieldError, match=r"one/picture\.json: its content"):
        finished.own()
    path.write_text(own)


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
    assert label.startswith(f"step {finished.own(field=field).metadata['step']} ")
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
    facts = finished.path("one/picture.json")
    settings, how = settings_for_facts(read_facts(facts), field, training)
    values = read_pixel_csv(finished.path("one/pixels.csv"))
    task = ImageTask(values, "rgb", settings, how)
    record = task.record() | {"step": how.steps, "training": how.described()}
    model = tmp_path / "model.safetensors"
    replace(task.model, arrays=task.fresh_network().arrays, metadata=record).write(model)
    read_own(model, facts, field, training)
    with pytest.raises(NeuralfieldError, match=r"learning_rate 0\.001, not 0\.5"):
        read_own(model, facts, field, training | {"learning_rate": 0.5})
