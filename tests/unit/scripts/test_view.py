"""Pages that evaluate a network have the pixels of a render, in a real browser."""

import base64
import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from measuring.chromium import BrowserPage
from PIL import Image
from small_fields import SMALL_FIELDS

import view
from neuralfield.fields import ImageShape, build_field, field_settings
from neuralfield.images import read_image, resize_image
from neuralfield.images.image import CHANNELS
from neuralfield.images.tiling import Tiling
from neuralfield.rendering.levels import to_levels
from neuralfield.rendering.render import render
from neuralfield.system.device import HOST
from neuralfield.system.errors import CheckpointError
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import load_trained, save_mosaic

WIDTH, HEIGHT = 13, 9

# Each output, mode, kind of sampling and encoding occurs in one of the networks.
NETWORKS: dict[str, dict[str, Any]] = {
    "siren": {"mode": "bilevel", "output": "sigmoid", "steepness": 12.0},
    "finer": {"mode": "rgb"},
    "wire": {"mode": "rgb", "footprint": True, "residual": 4},
    "gauss": {"mode": "rgba", "residual": 1},
    "fourier": {"mode": "grey", "footprint": True, "scale": 2.0, "spread": 3.0, "residual": 2},
    "hashgrid": {"mode": "rgb", "features": 3},
    "cafe": {"mode": "rgb", "output": "sigmoid"},
    "mlp": {
        "mode": "rgb",
        "coordinates": "corners",
        "bias": False,
        "activation": "tanh",
        "output": "sigmoid",
        "steepness": 1.5,
    },
}
QUICK = {"siren", "wire", "hashgrid"}
"""Networks compared by default: of sines, of complex numbers with footprints, and a grid."""

WIDE = {"siren": {"width": 70}, "fourier": {"frequencies": 21}, "mlp": {"widths": [33, 6]}}


@pytest.fixture(autouse=True)
def small_screen(request):
    if "page" in request.fixturenames:
        request.getfixturevalue("page").look(200, 240)


def save(path: Path, field: dict[str, Any], shape: ImageShape, about: dict[str, Any], seed=0):
    """Write a network with random weights, large enough to be seen in a render."""
    settings = field_settings(field)
    network = build_field(settings, shape, seed)
    random = np.random.default_rng(seed)
    for name, tensor in network.parameters.items():
        if name.startswith("encoding") or name.startswith(f"layers.{len(network.layers) - 1}"):
            tensor.data[...] = random.normal(0, about.get("spread", 0.7), tensor.data.shape)
    metadata = {"footprint": about.get("footprint", False), "step": about.get("step", 100)}
    network.to(HOST, "float32")
    residual = None
    if about.get("residual"):
        scale = about["residual"]
        sides = (scale * shape.height, scale * shape.width, shape.channels)
        residual = random.normal(0, 0.1, sides).astype(np.float32)
    Model(settings, shape, about["mode"], network.arrays, metadata, residual).write(path)


def make_network(folder: Path, name: str) -> Path:
    about = dict(NETWORKS[name])
    own = {
        key: about[key] for key in about if key not in ("mode", "footprint", "spread", "residual")
    }
    field = {"type": name, **SMALL_FIELDS[name], **WIDE.get(name, {}), **own}
    shape = ImageShape(WIDTH, HEIGHT, CHANNELS[about["mode"]])
    save(folder / "model.safetensors", field, shape, about)
    return folder / "model.safetensors"


def make_page(folder: Path, model: Path, **others: Any) -> Path:
    """Write the page of a network whose training image is noise."""
    trained = load_trained(model)
    noise = np.random.default_rng(1).integers(0, 256, (trained.height, trained.width, 3))
    Image.fromarray(noise.astype(np.uint8)).save(folder / "resized.png")
    path = folder / "view.html"
    arguments = {"image": "tiny", "field": "small", **others}
    resized = folder / "resized.png"
    shutil.copy(resized, folder / "redraw.png")
    view.main(model, resized, folder, path, **arguments)
    return path


def pixels(page: BrowserPage, channels: int, **about: Any) -> np.ndarray:
    """Return the levels of the pixels that the page renders."""
    letters = "(await viewer.pixels(a[0])).reduce((text, b) => text + String.fromCharCode(b), '')"
    text = page.run(f"btoa({letters})", about)
    found = np.frombuffer(base64.b64decode(text), np.uint8)
    found = found.reshape(about["height"], about["width"], 4)
    return found[..., :channels].astype(int)


def message(page: BrowserPage) -> str:
    return page.run("document.getElementById('message').textContent")


