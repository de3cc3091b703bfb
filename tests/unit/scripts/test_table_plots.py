"""Plots of tables of any shape with any column names, as images and for the page."""

import json
import xml.etree.ElementTree as ET
from dataclasses import asdict, replace

import numpy as np
import pytest
from PIL import Image
from test_table_task import make_task

import plot_table
from neuralfield.tasks.table.samples import Samples
from reporting.plots import inline_svg
from reporting.table_plots import plot_of, read_view

NAMES = ["<i>a", "$b^{", "_c", 'd"&', "é"]


@pytest.fixture
def untrained(tmp_path):
    """Return a function that writes a table of some shape, and a network for it."""

    def write(inputs, targets, **settings):
        values = np.random.default_rng(0).normal(size=(40, inputs + targets)).round(6)
        path = tmp_path / "rows.csv"
        names = NAMES[: inputs + targets]
        header = ",".join('"' + name.replace('"', '""') + '"' for name in names)
        rows = [",".join(map(str, row)) for row in values.tolist()]
        path.write_text("\n".join([header, *rows]))
        columns = tuple(names[:inputs]), tuple(names[inputs:])
        samples = Samples(str(path), *columns, values[:, :inputs], values[:, inputs:])
        task = make_task(samples, **settings)
        training = task.training.described()
        record = task.record() | {"step": task.training.steps, "training": training}
        model = tmp_path / "model.safetensors"
        replace(task.model, arrays=task.fresh_network().arrays, metadata=record).write(model)
        own = {"inputs": columns[0], "targets": columns[1], "network": asdict(task.network)}
        own |= {"scale_inputs": "standard", "scale_targets": "auto"}
        own["held_out_share"] = task.held_out_share
        return path, model, {"settings": own, "training": training}

    return write


SHAPES = [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (4, 1)]


@pytest.mark.parametrize(
    ("shape", "held_out_share"), [*((shape, 0.3) for shape in SHAPES), ((1, 1), 0.0), ((3, 1), 0.0)]
)
def test_every_shape_is_rendered_the_same_each_time(untrained, tmp_path, shape, held_out_share):
    table, model, described = untrained(*shape, held_out_share=held_out_share)
    images = []
    for name in ("a.png", "b.png"):
        plot_table.main(table, model, tmp_path / name, **described)
        images.append((tmp_path / name).read_bytes())
    assert images[0] == images[1]
    with Image.open(tmp_path / "a.png") as image:
        assert image.width == 960
    view = read_view(table, model, (), (), **described)
    draw, said = plot_of(view)
    svg = inline_svg(draw, "name")
    words = "".join(ET.fromstring(svg).itertext())
    named = view.samples.inputs if shape in ((1, 1), (1, 2), (2, 1)) else view.samples.targets
    assert all(name in words for name in named)
    assert ("held out" in words) == (held_out_share > 0)
    assert "#0300" not in svg and "#010101" not in svg, "colours are the page's"
    assert view.samples.targets[0] in said


def test_sizes_are_rendered_over_their_parameters(untrained, tmp_path):
    table, model, described = untrained(3, 1)
    found = {"measure": "accuracy", "rmse": 0.1, "bits_per_parameter": 1.0}
    paths = []
    for parameters, accuracy in ((200, 0.9), (10, 0.5)):
        paths.append(tmp_path / f"tables/rows/sizes/{parameters}/metrics.json")
        paths[-1].parent.mkdir(parents=True)
        found["table"] = f"rows/sizes/{parameters}"
        paths[-1].write_text(json.dumps(found | {"parameters": parameters, "accuracy": accuracy}))
    view = read_view(table, model, (), paths, **described)
    assert [size["parameters"] for size in view.sizes] == [10, 200]
    words = "".join(ET.fromstring(inline_svg(plot_of(view)[0], "n")).itertext())
    assert "guessing" in words and "80%" in words and "200" in words
