"""`snakemake edges` makes the edges of every image, also of tiled ones, on request."""

import numpy as np
import pytest
from PIL import Image
from workspace import Workspace

pytestmark = pytest.mark.slow


def test_edges_of_every_image_on_request(workspace: Workspace):
    workspace.draw("large.png", seed=1)
    workspace.settings["images"] |= {
        "large": {"path": "large.png", "tiles": {"size": 16, "overlap": 2}},
        "same": {"path": "large.png"},
    }
    assert not {"edges", "find_edges"} & workspace.planned().keys()
    assert workspace.planned("edges") == {"resize": 2, "unpack": 1, "find_edges": 3, "edges": 1}
    workspace.succeed("edges")
    results = workspace.path("results")
    with Image.open(results / "tiny/edges.png") as rendered:
        assert rendered.size == (16, 11) and rendered.mode == "L"
    tiled, whole = (np.load(results / name / "edges.npy") for name in ("large", "same"))
    np.testing.assert_allclose(tiled, whole, atol=1e-6)
    assert workspace.planned("edges") == {}
    workspace.settings["edges"] = {"sigma": 2}
    assert workspace.planned("edges") == {"find_edges": 3, "edges": 1}


def test_drawings_are_traced_on_request(workspace: Workspace):
    assert "trace_drawing" not in workspace.planned()
    drawing = "results/tiny/siren/drawing.svg"
    assert workspace.planned(drawing)["trace_drawing"] == 1
