"""The engine for CPUs that fits latents and networks to an image; see `tasks.bits`.

A step has five stages: latents from parameters, enlarged grids beside the rate model's bands, bands
of pixels, gradients of grids from those of their enlarged copies, and the update. Pieces of a stage
write to separate places, and sums have a fixed order, so that the number of threads does not change
a bit of the result.
"""

import numpy as np

from neuralfield.coding.context import INPUTS, SURROUNDINGS
from neuralfield.engines.cpu import require_numba
from neuralfield.engines.cpu.update import optimizer_numbers
from neuralfield.engines.flat_arrays import flatten_moments, flatten_parameters
from neuralfield.engines.kernel_plan import NotCovered, no_kernels_for
from neuralfield.engines.thread_pool import ThreadPool
from neuralfield.nn.optimizers import Adam
from neuralfield.system.device import Device
from neuralfield.tasks.bits.bits_objective import BitsObjective, Rounding
from neuralfield.tasks.bits.latent_network import LATENT_SCALE

_PART_NUMBERS = 1 << 15
"""About the number of latents of a piece of work that treats each latent alone."""


class LatentEngine:
    """Takes training steps on the CPU's cores.

    The objective's parameters and the optimizer's state become views of flat arrays. `NotCovered`
    is raised if there are no kernels for the objective.
    """

    name, variant, precision = "cpu", "", "float32"
    most_steps = 16

    def __init__(self, objective: BitsObjective, device: Device, threads: int) -> None:
        _require_kernels(objective, device)
        # imported here, because Numba takes a moment to start
        from neuralfield.engines.cpu.kernels import (
            latent_enlargement,
            latent_pixels,
            latent_rate,
            latent_steps,
            latent_table,
            layout,
            update,
        )

        self._rate, self._pixels, self._steps = latent_rate, latent_pixels, latent_steps
        self._enlargement, self._update = latent_enlargement, update
        self.objective, network = objective, objective.network
        self._grids, shapes = network.grids, network.shapes
        self.totals = np.zeros(2)
        self._table, latents, features = latent_table.make_table(shapes)
        self._places, copies = latent_table.copy_places(shapes)
        self._parameters, starts = flatten_parameters(device, network)
        self._moments = flatten_moments(device, objective.optimizer, network)
        self._latent_count, filters = starts["rate.0"], starts["filters"]
        self._rate_weights = self._parameters[self._latent_count : filters].reshape(-1, INPUTS + 1)
        self._filters = self._parameters[filters : starts["hidden"]]
        self._hidden, self._output = (network.parameters[n].data for n in ("hidden", "output"))
        self._image = np.ascontiguousarray(objective.values.transpose(2, 0, 1), np.float32)
        # arrays of latents, see `latent_table`
        self._latents, self._own = np.zeros(latents, np.float32), np.zeros((2, latents), np.float32)
        self._features = np.zeros(features, np.float32)
        self._copies = np.zeros(copies, np.float32)
        self._copy_gradients = np.zeros((3, copies), np.float32)
        self._around_gradient = np.zeros((len(SURROUNDINGS), *shapes[0]), np.float32)
        self._derivatives = np.zeros(self._latent_count, np.float32)
        self._gradient = np.zeros(self._parameters.size, np.float32)
        counts = [-(-rows // latent_table.BAND_ROWS) for rows, _ in shapes]
        self._rate_bands = [(k, band) for k, count in enumerate(counts) for band in range(count)]
        self._pixel_bands = counts[0]
        self._parts = list(_row_parts(shapes))
        bands, of_pixels = len(self._rate_bands), self._parameters.size - filters
        self._rate_gradients = np.zeros((bands, self._rate_weights.size), np.float32)
        self._pixel_gradients = np.zeros((self._pixel_bands, of_pixels), np.float32)
        self._filter_gradients = np.zeros((max(1, self._grids - 1), self._filters.size), np.float32)
        self._bits, self._squares = np.zeros(bands), np.zeros(self._pixel_bands)
        inputs = self._grids + len(SURROUNDINGS)
        given = self._grids, inputs, network.hidden, network.channels, shapes[0][1]
        numbers = max(latent_rate.RATE_WORK, latent_pixels.pixel_work_numbers(*given))
        self._work = [layout.aligned(numbers) for _ in range(threads)]
        self._pool = ThreadPool(threads)

    def run(self, first_step: int, count: int) -> None:
        for step in range(first_step, first_step + count):
            self._step(step)

    def evaluate(self) -> tuple[float, float]:
        """Return the mean squared error and the bits per pixel of latents that are rounded."""
        self._forward(Rounding(0, 0), np.uint32(0))
        return self._mean_error(), self._bits_per_pixel()

    def memory_report(self) -> dict[str, int]:
        latents = (self._latents, self._own, self._features, self._copies, self._copy_gradients)
        gradients = (self._gradient, self._rate_gradients, self._pixel_gradients)
        arrays = {
            "parameters": [self._parameters],
            "optimizer": self._moments,
            "picture": [self._image],
            "latents": [*latents, self._derivatives],
            "gradients": [*gradients, self._around_gradient],
            "blocks": self._work,
        }
        return {name: sum(array.nbytes for array in group) for name, group in arrays.items()}

    def close(self) -> None:
        self._pool.close()

    def _step(self, step: int) -> None:
        objective = self.objective
        if objective.steers_at(step):
            objective.steer(step, *self.evaluate())
        rounding = objective.rounding(step)
        self._forward(rounding, np.uint32(objective.noise_keys(step)))
        self._pool.run(self._grid_backward, self._grids - 1)
        self._add_network_gradients()
        adam = optimizer_numbers(objective.optimizer, objective.schedule(step), step)
        if rounding.temperature > 0:
            self._pool.run(lambda piece, _: self._move_rows(piece, adam), len(self._parts))
        self._move(slice(self._latent_count, None), adam)
        error = self._mean_error()
        self.totals += error + objective.bit_weight * self._bits_per_pixel(), error

    def _forward(self, rounding: Rounding, key: np.uint32) -> None:
        """Compute latents, bits and errors, and the gradients of the pieces."""
        self._pool.run(lambda piece, _: self._round(piece, rounding, key), len(self._parts))
        above, bands = self._grids - 1, len(self._rate_bands)

        def enlarge_or_rate(piece: int, thread: int) -> None:
            if piece < above:
                self._enlargement.enlarge_grid(
                    *(self._table, self._places, piece + 1, self._filters, self._latents),
                    *(self._copies, self._work[thread]),
                )
            else:
                self._rate_of_band(piece - above, thread, rounding.temperature > 0)

        self._pool.run(enlarge_or_rate, above + bands)
        self._pool.run(self._pixels_of_band, self._pixel_bands)

    def _mean_error(self) -> float:
        return self._squares.sum() / self.objective.values.size

    def _bits_per_pixel(self) -> float:
        return self._bits.sum() / self.objective.pixels

    def _round(self, piece: int, rounding: Rounding, key: np.uint32) -> None:
        self._steps.round_rows(
            *(self._table, *self._parts[piece], self._parameters, np.float32(LATENT_SCALE)),
            *(np.float32(rounding.temperature), np.float32(rounding.sigma), key),
            *(self._latents, self._derivatives),
        )

    def _rate_of_band(self, piece: int, thread: int, is_soft: bool) -> None:
        grid, band = self._rate_bands[piece]
        scale = np.float32(self.objective.bit_weight / self.objective.pixels)
        self._bits[piece] = self._rate.rate_band(
            *(self._table, grid, band, self._latents, self._rate_weights, scale),
            *(is_soft, self._own[band & 1], self._features, self._rate_gradients[piece]),
            self._work[thread],
        )

    def _pixels_of_band(self, band: int, thread: int) -> None:
        self._squares[band] = self._pixels.pixel_band(
            *(self._table, self._places, band, self._image, self._latents, self._copies),
            *(self._filters, self._hidden, self._output, self._gradient, self._around_gradient),
            *(self._copy_gradients[band & 1], self._pixel_gradients[band], self._work[thread]),
        )

    def _grid_backward(self, piece: int, thread: int) -> None:
        grid = piece + 1
        start = self._table[grid, 4]
        size = self._table[grid, 0] * self._table[grid, 1]
        self._enlargement.enlarge_grid_backward(
            *(self._table, self._places, grid, self._filters, self._copies, self._copy_gradients),
            *(self._gradient[start : start + size], self._filter_gradients[piece]),
            self._work[thread],
        )

    def _add_network_gradients(self) -> None:
        for array in (self._rate_gradients, self._pixel_gradients, self._filter_gradients):
            self._steps.add_rows(array)
        gradient, rates = self._gradient[self._latent_count :], self._rate_weights.size
        gradient[:rates], gradient[rates:] = self._rate_gradients[0], self._pixel_gradients[0]
        gradient[rates : rates + self._filters.size] += self._filter_gradients[0]

    def _move_rows(self, piece: int, adam: np.ndarray) -> None:
        grid, first, end = self._parts[piece]
        if grid == 0:
            self._steps.add_surroundings(self._around_gradient, first, end, self._gradient)
        self._steps.add_gradients(
            *(self._table, grid, first, end, self._derivatives, self._gradient, self._own),
            self._features,
        )
        start, columns = self._table[grid, 4], self._table[grid, 1]
        self._move(slice(start + first * columns, start + end * columns), adam)

    def _move(self, place: slice, adam: np.ndarray) -> None:
        arrays = (self._gradient, *self._moments, self._parameters)
        self._update.update_numbers(np.float32(1), *(array[place] for array in arrays), adam)


def _row_parts(shapes: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Divide all grids into runs of rows: grid, first row, end."""
    found = []
    for grid, (rows, columns) in enumerate(shapes):
        step = max(1, _PART_NUMBERS // columns)
        found += [(grid, first, min(rows, first + step)) for first in range(0, rows, step)]
    return found


def _require_kernels(objective: BitsObjective, device: Device) -> None:
    """Raise `NotCovered` if something has no kernels."""
    if device.kind != "cpu":
        raise NotCovered("the cpu engine needs training.device: cpu")
    if objective.dtype != "float32":
        raise NotCovered("the cpu engine computes in float32, not in float64")
    if type(objective.optimizer) is not Adam:
        raise no_kernels_for(f"the optimizer {type(objective.optimizer).__name__}")
    require_numba()
