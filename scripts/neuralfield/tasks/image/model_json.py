"""Import of weights in the format of the original lion-cub program: ``model.json``."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from neuralfield.fields import FieldSettings, ImageShape, build_field, field_settings
from neuralfield.fields.coordinate_network import CoordinateNetwork
from neuralfield.system.errors import InputError
from neuralfield.system.files import read_whole

_LARGEST_FILE_BYTES = 64 << 20
"""Maximum size of a file in bytes; parsed JSON takes about thirty times the memory of its text."""

_ACTIVATIONS = {"Tanh": "tanh", "Relu": "relu", "ReLU": "relu", "Sigmoid": "sigmoid"}


def import_model_json(
    path: Path, width: int, height: int
) -> tuple[CoordinateNetwork, FieldSettings, ImageShape, dict[str, Any]]:
    """Read a network with inputs [1, x / (width - 1), y / (height - 1)] and no biases.

    Returns the network, settings, shape and record for a `Model`. Raises `InputError`.

    In the file, an output of 1 is black; in neuralfield, 0 is black. The weights of the last layer
    are therefore negated: 1 - sigmoid(z) = sigmoid(-z).
    """
    layers = _read_layers(path)
    linear = [layer for layer in layers if layer.get("layer_type") == "Linear"]
    names = [layer.get("layer_type") for layer in layers if layer.get("layer_type") != "Linear"]
    weights = [_matrix(path, layer) for layer in linear]
    alike = all(name == names[0] for name in names[:-1])
    if len(names) != len(weights) or len(names) < 2 or names[-1] != "Sigmoid" or not alike:
        expected = "Linear layers, each followed by the same activation, the last by Sigmoid"
        raise InputError(
            str(path), f"layers {[layer.get('layer_type') for layer in layers]}", expected
        )
    if not isinstance(names[0], str) or names[0] not in _ACTIVATIONS:
        raise InputError(str(path), f"activation {names[0]!r}", f"one of {', '.join(_ACTIVATIONS)}")
    fits = all(a.shape[1] == b.shape[0] for a, b in pairwise(weights))
    if weights[0].shape[0] != 3 or weights[-1].shape[1] not in (1, 3, 4) or not fits:
        found = f"weights of shapes {[w.shape for w in weights]}"
        raise InputError(str(path), found, "3 inputs, layers that fit together, 1, 3 or 4 outputs")
    settings = field_settings(
        {
            "type": "mlp",
            **{"bias": False, "coordinates": "corners", "output": "sigmoid", "steepness": 1.0},
            "widths": [w.shape[1] for w in weights[:-1]],
            "activation": _ACTIVATIONS[names[0]],
        }
    )
    weights[-1] = -weights[-1]
    shape = ImageShape(width, height, weights[-1].shape[1])
    network = build_field(settings, shape, random_seed=None)
    network.load({f"layers.{i}.weight": w for i, w in enumerate(weights)}, str(path))
    return network, settings, shape, {"imported_from": path.name, "precision": "float32"}


def _read_layers(path: Path) -> list[dict[str, Any]]:
    try:
        layers = json.loads(read_whole(path, _LARGEST_FILE_BYTES))["layers"]
        if not layers or not all(isinstance(layer, dict) for layer in layers):
            raise TypeError("no layers")
    except OSError as error:
        raise InputError(str(path), error.strerror, "a model.json that can be read") from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        found = f"not a model.json ({type(error).__name__}: {error})"
        raise InputError(str(path), found, "JSON with a list 'layers'") from error
    return layers


def _matrix(path: Path, layer: dict[str, Any]) -> np.ndarray:
    name = f"{path}: layer {layer.get('name')!r}"
    try:
        rows, columns = layer["shape"]
        if not all(type(side) is int and side > 0 for side in (rows, columns)):
            raise ValueError(f"shape {layer['shape']}")
        matrix = np.array(layer["weights"], dtype=np.float64)
        if matrix.shape != (rows * columns,):
            raise ValueError(f"{matrix.size} weights for shape {layer['shape']}")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(name, f"{type(error).__name__}: {error}", "shape and weights") from error
    with np.errstate(over="ignore"):
        if not np.isfinite(matrix.astype(np.float32)).all():
            raise InputError(name, "weights that are not finite in float32", "finite numbers")
    return matrix.reshape(rows, columns)
