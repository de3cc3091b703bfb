import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import report
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images import (
    ImageData,
    image_digest,
    read_made_image,
    resize_image,
    write_facts,
    write_image,
)
from neuralfield.images.image import MODES
from neuralfield.images.timelapse import write_timelapse
from neuralfield.tasks.image.image_model import Model

TEMPLATE = Path(__file__).parents[3] / "workflow" / "report" / "report.html.j2"
NUMBERS = {
    "psnr_db": 31.24,
    "ssim": 0.978,
    "wrong_pixels": None,
    "upscale_psnr_db": None,
    "upscale_lanczos_psnr_db": None,
    "upscale_bicubic_psnr_db": None,
    "upscale_back_projection_psnr_db": None,
    "upscale_two_tone_psnr_db": None,
    "upscale_width": None,
    "upscale_height": None,
    "parameters": 98752,
    "steps": 3000,
    "train_seconds": 200.0,
    "step_microseconds": 66000.0,
    "device": "Intel(R) Xeon(R) CPU @ 2.00GHz",
    "engine": "tape",
    "precision": "float32",
    "random_seed": 0,
    "versions": {"numpy": "2.4.6"},
}
IMPORTED = dict.fromkeys(
    ["steps", "train_seconds", "step_microseconds", "device", "engine", "versions"]
)
LARGER = {
    "upscale_psnr_db": 28.9,
    "upscale_lanczos_psnr_db": 22.5,
    "upscale_bicubic_psnr_db": 22.0,
    "upscale_back_projection_psnr_db": 22.25,
    "upscale_two_tone_psnr_db": 21.25,
    "upscale_width": 64,
    "upscale_height": 48,
}


