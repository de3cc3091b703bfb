"""The description of a network from which a page generates its shaders."""

from typing import Any

from neuralfield.engines.kernel_plan import NetworkPlan, NotCovered, network_plan
from neuralfield.fields import CoordinateNetwork
from neuralfield.fields.cafe import FourierChebyshev
from neuralfield.fields.coordinate_network import FourierFeatures
from neuralfield.fields.wire import ComplexLinear
from neuralfield.tasks.image.image_model import Model
from neuralfield.tasks.image.mosaic import Mosaic, Trained

MOST_LAYERS = 128
"""Maximum number of layers; more would need too many render passes in a browser."""

MOST_PRODUCTS = 8_000_000
"""Maximum number of multiplications per point; with more, a GPU takes seconds for an image."""

MOST_WEIGHTS = 16_000_000
"""Maximum number of weights of all networks of a page; with more, the page is too large to open."""


def describe(trained: Trained) -> dict[str, Any]:
    """Return a description of a network, or of the networks of tiles, as plain values.

    Raises `NotCovered` if it is too large for a browser, or has no shaders.
    """
    network = first_model(trained).network()
    plan = network_plan(network)
    products = sum(layer.fan_in * layer.fan_out for layer in plan.layers)
    for reason, is_too_large in (
        (f"it has {trained.parameter_count:,} weights", trained.parameter_count > MOST_WEIGHTS),
        (f"it has {len(plan.layers):,} layers", len(plan.layers) > MOST_LAYERS),
        (f"it needs {products:,} multiplications per point", products > MOST_PRODUCTS),
    ):
        if is_too_large:
            raise NotCovered(reason)
    return {
        "width": trained.width,
        "height": trained.height,
        "channels": trained.channels,
        "mode": trained.mode,
        "footprint": trained.footprint,
        "mosaic": _tiling(trained) if isinstance(trained, Mosaic) else None,
        "encoding": plan.encoding,
        **_encoding(network, plan),
        "layers": _layers(network, plan),
        "output": plan.output,
        "steepness": float(plan.steepness),
    }


def first_model(trained: Trained) -> Model:
    """Return a model, or the first model of a mosaic, whose networks all have the same shape."""
    return trained.load(trained.tiling.tile(0, 0)) if isinstance(trained, Mosaic) else trained


def _tiling(mosaic: Mosaic) -> dict[str, Any]:
    tiling = mosaic.tiling
    return {"columns": tiling.columns, "rows": tiling.rows, "overlap": tiling.overlap_px}


def _encoding(network: CoordinateNetwork, plan: NetworkPlan) -> dict[str, Any]:
    """Describe the encoding before the first layer; `degree` is -1 without polynomials."""
    encoding = network.encoding
    if isinstance(encoding, FourierChebyshev | FourierFeatures):
        degree = encoding.degree if isinstance(encoding, FourierChebyshev) else -1
        return {"frequencies": encoding.frequencies.shape[1], "degree": degree}
    if plan.levels:
        names = ("resolution", "start", "rows", "columns", "skipped", "is_hashed")
        levels = [{name: getattr(level, name) for name in names} for level in plan.levels]
        return {"levels": levels, "features": plan.table_shape[1]}
    return {}


def _layers(network: CoordinateNetwork, plan: NetworkPlan) -> list[dict[str, Any]]:
    """Describe the layers; complex layers are described as real layers of twice the width."""
    has_complex = bool(plan.complex_tensors)
    described = []
    for layer, own in zip(network.layers, plan.layers, strict=True):
        complex_kind = None
        if isinstance(layer, ComplexLinear):
            complex_kind = "last" if layer.real_part_only else "hidden"
        elif has_complex:
            complex_kind = "first"
        described.append(
            {
                "fanIn": own.fan_in,
                "fanOut": own.fan_out,
                "activation": own.activation,
                "frequency": own.frequency,
                "factors": own.factors,
                "scale": own.wavelet_scale,
                "complex": complex_kind,
            }
        )
    return described
