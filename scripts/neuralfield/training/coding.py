"""A coded image from a trained network: whole latents, and weights in steps that are searched."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from neuralfield.coding.coded_image import (
    LARGEST_WEIGHT,
    VALUE_BITS,
    WHITE,
    CodedImage,
    Layer,
)
from neuralfield.coding.context import SURROUNDINGS
from neuralfield.engines import make_latent_engine
from neuralfield.nn.optimizers import make_optimizer
from neuralfield.nn.schedules import Schedule
from neuralfield.system.device import HOST, Device, namespace_of, to_host
from neuralfield.tasks.bits.bits_model import BitsModel
from neuralfield.tasks.bits.bits_objective import BitsObjective
from neuralfield.tasks.bits.bits_task import BitsTask
from neuralfield.tasks.bits.latent_network import INPUT_SCALE, LATENT_SCALE, LatentNetwork
from neuralfield.tasks.task import PSNR_DB

_FINEST_BITS, _COARSEST_BITS = 11, 2
_LAYERS = ("rate.0", "rate.1", "rate.2", "filters", "hidden", "output")
"""Names of the matrices of `CodedImage.layers`."""

_BIASES = slice(-1, None)
"""The columns of a matrix with biases."""

_LARGEST_LOSS_DB = 0.3
"""Largest loss of the PSNR that is aimed for by rounding weights. Without this limit it is larger
in synthetic images, whose latents need so few bits that lambda is at its limit."""

_HIDDEN_SCALE = 16.0
"""Factor on hidden values of the synthesis, which are small, in the integers of the file."""


@dataclass
class _Part:
    """Weights or biases of a layer, which share a step in the file."""

    name: str
    columns: slice  # of the matrix
    unit: np.ndarray  # factors from the matrix to the numbers that are rounded, by column
    bits: int  # the step is 2 ** -bits
    most_bits: int = _FINEST_BITS

    @property
    def can_be_finer(self) -> bool:
        return self.bits < self.most_bits


def coded_image(
    task: BitsTask, model: BitsModel, device: Device = HOST, threads: int = 1
) -> CodedImage:
    """Return the coded image of a trained network.

    The step of each layer's weights and biases is a power of two, searched from fine to coarse for
    the lowest sum of squared error and weighted bits, those of the weights included.
    """
    network = model.network()
    parts = _parts(network)
    trained = {name: network.parameters[name].data.copy() for name in {p.name for p in parts}}
    objective = _objective(task, network.to(device, "float32"), device)
    wanted = "cuda" if device.kind == "gpu" else "cpu"
    engine = make_latent_engine(wanted, "auto", objective, device, threads)
    try:
        before_db = PSNR_DB.of_mean_error(engine.evaluate()[0])
        for part in parts:
            _round_part(network, trained, part)
        for part in parts:
            _search(part, network, trained, objective, engine.evaluate)
        if target_db := task.training.target_psnr_db:
            least_db = min(target_db, before_db) - _LARGEST_LOSS_DB
            while PSNR_DB.of_mean_error(engine.evaluate()[0]) < least_db:
                if not (coarse := [part for part in parts if part.can_be_finer]):
                    break
                for part in coarse:
                    part.bits += 1
                    _round_part(network, trained, part)
    finally:
        engine.close()
    return _assembled(network, model, parts)


def coded_snapshot(model: BitsModel, finished: CodedImage) -> CodedImage:
    """Return the coded image of a network during its training.

    Nothing is searched: weights have the steps of those in the `finished` file of the training.
    """
    network = model.network()
    layers: dict[str, Layer] = dict(zip(_LAYERS, finished.layers, strict=True))
    parts = _parts(network)
    trained = {part.name: network.parameters[part.name].data.copy() for part in parts}
    for part in parts:
        layer = layers[part.name]
        part.bits = layer.bias_bits if part.columns == _BIASES else layer.weight_bits
        _round_part(network, trained, part)
    return _assembled(network, model, parts)


def _objective(task: BitsTask, network: LatentNetwork, device: Device) -> BitsObjective:
    return task.objective(
        network,
        optimizer=make_optimizer("adam", network.parameters),
        schedule=Schedule("constant", 0.0, 0.0, 1),
        loss="mse",
        huber_delta=1.0,
        device=device,
        dtype="float32",
    )


def _parts(network: LatentNetwork) -> list[_Part]:
    """List the parts; the most important, whose errors others depend on, are searched last."""
    grids, hidden = network.grids, network.hidden
    last, all_but_last = _BIASES, slice(None, -1)
    one = np.ones(1, np.float32)
    # the network has sums of surroundings where the file has means
    counts = [*[1] * grids, *(len(offsets) for offsets in SURROUNDINGS)]
    of_inputs = INPUT_SCALE * np.array(counts, np.float32)
    to_hidden = _HIDDEN_SCALE * of_inputs
    of_hidden = np.full(hidden, WHITE / _HIDDEN_SCALE, np.float32)
    of_output = np.concatenate([of_hidden, WHITE * of_inputs])
    parts = []
    for name in _LAYERS[:3]:
        parts += [_Part(name, all_but_last, one, 9), _Part(name, last, one, 8)]
    return [
        *parts,
        *([_Part("filters", slice(None), one, 11)] if grids > 1 else []),
        _Part("hidden", all_but_last, to_hidden, 9),
        _Part("hidden", last, _HIDDEN_SCALE * one, 8),
        _Part("output", all_but_last, of_output, 9),
        _Part("output", last, WHITE * one, 8),
    ]


def _integers(matrix: np.ndarray, part: _Part) -> np.ndarray:
    numbers = matrix[:, part.columns] * part.unit * 2.0**part.bits
    return np.clip(np.rint(numbers), -LARGEST_WEIGHT, LARGEST_WEIGHT)


def _round_part(network: LatentNetwork, trained: dict[str, np.ndarray], part: _Part) -> None:
    """Replace a part of the network's weights by rounded ones; raise the step if they overflow."""
    given = trained[part.name]
    while True:
        integers = _integers(given, part)
        sums = abs(integers).sum(axis=1).max() if part.columns != _BIASES else 0
        largest = abs(given[:, part.columns] * part.unit).max() * 2.0**part.bits
        if (sums < 1 << 15 and largest <= LARGEST_WEIGHT) or part.bits == 0:
            break
        part.bits -= 1
        part.most_bits = part.bits
    target = network.parameters[part.name].data
    rounded = (integers / (part.unit * 2.0**part.bits)).astype(np.float32)
    target[:, part.columns] = namespace_of(target).asarray(rounded)


