"""A coded image from a trained network: whole latents, and weights in steps that are searched."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from neuralfield.coding.coded_image import (
    FILTER_TAPS,
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


def coded_image(
    task: BitsTask, model: BitsModel, device: Device = HOST, threads: int = 1
) -> CodedImage:
    """Return the coded image of a trained network.

    The step of each layer's weights and biases is a power of two, searched from fine to coarse for
    the lowest sum of squared error and weighted bits, those of the weights included.
    """
    network = model.network()
    rounding = _RoundedNetwork(network)
    objective = task.objective(
        network.to(device, "float32"),
        optimizer=make_optimizer("adam", network.parameters),
        schedule=Schedule("constant", 0.0, 0.0, 1),
        loss="mse",
        huber_delta=1.0,
        device=device,
        dtype="float32",
    )
    wanted = "cuda" if device.kind == "gpu" else "cpu"
    engine = make_latent_engine(wanted, "auto", objective, device, threads)
    try:
        before_db = PSNR_DB.of_mean_error(engine.evaluate()[0])
        for part in rounding.parts:
            rounding.round(part)
        for part in rounding.parts:
            rounding.search(part, objective, engine.evaluate)
        if target_db := task.training.target_psnr_db:
            least_db = min(target_db, before_db) - _LARGEST_LOSS_DB
            while PSNR_DB.of_mean_error(engine.evaluate()[0]) < least_db:
                of_pixels = (part for part in rounding.parts if part.name in _LAYERS[3:])
                if not (coarse := [part for part in of_pixels if part.bits < part.most_bits]):
                    break
                for part in coarse:
                    part.bits += 1
                    rounding.round(part)
    finally:
        engine.close()
    return rounding.coded_image(model)


def coded_snapshot(model: BitsModel, finished: CodedImage) -> CodedImage:
    """Return the coded image of a network during its training.

    Nothing is searched: weights have the steps of those in the `finished` file of the training.
    """
    rounding = _RoundedNetwork(model.network())
    layers: dict[str, Layer] = dict(zip(_LAYERS, finished.layers, strict=True))
    for part in rounding.parts:
        layer = layers[part.name]
        part.bits = layer.bias_bits if part.columns == _BIASES else layer.weight_bits
        rounding.round(part)
    return rounding.coded_image(model)


class _RoundedNetwork:
    """A network whose weights are rounded in parts, and the trained weights."""

    def __init__(self, network: LatentNetwork) -> None:
        self._network, self.parts = network, _parts(network)
        self._trained = {name: network.parameters[name].data.copy() for name in _LAYERS}

    def round(self, part: _Part) -> None:
        """Replace a part of the network's weights by rounded ones; raise the step if sums could
        overflow."""
        given = self._trained[part.name][:, part.columns] * part.unit
        while True:
            integers = _integers(given, part)
            sums = abs(integers).sum(axis=1).max() if part.columns != _BIASES else 0
            largest = abs(given).max() * 2.0**part.bits
            if (sums < 1 << 15 and largest <= LARGEST_WEIGHT) or part.bits == 0:
                break
            part.bits -= 1
            part.most_bits = part.bits
        target = self._network.parameters[part.name].data
        rounded = (integers / (part.unit * 2.0**part.bits)).astype(np.float32)
        target[:, part.columns] = namespace_of(target).asarray(rounded)

    def search(
        self, part: _Part, objective: BitsObjective, evaluate: Callable[[], tuple[float, float]]
    ) -> None:
        """Find the step of a part, from fine to coarse, until the cost has risen twice in a row."""
        given = self._trained[part.name][:, part.columns] * part.unit
        best_bits, best_cost, rises = part.bits, math.inf, 0
        for bits in range(min(part.bits, part.most_bits), _COARSEST_BITS - 1, -1):
            part.bits = bits
            self.round(part)
            error, bits_per_pixel = evaluate()
            own = _bits_of(_integers(given, part)) / objective.pixels
            cost = error + objective.bit_weight * (bits_per_pixel + own)
            if cost < best_cost:
                best_bits, best_cost, rises = bits, cost, 0
            else:
                rises += 1
                if rises == 2:
                    break
        part.bits = best_bits
        self.round(part)

    def coded_image(self, model: BitsModel) -> CodedImage:
        """Return the image of whole latents and of the rounded weights."""
        network, found = self._network, {}
        for part in self.parts:
            given = to_host(network.parameters[part.name].data)[:, part.columns] * part.unit
            integers = _integers(given, part).astype(np.int32)
            found[part.name, part.columns == _BIASES] = integers, part.bits
        layers, nothing = [], (np.empty((0, FILTER_TAPS), np.int32), 0)
        for name in _LAYERS:
            weights, bits = found.get((name, False), nothing)
            bias, bias_bits = found.get((name, True), (nothing[0], 0))
            layers.append(Layer(weights, bias.ravel(), bits, min(bias_bits, VALUE_BITS + bits)))
        latents = [
            np.clip(np.rint(LATENT_SCALE * to_host(grid.data)), -64, 63).astype(np.int8)
            for grid in network.latents
        ]
        sizes = model.height, model.width, network.channels
        return CodedImage(*sizes, latents, layers[:3], *layers[3:])


def _parts(network: LatentNetwork) -> list[_Part]:
    """List the parts; the most important, whose errors others depend on, are searched last."""
    one = np.ones(1, np.float32)
    # the network has sums of surroundings where the file has means
    counts = [*[1] * network.grids, *(len(offsets) for offsets in SURROUNDINGS)]
    of_inputs = INPUT_SCALE * np.array(counts, np.float32)
    of_hidden = np.full(network.hidden, WHITE / _HIDDEN_SCALE, np.float32)
    units = {
        **dict.fromkeys(_LAYERS[:3], (one, one)),
        "hidden": (_HIDDEN_SCALE * of_inputs, _HIDDEN_SCALE * one),
        "output": (np.concatenate([of_hidden, WHITE * of_inputs]), WHITE * one),
    }
    parts = []
    for name, (of_weights, of_biases) in units.items():
        if name == "hidden" and network.grids > 1:
            parts.append(_Part("filters", slice(None), one, 11))
        parts.append(_Part(name, slice(None, -1), of_weights, 9))
        parts.append(_Part(name, _BIASES, of_biases, 8))
    return parts


def _integers(given: np.ndarray, part: _Part) -> np.ndarray:
    return np.clip(np.rint(given * 2.0**part.bits), -LARGEST_WEIGHT, LARGEST_WEIGHT)


def _bits_of(integers: np.ndarray) -> float:
    """Estimate the bits of integers: those of a two-sided geometric distribution."""
    mean = abs(integers).mean()
    if mean == 0:
        return 0.0
    ratio = (math.sqrt(1 + mean * mean) - 1) / mean
    count = math.log2((1 + ratio) / (1 - ratio))
    return integers.size * (count - mean * math.log2(ratio))
