"""The arrays on the GPU of a fit of latents and networks."""

import numpy as np

from neuralfield.coding.context import NEIGHBOURS, SURROUNDINGS
from neuralfield.engines.cuda.latents.layout import make_layout
from neuralfield.engines.cuda.launch import THREADS, processor_count
from neuralfield.engines.flat_arrays import flatten_moments, flatten_parameters
from neuralfield.system.device import Array, Device
from neuralfield.tasks.bits.bits_objective import BitsObjective

MOST_STEPS = 4096
"""Maximum number of steps whose numbers are on the GPU."""

STEP = np.dtype(
    [
        *(("temperature", "f4"), ("sigma", "f4"), ("key", "u4")),
        *(("rate", "f4"), ("inverse_correction2", "f4")),
        *(("bit_scale", "f4"), ("pixel_scale", "f4"), ("bit_weight", "f4")),
    ]
)
"""The struct ``Step`` of kernels."""

_PROCESSOR_BLOCKS = 3
"""Blocks per multiprocessor of the kernels whose warps hold sums of weights' gradients."""


def memory_bytes(objective: BitsObjective) -> int:
    """Count the bytes of all arrays but those of parameters and the optimizer."""
    network, layout = objective.network, make_layout(objective.network.shapes)
    pairs = (network.grids + len(SURROUNDINGS)) // 2 + 1
    numbers = (len(NEIGHBOURS) // 2 + 3) * layout.latents + layout.features + 2 * layout.copies
    return 4 * (numbers + (2 * pairs + network.channels + 3) * objective.pixels)


class LatentArrays:
    """The arrays that kernels exchange; float32, two numbers of 16 bits in a word where it says so.

    The objective's parameters and the optimizer's state become views of flat arrays.
    """

    def __init__(self, objective: BitsObjective, device: Device) -> None:
        xp, network, pixels = device.xp, objective.network, objective.pixels
        layout = self.layout = make_layout(network.shapes)
        self.parameters, starts = flatten_parameters(device, network)
        self.moments = flatten_moments(device, objective.optimizer, network)
        self.latent_count = starts["rate.0"]
        weights = self.weights = self.parameters[self.latent_count :]
        self.filters, self.hidden, self.output = (
            self.parameters[starts[name] :] for name in ("filters", "hidden", "output")
        )
        self.rate_weights = starts["filters"] - starts["rate.0"]
        self.pixel_weights = weights.size - (starts["hidden"] - starts["rate.0"])

        def zeros(*shape: int) -> Array:
            return xp.zeros(shape, dtype="float32")

        planar = objective.values.transpose(2, 0, 1)
        self.image = xp.ascontiguousarray(device.asarray(planar, dtype="float32"))
        self.latents, self.own_gradient = zeros(layout.latents), zeros(layout.latents)
        self.planes = zeros((len(NEIGHBOURS) + 1) // 2, layout.latents)  # of pairs
        self.features = zeros(max(1, layout.features))
        self.derivatives, self.of_latents = zeros(self.latent_count), zeros(self.latent_count)
        self.copies, self.of_copies = zeros(max(1, layout.copies)), zeros(max(1, layout.copies))
        inputs = network.grids + len(SURROUNDINGS)
        self.enlarged = zeros(inputs // 2 + 1, pixels)  # of pairs, a one for biases included
        self.of_pixels = zeros((inputs + 1) // 2, pixels)  # of pairs

        self.blocks = _PROCESSOR_BLOCKS * processor_count(device)
        self.rate_partials = zeros(self.blocks, self.rate_weights)
        self.pixel_partials = zeros(self.blocks, self.pixel_weights)
        self.bits, self.squares = xp.zeros(self.blocks), xp.zeros(self.blocks)
        # of each level, the grid of blocks that reduce gradients, and the place of their sums
        self.level_blocks = [
            (blocks_for(rows * columns), network.grids - 1 - level)
            for level, (rows, columns) in enumerate(network.shapes[1:])
        ]
        counts = [blocks * grids for blocks, grids in self.level_blocks]
        self.firsts = np.cumsum([0, *counts]).astype(np.int32)
        self.filter_partials = zeros(max(1, int(self.firsts[-1])), 4)
        self.firsts_on_gpu = xp.asarray(self.firsts)
        self.grids, self.levels = xp.asarray(layout.grids), xp.asarray(layout.levels)
        self.steps = xp.zeros(MOST_STEPS * STEP.itemsize, dtype="uint8")
        self.step = xp.zeros((), dtype="int32")
        self.found = xp.zeros(2)  # mean squared error and bits per pixel

    def memory_report(self) -> dict[str, int]:
        latents = (self.latents, self.own_gradient, self.planes, self.features, self.derivatives)
        pixels = (self.enlarged, self.of_pixels, self.copies, self.of_copies, self.of_latents)
        return {
            "parameters": self.parameters.nbytes,
            "optimizer": sum(array.nbytes for array in self.moments),
            "picture": self.image.nbytes,
            "latents": sum(array.nbytes for array in latents),
            "pixels": sum(array.nbytes for array in pixels),
        }


def blocks_for(count: int) -> int:
    """Return the number of blocks whose threads treat one element each."""
    return -(-count // THREADS)