class ParsedPage(HTMLParser):
    """A parser that collects a page's links, and checks that its elements are closed in order."""

    VOID = ("meta", "img", "input", "wbr")

    def __init__(self, text):
        super().__init__()
        self.open, self.sources, self.ids, self.words, self.tags = [], [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.tags.append(tag)
        self.sources += [attributes[key] for key in ("src", "href") if attributes.get(key)]
        self.ids += [attributes["id"]] if "id" in attributes else []
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def noise(width, height, channels=3, seed=0):
    values = np.random.default_rng(seed).random((height, width, channels))
    mode = MODES[channels]
    return ImageData.from_values(values, mode, 8)


def add_image(results, name, *, larger=True, channels=3):
    image_name = noise(64, 48, channels)
    training_image = resize_image(image_name, 16) if larger else image_name
    (results / name).mkdir(parents=True)
    write_image(results / name / "resized.png", training_image)
    return image_name


def add_field(
    results,
    image,
    field,
    image_name,
    *,
    larger=True,
    timelapse: str | None = ".mp4",
    trained=True,
    **numbers,
):
    folder = results / image / field
    (folder / "comparison").mkdir(parents=True)
    for name in (
        ("source", "redraw", "lanczos", "bicubic", "back_projection", "two_tone")
        if larger
        else ("redraw",)
    ):
        write_image(folder / "comparison" / f"{name}.png", image_name)
    own = NUMBERS | (LARGER if larger else {}) | ({} if trained else IMPORTED) | numbers
    (folder / "metrics.json").write_text(json.dumps(own | {"image": image, "field": field}))
    if trained:
        rows = {"step": [1, 10, 3000], "seconds": [0.0, 0.5, 200], "psnr_db": [6, np.inf, 31]}
        pd.DataFrame(rows).to_csv(folder / "history.csv", index=False)
    if timelapse:
        write_timelapse(folder / f"timelapse{timelapse}", [np.zeros((8, 8, 3), np.uint8)] * 2, 10)


def inputs(results) -> dict[str, Any]:
    """Return the networks in a folder, with links to their time-lapses, as a job has them."""
    metrics = sorted(results.glob("*/*/metrics.json"))
    folders = [path.parent for path in metrics]
    return {
        "metrics": metrics,
        "files": {
            f"{folder.parent.name}/{folder.name}": [p.name for p in folder.glob("timelapse.*")]
            for folder in folders
        },
    }


def write(results, settings=None):
    path = results / "report.html"
    report.main(**inputs(results), template=TEMPLATE, report=path, settings=settings or {})
    text = path.read_text(encoding="utf-8")
    return text, ParsedPage(text)


@pytest.fixture
def results(tmp_path):
    return tmp_path / "results"


def test_a_page_of_many_kinds_of_networks(results):
    image_name = add_image(results, "lion_cub")
    add_field(results, "lion_cub", "siren", image_name, wrong_pixels=53)
    add_field(results, "lion_cub", "original", image_name, timelapse=None, trained=False)
    own_size = add_image(results, "small", larger=False, channels=4)
    add_field(results, "small", "mlp", own_size, larger=False, timelapse=".gif", psnr_db=200.0)
    text, page = write(results, {"fields": {"siren": {"type": "siren"}}})
    assert "2 images, rendered by 3 networks" in page.text
    assert "28.9\xa0dB" in text
    assert "6.4\xa0dB better than the best plain enlargement" in re.sub(r"\s*\n\s*", " ", text)
    assert "52% smaller" in text
    assert "identical" in page.text
    assert "98,752" in page.text
    assert "3\xa0min 20\xa0s" in text
    assert "Intel Xeon" in page.text
    assert "A network of sines (SIREN" in page.text
    assert page.tags.count("video") == 1


def test_the_page_needs_nothing_beside_it(results):
    image_name = add_image(results, "cub")
    add_field(results, "cub", "siren", image_name)
    text, page = write(results)
    assert page.sources
    assert all(source.startswith(("data:", "#", "cub/")) for source in page.sources)
    assert 'src="data:video' in text
    assert "url(" not in re.sub(r"url\(#", "", text)
    assert not re.search(r"https?://(?!www\.w3\.org/)", text)
    assert len(page.ids) == len(set(page.ids))


def add_earlier(results, image, field, **others):
    """Add a network of an earlier run, with its records."""
    folder = results / image / field
    about = read_made_image(results / image / "resized.png")
    digest = image_digest(about.values())
    write_facts(results / image / "picture.json", about, about)
    record = {"picture": others.pop("digest", digest)}
    numbers: dict[str, Any] = {"width": about.width, "height": about.height} | others
    add_field(results, image, field, noise(64, 48), **numbers)
    settings, shape = field_settings({"type": "siren", "width": 4}), ImageShape(16, 12, 3)
    model = folder / "model.safetensors"
    Model(settings, shape, "rgb", build_field(settings, shape).arrays, record).write(model)
    (folder / "view.html").write_text("the viewer")
    return folder


def test_networks_of_other_runs_are_shown_if_their_records_are_valid(results):
    add_image(results, "cub")
    add_earlier(results, "cub", "siren")
    own = inputs(results)
    add_earlier(results, "cub", "fast", upscale_psnr_db=35.0)
    add_image(results, "photo")
    add_earlier(results, "photo", "quality")
    add_earlier(results, "photo", "another_image", digest="0")
    add_earlier(results, "photo", "another_size", width=99)
    add_earlier(results, "photo", "not_numbers", psnr_db="<b>")
    add_earlier(results, "photo", "sweep+width=4")
    damaged = add_earlier(results, "photo", "damaged")
    (damaged / "comparison/lanczos.png").write_bytes(b"no image")
    path = results / "report.html"
    own["files"]["cub/siren"] += ["view.html", "render_1024.png"]
    report.main(**own, template=TEMPLATE, report=path, settings={})
    page = ParsedPage(text := path.read_text())
    assert "2 images, rendered by 3 networks" in page.text
    links = {source for source in page.sources if not source.startswith(("data:", "#"))}
    assert {"cub/siren/view.html", "cub/siren/render_1024.png", "photo/quality/view.html"} <= links
    assert not any(word in text for word in ("another", "not_numbers", "width=4", "damaged"))
    assert text.index(">Cub<") < text.index(">Photo<")


def test_the_best_result_comes_first(results):
    """No network is called the best if a filter is better."""
    for image, redraw_db in {"a": 22.6, "b": 25.0, "c": 20.0}.items():
        image_name = add_image(results, image)
        for field in ("one", "two"):
            add_field(results, image, field, image_name, upscale_psnr_db=redraw_db)
    page = write(results)[1]
    titles = [words for words in page.words if words in ("A", "B", "C")]
    assert titles[:3] == ["B", "A", "C"]
    assert re.findall('class="best"', write(results)[0]) == ['class="best"'] * 2


def test_the_page_works_in_a_browser(page, results):
    """The slider compares any two images, keys move it, both zoom, and the table sorts."""
    image_name = add_image(results, "cub")
    for number, field in enumerate(("siren", "mlp", "wire")):
        add_field(results, "cub", field, image_name, psnr_db=30.0 + number % 2, steps=number)
    write(results)
    page.look(390, 800)
    page.open(results / "report.html", wait=False)
    page.wait("!document.querySelector('.compare').hidden")
    assert page.run("document.documentElement.scrollWidth") == 390
    options = "[...document.querySelectorAll('.compare select')].map((s) => s.options.length)"
    assert page.run(options) == [8, 8]
    split = "Number(document.querySelector('.compare input').value)"
    press = (
        "document.querySelector('.compare input').dispatchEvent("
        "new KeyboardEvent('keydown', {key: a[0], cancelable: true}))"
    )
    page.run(press, "ArrowRight")
    assert page.run(split) == 52
    page.run(press, "+")
    left = "document.querySelector('[data-side=before]').selectedOptions[0].textContent"
    assert page.run(left).startswith("Lanczos, "), "the best filter"
    transform = "getComputedStyle(document.querySelector('.before img')).transform"
    assert page.run(transform).startswith("matrix(2, 0, 0, 2,")
    column = "[...document.querySelectorAll('tbody th')].map((cell) => cell.textContent.trim())"
    assert page.run(column) == ["mlp", "siren", "wire"]
    page.run("document.querySelectorAll('.sortable th button')[0].click()")
    page.run("document.querySelectorAll('.sortable th button')[0].click()")
    assert page.run(column) == ["wire", "siren", "mlp"]
    page.run("document.querySelectorAll('.sortable th button')[2].click()")
    assert page.run(column)[0] == "mlp"
    kept = ".story img, .crops img, .card .canvas"
    ratio = "[...document.querySelectorAll(a[0])].map((e) => getComputedStyle(e).aspectRatio)"
    assert "auto" not in page.run(ratio, kept), "images that load later keep their places"
    film = "document.querySelector('video')"
    assert page.run(f"{film}.paused"), "it is not seen yet"
    page.run(f"{film}.scrollIntoView({{behavior: 'instant'}})")
    page.wait(f"!{film}.paused")
    page.run("scrollTo({top: 0, behavior: 'instant'})")
    page.wait(f"{film}.paused")
    assert page.errors() == []


def test_equal_results_give_equal_bytes(results):
    image_name = add_image(results, "cub")
    add_field(results, "cub", "siren", image_name)
    assert write(results)[0] == write(results)[0]


def test_what_users_wrote_is_escaped(results):
    image_name = add_image(results, "a<b>&c")
    add_field(results, "a<b>&c", "<script>alert(1)</script>"[:7] + '"x', image_name)
    text, page = write(results, {"images": {"x": {"path": "</pre><script>evil()</script>"}}})
    assert page.tags.count("script") == 1
    assert "a<b>" not in text
    assert "evil()</script>" not in text


def test_a_divergence_is_reported(results):
    image_name = add_image(results, "cub")
    add_field(results, "cub", "calm", image_name)
    assert "diverged" not in write(results)[1].text
    facts = {"to_step": 1100, "noticed_at_step": 1234, "found": "the loss is nan"}
    rollback = facts | {"learning_rate_factor": 0.1}
    add_field(results, "cub", "wild", image_name, rollback=rollback)
    text = write(results)[1].text
    assert "It diverged: the loss is nan at step 1,234. It returned to step 1,100" in text
    assert "continued with 0.1 times the learning rate" in text


def test_what_strangers_files_say_is_escaped(results):
    """Numbers come from a metrics.json that anybody may have written."""
    evil = """</style></script>'"><img src=x onerror=evil()><svg onload=evil()>"""
    image_name = add_image(results, "cub")
    add_field(results, "cub", "siren", image_name)
    path = next(results.rglob("metrics.json"))
    numbers = json.loads(path.read_text())
    numbers |= {"device": evil, "engine": evil, "versions": {evil: evil}}
    path.write_text(json.dumps(numbers))
    text, page = write(results, {"fields": {"siren": {"type": evil}}, evil: [evil]})
    assert page.tags.count("script") == 1 and page.tags.count("style") == 1
    assert "<img src=x" not in text and "<svg onload" not in text
    assert "evil()>" not in text
