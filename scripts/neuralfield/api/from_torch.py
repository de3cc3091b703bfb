"""Import of SIREN networks that were trained with PyTorch."""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from neuralfield.api.arguments import (
    argument_names,
    as_array,
    floats,
    plain,
    require,
)
from neuralfield.api.image_field import ImageField
from neuralfield.fields import ImageShape, Siren
from neuralfield.images.image import MODES, target_size
from neuralfield.system.errors import InputError, WrongTypeError
from neuralfield.system.settings import any_of
from neuralfield.tasks.image.image_model import Model

_WHERE = "state_dict"
_EXPECTED = (
    "a SIREN: linear layers from 2 inputs to 1, 3 or 4 outputs, hidden ones of one width, each with"
    " a ...weight of shape (outputs, inputs) and a ...bias of shape (outputs,)"
)


@argument_names()
def from_torch_siren(
    state_dict: Mapping[str, Any],
    size: tuple[int, int],
    *,
    omega_0: float = 30.0,
    first_omega_0: float | None = None,
    coordinates: str = "xy",
    pixels: str = "centres",
    values: tuple[float, float] = (0.0, 1.0),
) -> ImageField:
    """Import a SIREN from PyTorch: sin(omega_0 (W x + b)) in each layer except the last.

    If the network's coordinates or values differ from those of neuralfield, the conversion is
    folded into the weights of the first and the last layer.

    Parameters
    ----------
    state_dict : mapping of str to tensor
        The parameters in the order of the layers: for each layer a ``...weight`` of shape (outputs,
        inputs) and a ``...bias``, with any prefix.
    size : (int, int)
        Width and height of the training image in pixels, which the network does not store.
    omega_0, first_omega_0 : float
        Frequency of the sines, and of those in the first layer; `first_omega_0` is `omega_0` by
        default.
    coordinates : {"xy", "yx"}
        Order of the network's inputs; "yx" is that of ``meshgrid`` with ``indexing="ij"``.
    pixels : {"centres", "corners", "longer"}
        Positions at which the network's coordinates are -1 and 1. "centres": the outer edges of the
        image, on each axis, so that samples lie at pixel centres. "corners": the centres of the
        outermost pixels, on each axis, as with ``linspace(-1, 1, side)``. "longer": the outer edges
        of the longer side, for both axes, as in neuralfield.
    values : (float, float)
        The network's outputs for black and for white, for example (-1, 1).

    Returns
    -------
    ImageField

    Raises
    ------
    ValueError
        The layers are not those of a SIREN, or an argument has an invalid value.

    Examples
    --------
    >>> import numpy as np
    >>> import neuralfield as nf
    >>> sizes = [(16, 2), (16, 16), (1, 16)]
    >>> state = {}
    >>> for index, (outputs, inputs) in enumerate(sizes):
    ...     state[f"net.{index}.linear.weight"] = np.full((outputs, inputs), 0.01)
    ...     state[f"net.{index}.linear.bias"] = np.zeros(outputs)
    >>> nf.from_torch_siren(state, (64, 48), omega_0=30, values=(-1, 1))
    <ImageField: siren of 337 parameters, fitted to 64 x 48 pixels (grey)>
    """
    weights, biases = _layers(state_dict)
    require(isinstance(size, Sequence), "size", size, "(width, height)")
    width, height = target_size((1, 1), size)
    longer = max(width, height)
    scales = {
        "centres": (longer / width, longer / height),
        "corners": (longer / max(width - 1, 1), longer / max(height - 1, 1)),
        "longer": (1.0, 1.0),
    }
    require(pixels in tuple(scales), "pixels", pixels, any_of(tuple(scales)))
    require(coordinates in ("xy", "yx"), "coordinates", coordinates, "xy or yx")
    if coordinates == "yx":
        weights[0] = weights[0][::-1]
    weights[0] = weights[0] * np.array(scales[pixels])[:, None]
    black, white = floats(values, 2)
    are_different = math.isfinite(black) and math.isfinite(white) and black != white
    require(are_different, "values", values, "two different numbers")
    # in neuralfield, the last layer's output z is -1 for black and 1 for white
    weights[-1] = weights[-1] * (2 / (white - black))
    biases[-1] = (biases[-1] - black) * (2 / (white - black)) - 1
    settings = Siren(
        width=weights[0].shape[1],
        hidden_layers=len(weights) - 2,
        first_omega_0=plain(omega_0 if first_omega_0 is None else first_omega_0),
        omega_0=plain(omega_0),
    )
    shape = ImageShape(width, height, weights[-1].shape[1])
    named = {"weight": weights, "bias": biases}
    arrays = {
        f"layers.{index}.{name}": np.ascontiguousarray(array, np.float32)
        for name, kind in named.items()
        for index, array in enumerate(kind)
    }
    record = {"imported_from": "a state_dict of PyTorch", "precision": "float32"}
    model = Model(settings, shape, MODES[shape.channels], arrays, record)
    model.network()  # raises an error if arrays and settings do not match
    return ImageField(model)


def _layers(state_dict: Mapping[str, Any]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the weights, of shape (inputs, outputs), and the biases of all layers in float64."""
    if not isinstance(state_dict, Mapping):
        raise WrongTypeError(_WHERE, f"a {type(state_dict).__name__}", _EXPECTED)
    arrays = {str(name): _array(str(name), tensor) for name, tensor in state_dict.items()}
    weights = [array.T for name, array in arrays.items() if name.endswith("weight")]
    biases = [array for name, array in arrays.items() if name.endswith("bias")]
    widths = [bias.size for bias in biases]
    is_siren = (
        len(weights) + len(biases) == len(arrays)
        and len(widths) >= 2
        and [weight.shape for weight in weights] == list(pairwise((2, *widths)))
        and [bias.shape for bias in biases] == [(width,) for width in widths]
        and len(set(widths[:-1])) == 1
        and widths[-1] in MODES
    )
    if not is_siren:
        listed = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise InputError(_WHERE, listed or "no arrays", _EXPECTED)
    if not all(np.isfinite(array).all() for array in arrays.values()):
        raise InputError(_WHERE, "weights that are not finite", "finite numbers")
    return weights, biases


def _array(name: str, tensor: Any) -> np.ndarray:
    where = f"{_WHERE}[{name!r}]"
    if isinstance(tensor, Mapping):
        raise InputError(where, "a mapping", "a tensor", f"pass its content: [{name!r}]")
    if hasattr(tensor, "detach"):
        tensor = tensor.detach().cpu().double().numpy()
    array = as_array(where, tensor)
    if array.dtype.kind not in "fiu":
        raise InputError(where, f"an array of {array.dtype}", "a tensor of floats")
    return array.astype(np.float64)
