"""Functions that move the arrays of a training into flat arrays, which kernels get as a whole."""

from collections.abc import Sequence

from neuralfield.nn.network import Network
from neuralfield.nn.optimizers import Optimizer, state_keys
from neuralfield.system.device import Array, Device


def flatten_arrays(device: Device, places: Sequence[tuple[dict[str, Array], str]]) -> Array:
    """Copy arrays into one flat float32 array, and replace each of them with a view of it."""
    arrays = [mapping[key] for mapping, key in places]
    flat = device.xp.concatenate([array.ravel() for array in arrays])
    start = 0
    for (mapping, key), array in zip(places, arrays, strict=True):
        mapping[key] = flat[start : start + array.size].reshape(array.shape)
        start += array.size
    return flat


def flatten_parameters(device: Device, network: Network) -> tuple[Array, dict[str, int]]:
    """Move a network's parameters into one flat float32 array, and make them views of it.

    Returns the flat array, and the index at which each parameter begins in it.
    """
    tensors = network.parameters
    arrays: dict[str, Array] = {name: tensor.data for name, tensor in tensors.items()}
    flat = flatten_arrays(device, [(arrays, name) for name in arrays])
    offsets, offset = {}, 0
    for name, tensor in tensors.items():
        tensor.data = arrays[name]
        offsets[name] = offset
        offset += tensor.data.size
    return flat, offsets


def flatten_moments(device: Device, optimizer: Optimizer, network: Network) -> list[Array]:
    """Move an optimizer's state into flat arrays, one for each of its moments, and make it views of
    them."""
    groups = state_keys(optimizer, list(network.parameters))
    return [flatten_arrays(device, [(optimizer.state, key) for key in keys]) for keys in groups]