def _bits_of(integers: np.ndarray) -> float:
    """Estimate the bits of integers: those of a two-sided geometric distribution."""
    mean = abs(integers).mean()
    if mean == 0:
        return 0.0
    ratio = (math.sqrt(1 + mean * mean) - 1) / mean
    count = math.log2((1 + ratio) / (1 - ratio))
    return integers.size * (count - mean * math.log2(ratio))


def _search(
    part: _Part,
    network: LatentNetwork,
    trained: dict[str, np.ndarray],
    objective: BitsObjective,
    evaluate: Callable[[], tuple[float, float]],
) -> None:
    """Find the step of a part, from fine to coarse, until the cost has risen twice in a row."""
    weight = objective.bit_weight
    best_bits, best_cost, rises = part.bits, math.inf, 0
    for bits in range(min(part.bits, part.most_bits), _COARSEST_BITS - 1, -1):
        part.bits = bits
        _round_part(network, trained, part)
        error, bits_per_pixel = evaluate()
        own = _bits_of(_integers(trained[part.name], part)) / objective.pixels
        cost = error + weight * (bits_per_pixel + own)
        if cost < best_cost:
            best_bits, best_cost, rises = bits, cost, 0
        else:
            rises += 1
            if rises == 2:
                break
    part.bits = best_bits
    _round_part(network, trained, part)


def _assembled(network: LatentNetwork, model: BitsModel, parts: Sequence[_Part]) -> CodedImage:
    found = {}
    for part in parts:
        matrix = to_host(network.parameters[part.name].data)
        found[part.name, part.columns == _BIASES] = (
            _integers(matrix, part).astype(np.int32),
            part.bits,
        )
    nothing = np.empty(0, np.int32)

    def layer(name: str) -> Layer:
        weights, bits = found[name, False]
        bias, bias_bits = found[name, True]
        return Layer(weights, bias.ravel(), bits, min(bias_bits, VALUE_BITS + bits))

    taps, bits = found.get(("filters", False), (np.empty((0, 4), np.int32), 0))
    latents = [
        np.clip(np.rint(LATENT_SCALE * to_host(grid.data)), -64, 63).astype(np.int8)
        for grid in network.latents
    ]
    return CodedImage(
        model.height,
        model.width,
        network.channels,
        latents,
        [layer(name) for name in _LAYERS[:3]],
        Layer(taps, nothing, bits, 0),
        layer("hidden"),
        layer("output"),
    )
