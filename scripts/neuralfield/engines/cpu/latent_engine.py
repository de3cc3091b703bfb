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
        table, latents, features, copies = latent_table.make_table(shapes)
        parameters, starts = flatten_parameters(device, network)
        self._moments = flatten_moments(device, objective.optimizer, network)
        self._latent_count, filters = starts["rate.0"], starts["filters"]

        def zeros(*shape: int) -> np.ndarray:
            return np.zeros(shape, np.float32)

        self._arrays = latent_table.Arrays(
            table=table,
            image=np.ascontiguousarray(objective.values.transpose(2, 0, 1), np.float32),
            latents=zeros(latents),
            derivatives=zeros(self._latent_count),
            copies=zeros(copies),
            parameters=parameters,
            rate=parameters[self._latent_count : filters].reshape(-1, INPUTS + 1),
            filters=parameters[filters : starts["hidden"]],
            hidden=network.parameters["hidden"].data,
            output=network.parameters["output"].data,
            gradient=zeros(parameters.size),
            own_gradients=zeros(2, latents),
            feature_gradients=zeros(features),
            around_gradients=zeros(len(SURROUNDINGS), *shapes[0]),
            copy_gradients=zeros(3, copies),
        )
        counts = [-(-rows // latent_table.BAND_ROWS) for rows, _ in shapes]
        self._rate_bands = [(k, band) for k, count in enumerate(counts) for band in range(count)]
        self._pixel_bands = counts[0]
        self._parts = list(_row_parts(shapes))
        bands, filter_count = len(self._rate_bands), self._arrays.filters.size
        self._rate_gradients = zeros(bands, filters - self._latent_count)
        self._pixel_gradients = zeros(self._pixel_bands, parameters.size - filters)
        self._filter_gradients = zeros(max(1, self._grids - 1), filter_count)
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
        arrays = self._arrays
        sums = (self._rate_gradients, self._pixel_gradients, self._filter_gradients)
        purposes = {
            "parameters": [arrays.parameters],
            "optimizer": self._moments,
            "picture": [arrays.image],
            "latents": [arrays.latents, arrays.derivatives, arrays.copies],
            "gradients": [*arrays[arrays._fields.index("gradient") :], *sums],
            "blocks": self._work,
        }
        return {name: sum(array.nbytes for array in group) for name, group in purposes.items()}

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
                self._enlargement.enlarge_grid(self._arrays, piece + 1, self._work[thread])
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
            *(self._arrays, *self._parts[piece], np.float32(LATENT_SCALE)),
            *(np.float32(rounding.temperature), np.float32(rounding.sigma), key),
        )

    def _rate_of_band(self, piece: int, thread: int, is_soft: bool) -> None:
        grid, band = self._rate_bands[piece]
        scale = np.float32(self.objective.bit_weight / self.objective.pixels)
        self._bits[piece] = self._rate.rate_band(
            *(self._arrays, grid, band, scale, is_soft, self._rate_gradients[piece]),
            self._work[thread],
        )

    def _pixels_of_band(self, band: int, thread: int) -> None:
        given = self._pixel_gradients[band], self._work[thread]
        self._squares[band] = self._pixels.pixel_band(self._arrays, band, *given)

    def _grid_backward(self, piece: int, thread: int) -> None:
        given = self._filter_gradients[piece], self._work[thread]
        self._enlargement.enlarge_grid_backward(self._arrays, piece + 1, *given)

    def _add_network_gradients(self) -> None:
        for array in (self._rate_gradients, self._pixel_gradients, self._filter_gradients):
            self._steps.add_rows(array)
        gradient = self._arrays.gradient[self._latent_count :]
        rates, filters = self._arrays.rate.size, self._arrays.filters.size
        gradient[:rates], gradient[rates:] = self._rate_gradients[0], self._pixel_gradients[0]
        gradient[rates : rates + filters] += self._filter_gradients[0]

    def _move_rows(self, piece: int, adam: np.ndarray) -> None:
        grid, first, end = self._parts[piece]
        self._steps.add_gradients(self._arrays, grid, first, end)
        start, columns = self._arrays.table[grid, 4], self._arrays.table[grid, 1]
        self._move(slice(start + first * columns, start + end * columns), adam)

    def _move(self, place: slice, adam: np.ndarray) -> None:
        arrays = (self._arrays.gradient, *self._moments, self._arrays.parameters)
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
