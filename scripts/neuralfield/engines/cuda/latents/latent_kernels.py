"""The kernels of a fit of latents and networks on a GPU, with the arrays that they exchange."""

from typing import Any

import numpy as np

from neuralfield.coding.context import NEIGHBOURS, SURROUNDINGS
from neuralfield.engines.cuda.latents.layout import Layout, make_layout, shared_constants
from neuralfield.engines.cuda.launch import Launch, blocks_for, processor_count
from neuralfield.engines.cuda.source import Module, compile_module
from neuralfield.engines.flat_arrays import flatten_moments, flatten_parameters
from neuralfield.nn.optimizers import Adam
from neuralfield.system.device import Array, Device
from neuralfield.tasks.bits.bits_objective import BitsObjective
from neuralfield.tasks.bits.latent_network import (
    LARGEST_LOG_SCALE,
    LATENT_SCALE,
    LEAST_LOG_SCALE,
    PROBABILITY_FLOOR,
)

ERROR_SCALE = 32.0
"""Factor on errors of pixels, which are small numbers in fp16."""

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

_PROCESSOR_BLOCKS, _WARP_THREADS = 3, 128
"""Blocks per multiprocessor of the kernels whose warps hold sums of weights' gradients, and their
threads."""


def memory_bytes(objective: BitsObjective) -> int:
    """Count the bytes of all arrays but those of parameters and the optimizer."""
    network, layout = objective.network, make_layout(objective.network.shapes)
    pairs = (network.grids + len(SURROUNDINGS)) // 2 + 1
    numbers = (len(NEIGHBOURS) // 2 + 3) * layout.latents + layout.features + 2 * layout.copies
    return 4 * (numbers + (2 * pairs + network.channels + 3) * objective.pixels)


class LatentKernels:
    """The launches of a step, in order; `rate` and `pixels` are independent, and both updates.

    The objective's parameters and the optimizer's state become views of flat arrays. `finish` adds
    the step's loss and error to `totals`. Arrays are float32, with two numbers of 16 bits in a word
    where it says so.
    """

    def __init__(self, objective: BitsObjective, device: Device, totals: Array) -> None:
        xp, network, pixels = device.xp, objective.network, objective.pixels
        layout = make_layout(network.shapes)
        self.parameters, starts = flatten_parameters(device, network)
        self.moments = flatten_moments(device, objective.optimizer, network)
        count = starts["rate.0"]
        weights, of_rate = self.parameters[count:], starts["filters"] - count
        filters, hidden, output = (
            self.parameters[starts[name] :] for name in ("filters", "hidden", "output")
        )
        blocks = _PROCESSOR_BLOCKS * processor_count(device)

        def zeros(*shape: int) -> Array:
            return xp.zeros(shape, dtype="float32")

        planar = objective.values.transpose(2, 0, 1)
        image = xp.ascontiguousarray(device.asarray(planar, dtype="float32"))
        latents, own_gradient = zeros(layout.latents), zeros(layout.latents)
        planes = zeros((len(NEIGHBOURS) + 1) // 2, layout.latents)  # of pairs
        features = zeros(max(1, layout.features))
        derivatives = zeros(count)
        copies, of_copies = zeros(max(1, layout.copies)), zeros(max(1, layout.copies))
        inputs = network.grids + len(SURROUNDINGS)
        enlarged = zeros(inputs // 2 + 1, pixels)  # of pairs, a one for biases included
        of_pixels = zeros((inputs + 1) // 2, pixels)  # of pairs
        rate_partials, pixel_partials = zeros(blocks, of_rate), zeros(blocks, hidden.size)
        self.bits, self.squares = xp.zeros(blocks), xp.zeros(blocks)  # sums of each block
        self.steps = xp.zeros(MOST_STEPS * STEP.itemsize, dtype="uint8")
        self.step = xp.zeros((), dtype="int32")
        now, grids, plane = (
            (self.steps, self.step),
            xp.asarray(layout.grids),
            np.int64(layout.latents),
        )
        numbers = {"RATE_WEIGHTS": of_rate, "PIXEL_WEIGHTS": hidden.size, "BLOCKS": blocks}
        constants = _constants(objective) | numbers
        files = ("steps", "rate", "pixels", "enlargement")
        modules = {name: compile_module(f"latents/{name}.cu", constants) for name in files}

        steps = modules["steps"].get_function
        latent_blocks, weight_blocks = (blocks_for(count),), (-(-weights.size // 32),)
        self.round_latents = Launch(
            *(steps("round_latents"), latent_blocks),
            (grids, *now, self.parameters, latents, copies, derivatives, np.int64(count)),
        )
        self.rate = Launch(
            *(modules["rate"].get_function("rate"), (blocks,)),
            (
                *(grids, latents, weights, planes, plane, own_gradient, features, rate_partials),
                *(self.bits, np.int32(layout.pieces)),
            ),
            _WARP_THREADS,
        )
        pixel = Launch(
            *(modules["pixels"].get_function("pixels"), (blocks,)),
            (
                *(enlarged, image, hidden, output, of_pixels, pixel_partials),
                *(self.squares, np.int64(pixels)),
            ),
            _WARP_THREADS,
        )
        given, gradients = (filters, latents, copies, enlarged), (of_pixels, of_copies)
        forward, backward, filter_partials, firsts = _enlargements(
            modules["enlargement"], layout, xp, grids, given, gradients
        )
        self.pixels = [*forward, pixel, *backward]
        of_gradients = (planes, plane, own_gradient, features, of_pixels, of_copies, derivatives)
        self.update_latents = Launch(
            *(steps("update_latents"), latent_blocks),
            (grids, *now, *of_gradients, self.parameters, *self.moments, np.int64(count)),
        )
        moments = (array[count:] for array in self.moments)
        self.update_weights = Launch(
            *(steps("update_weights"), weight_blocks),
            (*now, rate_partials, filter_partials, firsts, pixel_partials, weights, *moments),
        )
        sums = (*now, self.bits, self.squares, totals, np.float64(pixels))
        self.finish = Launch(steps("finish"), (1,), sums)


def _enlargements(
    module: Module, layout: Layout, xp: Any, grids: Array, given: tuple, gradients: tuple
) -> tuple[list[Launch], list[Launch], Array, Array]:
    """Return the enlargements of grids, the finest last, and their gradients.

    The gradients of filters are parts of an array, those of a level from one of the indices that
    are returned, too.
    """
    enlarge, reduce = (module.get_function(name) for name in ("enlarge", "reduce"))
    filters, _, copies, enlarged = given
    levels, shapes = xp.asarray(layout.levels), layout.grids[1:, :2].tolist()
    grid_blocks = [(blocks_for(h * w), len(shapes) - k) for k, (h, w) in enumerate(shapes)]
    firsts = np.cumsum([0, *(blocks * grids for blocks, grids in grid_blocks)]).astype(np.int32)
    partials = xp.zeros((max(1, int(firsts[-1])), 4), dtype="float32")
    forward, backward = [], []
    for level, blocks in enumerate(grid_blocks):
        of_level = (levels, np.int32(level), filters, copies)
        forward.append(Launch(enlarge, blocks, of_level))
        backward.append(Launch(reduce, blocks, (*of_level, *gradients, partials[firsts[level] :])))
    cells = blocks_for(int(layout.levels[0, :2].prod()))
    kernel, arguments = module.get_function("enlarge_last"), (levels, grids, *given)
    last = Launch(kernel, (cells, len(enlarged)), arguments)
    return [*reversed(forward[1:]), last], backward, partials, xp.asarray(firsts)


def _constants(objective: BitsObjective) -> dict[str, Any]:
    network, adam = objective.network, objective.optimizer
    assert isinstance(adam, Adam)
    return shared_constants(network.grids, network.hidden, network.channels) | {
        "FLOOR": f"{PROBABILITY_FLOOR}f",
        "LEAST_SCALE": f"({LEAST_LOG_SCALE}f)",
        "LARGEST_SCALE": f"{LARGEST_LOG_SCALE}f",
        "ERROR_SCALE": f"{ERROR_SCALE}f",
        "LATENT_SCALE": f"{LATENT_SCALE}f",
        "BETA1": adam.beta1,
        "BETA2": adam.beta2,
        "ONE_MINUS_BETA1": 1 - adam.beta1,
        "ONE_MINUS_BETA2": 1 - adam.beta2,
        "EPSILON": adam.epsilon,
    }