def require_same(page: BrowserPage, model: Path) -> None:
    """Compare the page with renders at the image's size, enlarged by 32, and reduced."""
    trained = load_trained(model)
    width, height = trained.width, trained.height
    whole, box = (0, 0, 1, 1), (0.375, 0.0, 0.625, 0.25)
    sizes = [((width, height), whole), ((8 * width, 8 * height), box)]
    if trained.footprint:
        sizes.append(((width * 2 // 3, height // 2), whole))
    for size, part in sizes:
        expected = to_levels(render(trained, *size, box=part, device=HOST), 8)
        assert expected.max() > 40 + expected.min()
        found = pixels(page, trained.channels, width=size[0], height=size[1], box=part)
        difference = np.abs(found - expected)
        assert difference.max() <= 1, f"{difference.max()} levels at {size}"


@pytest.mark.parametrize(
    "name",
    [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in NETWORKS],
)
def test_every_field_as_rendered(page: BrowserPage, tmp_path: Path, name: str):
    model = make_network(tmp_path, name)
    # half of the networks use the GPU's way, which processes fewer points at once
    page.open(make_page(tmp_path, model), "#gpu" if list(NETWORKS).index(name) % 2 else "")
    assert message(page) == ""
    require_same(page, model)
    assert page.errors() == []


def test_tiles_blend_as_rendered(page: BrowserPage, tmp_path: Path):
    """The networks of a large image's tiles form one image, even where four tiles overlap."""
    tiling = Tiling(30, 22, tile_px=16, overlap_px=5)
    for number, tile in enumerate(tiling):
        folder = tmp_path / "tiles" / tile.name
        folder.mkdir(parents=True)
        shape, field = ImageShape(tile.width, tile.height, 3), {"type": "siren", "width": 6}
        save(folder / "model.safetensors", field, shape, {"mode": "rgb"}, seed=number)
    save_mosaic(tmp_path / "mosaic.json", tiling)
    page.open(make_page(tmp_path, tmp_path / "mosaic.json"))
    require_same(page, tmp_path / "mosaic.json")


def test_enlargements_as_made_here(page: BrowserPage, tmp_path: Path):
    """The page compares the network with the image and with its Lanczos enlargement."""
    page.open(make_page(tmp_path, make_network(tmp_path, "finer")))
    image = read_image(tmp_path / "resized.png")
    near = pixels(page, 3, width=WIDTH, height=HEIGHT, kind="nearest")
    assert (near == image.pixels).all()
    for width, height in ((5 * WIDTH, 5 * HEIGHT), (6, 4)):
        expected = resize_image(image, (width, height), "lanczos").pixels.astype(int)
        found = pixels(page, 3, width=width, height=height, kind="lanczos")
        assert np.abs(found - expected).max() <= 1


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return the page of a network with four snapshots."""
    folder = tmp_path_factory.mktemp("trained")
    field, shape = {"type": "siren", "width": 12}, ImageShape(WIDTH, HEIGHT, 3)
    (folder / "checkpoints").mkdir()
    for step, seed in ((0, 1), (3, 2), (20, 3), (100, 4)):
        path = folder / f"checkpoints/step_{step:08d}.safetensors"
        save(path, field, shape, {"mode": "rgb", "step": step, "residual": step == 100}, seed)
    model = path.rename(folder / "model.safetensors")
    rows = ["step,seconds,psnr_db", "0,0,5", "20,1,12.5", "100,2,31.25"]
    (folder / "history.csv").write_text("\n".join(rows))
    return make_page(
        folder, model, checkpoints=folder / "checkpoints", history=folder / "history.csv"
    )


def test_slider_plays_the_training(page: BrowserPage, trained: Path):
    """Snapshots are shown as saved, up to their reduced number of bits; the last one is exact."""
    page.open(trained)
    assert page.run("document.getElementById('step').textContent") == "step 100 · 31.2 dB"
    for number, step in enumerate((0, 3, 20)):
        model = load_trained(trained.parent / f"checkpoints/step_{step:08d}.safetensors")
        expected = to_levels(render(model, 52, 36, device=HOST), 8)
        found = pixels(page, 3, width=52, height=36, snapshot=number)
        assert np.abs(found - expected).max() <= 3
    require_same(page, trained.parent / "model.safetensors")
    page.run("document.getElementById('play').click()")
    assert page.run("document.getElementById('play').getAttribute('aria-label')").startswith(
        "Pause"
    )
    page.wait("viewer.state.snapshot === 3")
    page.wait("document.getElementById('play').getAttribute('aria-label').startsWith('Play')")
    assert page.errors() == []


def test_controls(page: BrowserPage, trained: Path):
    """Keys, wheel, double click, pinch, the split and the loss of the context."""
    page.open(trained)
    zoom = "viewer.state.zoom"
    key = (
        "document.getElementById('canvas').dispatchEvent("
        "new KeyboardEvent('keydown', {key: a[0], bubbles: true}))"
    )
    before = page.run(zoom)
    page.run(key, "+")
    assert page.run(zoom) == pytest.approx(1.5 * before)
    place = page.run("viewer.state.x")
    page.run(key, "ArrowRight")
    assert page.run("viewer.state.x") > place
    pointer = (
        "document.getElementById('canvas').dispatchEvent(new PointerEvent(a[0],"
        " {pointerId: a[1], clientX: a[2], clientY: a[3]}))"
    )
    page.run("HTMLElement.prototype.setPointerCapture = () => {}")
    zoomed = page.run(zoom)
    for event, number, x in (
        *(("pointerdown", 7, 100), ("pointerdown", 8, 200), ("pointermove", 8, 300)),
        *(("pointerup", 7, 100), ("pointerup", 8, 300)),
    ):
        page.run(pointer, event, number, x, 200)
    assert page.run(zoom) == pytest.approx(2 * zoomed)
    page.run("document.getElementById('fit').click()")
    assert page.run(zoom) == pytest.approx(before)
    page.run(
        "document.getElementById('canvas').dispatchEvent(new WheelEvent('wheel',"
        " {deltaY: -100, clientX: 99, clientY: 99}))"
    )
    assert page.run(zoom) > before
    page.run(
        "(document.getElementById('compare').value = 'lanczos',"
        " document.getElementById('compare').dispatchEvent(new Event('change')))"
    )
    page.wait("[...viewer.tiles.cache.values()].some((tile) => tile.kind === 'lanczos')")
    on = key.replace("'canvas'", "a[1]")
    page.run(on, "ArrowRight", "split")
    assert page.run("document.getElementById('split').value") == "52"
    place = page.run("viewer.state.x")
    page.run(on, "ArrowRight", "time")
    page.run(on, "ArrowRight", "compare")
    assert page.run("viewer.state.x") == place, "the slider and the list have their own keys"
    page.run(on, "ArrowRight", "fit")
    assert page.run("viewer.state.x") > place, "a button that was clicked has not"
    page.run(
        "(window.lost = viewer.tiles.gl.getExtension('WEBGL_lose_context'),"
        " window.old = viewer.tiles, lost.loseContext())"
    )
    page.wait("!document.getElementById('preview').hidden")
    page.run("lost.restoreContext()")
    page.wait("viewer.tiles !== old && viewer.tiles.cache.size > 0")
    page.wait("document.body.dataset.ready === '1'")
    require_same(page, trained.parent / "model.safetensors")


def test_saves_what_is_seen(page: BrowserPage, trained: Path):
    """The saved image has the network on the left, its comparison on the right, and that size."""
    page.open(trained)
    page.run(
        "(document.getElementById('compare').value = 'nearest',"
        " document.getElementById('compare').dispatchEvent(new Event('change')))"
    )
    page.run("(URL.createObjectURL = (blob) => { window.saved = blob; return '#'; })")
    page.run("(HTMLAnchorElement.prototype.click = function () { window.file = this.download; })")
    page.run("document.getElementById('save').click()")
    page.run("(document.getElementById('longer').value = 52)")
    page.run("document.getElementById('start').click()")
    page.wait("window.file")
    assert page.run("file") == "tiny_small_52x36.png"
    text = page.run("saved.arrayBuffer().then((b) => [...new Uint8Array(b)])")
    with Image.open(io.BytesIO(bytes(text))) as image:
        found = np.array(image)[..., :3].astype(int)
    for kind, part in (("network", np.s_[:, :25]), ("nearest", np.s_[:, 27:])):
        expected = pixels(page, 3, width=52, height=36, kind=kind)
        assert np.abs(found - expected)[part].max() <= 1, kind
    page.run("document.getElementById('close').click()")
    assert page.errors() == []


def look_at_the_image_alone(page: BrowserPage) -> None:
    parts = "document.querySelectorAll('footer, header, #corner')"
    page.run(f"[...{parts}].map((e) => e.hidden = true)")
    page.run("viewer.look({zoom: 20, x: 6.5, y: 4.5})")


def screen(page: BrowserPage, path: Path) -> np.ndarray:
    page.driver.save_screenshot(str(path))
    return read_image(path, mode="rgb").pixels.astype(int)


def test_screen_shows_the_render(page: BrowserPage, trained: Path):
    """If a pixel covers a whole number of screen pixels, the screen has the bytes of a render."""
    page.look(400, 400)
    page.open(trained)
    look_at_the_image_alone(page)
    page.wait("document.body.dataset.ready === '1'")
    shown = screen(page, trained.with_name("screen.png"))
    expected = to_levels(
        render(load_trained(trained.parent / "model.safetensors"), 260, 180, device=HOST), 8
    )
    assert np.abs(shown[110:290, 70:330] - expected).max() <= 1
    assert page.errors() == []


def test_preview_stays_until_something_finer_is_there(page: BrowserPage, trained: Path):
    """On a slow GPU the page shows its embedded render, and no coarser tile over it."""
    model, path = trained.with_name("model.safetensors"), trained.with_name("slow.html")
    levels = to_levels(render(load_trained(model), 260, 180, device=HOST), 8).astype(np.uint8)
    Image.fromarray(levels).save(trained.with_name("redraw.png"))
    resized = trained.with_name("resized.png")
    view.main(model, resized, trained.parent, path, image="a", field="b")
    page.look(400, 400)
    page.open(path)
    page.run("Object.assign(viewer.tiles, {pointsPerMs: 1, work: () => {}})")
    look_at_the_image_alone(page)
    page.run("new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))")
    shown = screen(page, trained.with_name("screen.png"))
    assert np.abs(shown[110:290, 70:330] - levels).mean() < 4  # the embedded render is compressed
    scales = "[...new Set(viewer.tiles.jobs.map((job) => Number(job.key.split(' ')[2])))]"
    assert page.run(scales) == [20]
    page.run("viewer.look({zoom: 400})")
    page.run("new Promise((end) => requestAnimationFrame(() => requestAnimationFrame(end)))")
    found = page.run(scales)
    assert len(found) > 1 and min(found) > 20


@pytest.mark.parametrize("dark", [False, True])
def test_fits_a_phone(page: BrowserPage, trained: Path, dark: bool):
    """Nothing is wider than the screen, and the colours follow the device's."""
    page.look(390, 760, dark=dark)
    page.open(trained)
    assert page.run("document.documentElement.scrollWidth") == 390
    parts = "[...document.querySelectorAll('footer > div, header')]"
    sides = page.run(f"{parts}.flatMap((e) => Object.values(e.getBoundingClientRect().toJSON()))")
    assert min(sides) >= 0 and max(sides) <= 760
    paper = page.run("getComputedStyle(document.body).backgroundColor")
    assert paper == ("rgb(21, 20, 18)" if dark else "rgb(250, 248, 244)")


def test_names_are_escaped(page: BrowserPage, tmp_path: Path):
    model = make_network(tmp_path, "siren")
    name = "</script><img src=x onerror=document.title=1>"
    page.open(make_page(tmp_path, model, image=name, field=name))
    assert name in page.run("document.querySelector('header').textContent")
    assert page.run("document.querySelectorAll('img').length") == 1
    assert page.errors() == []


def test_too_deep_a_network_is_an_image(page: BrowserPage, tmp_path: Path):
    """The page says why it cannot evaluate a network, and shows the render instead."""
    shape, field = ImageShape(WIDTH, HEIGHT, 3), {"type": "mlp", "widths": [1] * 130}
    save(tmp_path / "model.safetensors", field, shape, {"mode": "rgb"})
    page.open(make_page(tmp_path, tmp_path / "model.safetensors"))
    assert "131 layers" in message(page)
    assert page.run("document.getElementById('preview').naturalWidth > 0")
    assert page.run("document.getElementById('canvas').getBoundingClientRect().width") == 0


def test_weights_that_are_not_finite_are_refused(tmp_path: Path):
    shape, field = ImageShape(WIDTH, HEIGHT, 3), {"type": "siren", "width": 4}
    save(tmp_path / "model.safetensors", field, shape, {"mode": "rgb", "spread": np.inf})
    with pytest.raises(CheckpointError, match="not finite"):
        view.main(tmp_path / "model.safetensors", *[tmp_path] * 3, image="a", field="b")


def test_no_request_leaves_the_page(trained: Path):
    """The page has no address in it, and its policy allows none."""
    text = trained.read_text()
    assert "default-src 'none'" in text
    assert not any(word in text for word in ("http://", "https://", "fetch(", "XMLHttpRequest"))
