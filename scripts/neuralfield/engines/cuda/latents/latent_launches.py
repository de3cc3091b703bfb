"""The kernels of a fit of latents and networks, with their arguments."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.engines.cuda.latents.latent_arrays import LatentArrays, blocks_for
from neuralfield.engines.cuda.latents.layout import shared_constants
from neuralfield.engines.cuda.launch import Launch
from neuralfield.engines.cuda.source import compile_module
from neuralfield.nn.optimizers import Adam
from neuralfield.system.device import Array
from neuralfield.tasks.bits.bits_objective import BitsObjective
from neuralfield.tasks.bits.latent_network import (
    LARGEST_LOG_SCALE,
    LATENT_SCALE,
    LEAST_LOG_SCALE,
    PROBABILITY_FLOOR,
)

ERROR_SCALE = 32.0
"""Factor on errors of pixels, which are small numbers in fp16."""

_WARP_THREADS = 128


@dataclass(frozen=True)
class LatentLaunches:
    """The launches of a step, in order; `rate` and `pixels` are independent, and both updates."""

    round_latents: Launch
    rate: Launch
    pixels: list[Launch]
    update_latents: Launch
    update_weights: Launch
    finish: Launch
    finish_evaluation: Launch  # leaves the totals as they are


def make_launches(
    arrays: LatentArrays, objective: BitsObjective, totals: Array, unused: Array
) -> LatentLaunches:
    """Compile the kernels; `totals` and `unused` get the sums of steps and of evaluations."""
    network = objective.network
    shared = shared_constants(network.grids, network.hidden, network.channels)
    steps = compile_module("latents/steps.cu", shared | _step_constants(arrays, objective))
    now, count = (arrays.steps, arrays.step), np.int64(arrays.latent_count)
    sums = (*now, arrays.bits, arrays.squares, arrays.found)
    finish = steps.get_function("finish")
    update_latents, update_weights = _update_launches(arrays, steps)
    return LatentLaunches(
        round_latents=Launch(
            steps.get_function("round_latents"),
            (blocks_for(arrays.latent_count),),
            (arrays.grids, *now, arrays.parameters, arrays.latents, arrays.derivatives, count),
        ),
        rate=_rate_launch(arrays, shared),
        pixels=_pixel_launches(arrays, objective, shared),
        update_latents=update_latents,
        update_weights=update_weights,
        finish=Launch(finish, (1,), (*sums, totals, np.float64(objective.pixels))),
        finish_evaluation=Launch(finish, (1,), (*sums, unused, np.float64(objective.pixels))),
    )


def _rate_launch(arrays: LatentArrays, shared: dict[str, Any]) -> Launch:
    constants = {
        "WEIGHTS": arrays.rate_weights,
        "BLOCKS": arrays.blocks,
        "FLOOR": f"{PROBABILITY_FLOOR}f",
        "LEAST_SCALE": f"({LEAST_LOG_SCALE}f)",
        "LARGEST_SCALE": f"{LARGEST_LOG_SCALE}f",
    }
    layout = arrays.layout
    arguments = (
        *(arrays.grids, arrays.latents, arrays.weights, arrays.planes, np.int64(layout.latents)),
        *(arrays.own_gradient, arrays.features, arrays.rate_partials, arrays.bits),
        np.int32(layout.pieces),
    )
    kernel = compile_module("latents/rate.cu", shared | constants).get_function("rate")
    return Launch(kernel, (arrays.blocks,), arguments, _WARP_THREADS)


def _pixel_launches(
    arrays: LatentArrays, objective: BitsObjective, shared: dict[str, Any]
) -> list[Launch]:
    """Return enlargements, the synthesis, and the gradients of grids, the finest first."""
    enlargement = compile_module("latents/enlargement.cu", shared)
    enlarge, reduce = (enlargement.get_function(name) for name in ("enlarge", "reduce"))
    given = (arrays.filters, arrays.latents, arrays.copies)
    gradients = (arrays.of_pixels, arrays.of_copies, arrays.of_latents, arrays.grids)
    forward, backward = [], []
    for level, blocks in enumerate(arrays.level_blocks):
        of_level = (arrays.levels, np.int32(level), *given)
        partials = arrays.filter_partials[arrays.firsts[level] :]
        forward.append(Launch(enlarge, blocks, of_level))
        backward.append(Launch(reduce, blocks, (*of_level, *gradients, partials)))
    cells = int(arrays.layout.levels[0, :2].prod())
    last = Launch(
        enlargement.get_function("enlarge_last"),
        (blocks_for(cells), len(arrays.enlarged)),
        (arrays.levels, *given, arrays.enlarged),
    )
    constants = {
        "WEIGHTS": arrays.pixel_weights,
        "BLOCKS": arrays.blocks,
        "ERROR_SCALE": f"{ERROR_SCALE}f",
    }
    arguments = (
        *(arrays.enlarged, arrays.image, arrays.hidden, arrays.output, arrays.of_pixels),
        *(arrays.pixel_partials, arrays.squares, np.int64(objective.pixels)),
    )
    kernel = compile_module("latents/pixels.cu", shared | constants).get_function("pixels")
    pixels = Launch(kernel, (arrays.blocks,), arguments, _WARP_THREADS)
    return [*reversed(forward[1:]), last, pixels, *backward]


def _update_launches(arrays: LatentArrays, steps: Any) -> list[Launch]:
    now = (arrays.steps, arrays.step)
    of_latents = (
        *(arrays.grids, *now, arrays.planes, np.int64(arrays.layout.latents)),
        *(arrays.own_gradient, arrays.features, arrays.of_pixels, arrays.of_latents),
        *(arrays.derivatives, arrays.parameters, *arrays.moments, np.int64(arrays.latent_count)),
    )
    of_weights = (
        *(*now, arrays.rate_partials, arrays.filter_partials, arrays.firsts_on_gpu),
        *(arrays.pixel_partials, arrays.weights),
        *(moments[arrays.latent_count :] for moments in arrays.moments),
    )
    latent_blocks, weight_blocks = blocks_for(arrays.latent_count), -(-arrays.weights.size // 32)
    return [
        Launch(steps.get_function("update_latents"), (latent_blocks,), of_latents),
        Launch(steps.get_function("update_weights"), (weight_blocks,), of_weights),
    ]


def _step_constants(arrays: LatentArrays, objective: BitsObjective) -> dict[str, Any]:
    adam = objective.optimizer
    assert isinstance(adam, Adam)
    return {
        "LATENT_SCALE": f"{LATENT_SCALE}f",
        "BETA1": adam.beta1,
        "BETA2": adam.beta2,
        "ONE_MINUS_BETA1": 1 - adam.beta1,
        "ONE_MINUS_BETA2": 1 - adam.beta2,
        "EPSILON": adam.epsilon,
        "RATE_WEIGHTS": arrays.rate_weights,
        "PIXEL_WEIGHTS": arrays.pixel_weights,
        "BLOCKS": arrays.blocks,
    }
