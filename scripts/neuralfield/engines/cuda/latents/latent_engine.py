"""The engine for NVIDIA GPUs that fits latents and networks to an image; see `tasks.bits`.

A step is recorded as a graph: latents from parameters; on one stream the rate model, on another
enlarged grids, pixels and their gradients; then the update. All sums have a fixed order, so that
two trainings on the same kind of GPU end with the same bytes.
"""

import numpy as np

from neuralfield.coding.context import INPUTS, NEIGHBOURS, SURROUNDINGS
from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.latents.layout import make_layout
from neuralfield.engines.cuda.launch import THREADS, Launch, compute_capability, processor_count
from neuralfield.engines.cuda.recorded_steps import RecordedSteps, named_range
from neuralfield.engines.cuda.source import compile_module, compiled_together
from neuralfield.engines.flat_arrays import flatten_arrays, flatten_parameters
from neuralfield.engines.kernel_plan import NotCovered, no_kernels_for
from neuralfield.nn.optimizers import Adam, state_keys
from neuralfield.system.device import Array, Device
from neuralfield.tasks.bits.bits_objective import BitsObjective, Rounding
from neuralfield.tasks.bits.latent_network import (
    INPUT_SCALE,
    LARGEST_LOG_SCALE,
    LATENT_SCALE,
    LEAST_LOG_SCALE,
    PROBABILITY_FLOOR,
)

LEAST_CAPABILITY = 80
"""From this on, tensor cores multiply 16 x 16 numbers at once."""

_WARP_THREADS = 128
_PROCESSOR_BLOCKS = 3
"""Blocks per multiprocessor of the kernels whose warps hold sums of weights' gradients."""

_ERROR_SCALE = 32.0
"""Factor on errors of pixels, which are small numbers in fp16."""

_MOST_ROWS = 4096
_STEP = np.dtype(
    [
        *(("temperature", "f4"), ("sigma", "f4"), ("key", "u4")),
        *(("rate", "f4"), ("inverse_correction2", "f4")),
        *(("bit_scale", "f4"), ("pixel_scale", "f4"), ("bit_weight", "f4")),
    ]
)
_REMEDY = "use a smaller image, or the CPU (device: cpu)"


class CudaLatentEngine:
    """Takes training steps of a coded image entirely on the GPU.

    The objective's parameters and the optimizer's state become views of flat arrays. `NotCovered`
    is raised if there are no kernels for the objective, and `ResourceError` if the GPU has too
    little memory.
    """

    name, variant, precision = "cuda", "", "mixed"
    most_steps = 1 << 20

    def __init__(self, objective: BitsObjective, device: Device, precision: str) -> None:
        _require_kernels(objective, precision, device)
        self.objective, self._device, self._cuda = objective, device, device.xp.cuda
        self._layout = make_layout(objective.network.shapes)
        memory_bytes = self._memory_bytes()
        with recorded_engine.made_in_memory(objective, device, memory_bytes, _REMEDY):
            self._allocate()
            with named_range(self._cuda, "compile"), compiled_together(device):
                self._make_launches()
            self._side = self._cuda.Stream(non_blocking=True)
            self._fork, self._join = (self._cuda.Event(disable_timing=True) for _ in range(2))
            device.synchronize()
            self._chunk = 1
            self._steps = RecordedSteps(device, self._begin, self._launch_step)
            self._steps.record(self._launch_forward)

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and error to `totals`."""
        step, end = first_step, first_step + count
        while step < end:
            if self.objective.steers_at(step):
                self.objective.steer(step, *self.evaluate())
            next_step = step + 1
            while next_step < min(end, step + _MOST_ROWS) and not self.objective.steers_at(
                next_step
            ):
                next_step += 1
            self._chunk = next_step - step
            self._steps.run(step, self._chunk)
            step = next_step

    def evaluate(self) -> tuple[float, float]:
        """Return the mean squared error and the bits per pixel of latents that are rounded."""
        self._device.synchronize()
        with self._steps.stream as stream:
            self._upload(self._rows_of(0, 1, Rounding(0, 0)))
            self._launch_forward()
            self._evaluation()
            stream.synchronize()
            error, bits_per_pixel = self._found.get(stream=stream)
        return float(error), float(bits_per_pixel)

    def memory_report(self) -> dict[str, int]:
        arrays = (self._latents, self._planes, self._own, self._features, self._derivatives)
        pixels = (self._enlarged, self._of_pixels, self._copies, self._of_copies)
        return {
            "parameters": self._parameters.nbytes,
            "optimizer": sum(array.nbytes for array in self._moments),
            "picture": self._image.nbytes,
            "latents": sum(array.nbytes for array in arrays),
            "pixels": sum(array.nbytes for array in pixels) + self._of_latents.nbytes,
        }

    def close(self) -> None:
        """Release the GPU memory of everything except the network and the optimizer."""
        self._steps.close()
        kept = {"objective", "totals", "_device", "_cuda"}
        for name in [name for name in vars(self) if name not in kept]:
            delattr(self, name)
        self._device.xp.get_default_memory_pool().free_all_blocks()

    def _memory_bytes(self) -> int:
        layout, network = self._layout, self.objective.network
        pixels, pairs = self.objective.pixels, (network.grids + len(SURROUNDINGS)) // 2 + 1
        numbers = (len(NEIGHBOURS) // 2 + 3) * layout.latents + layout.features + 2 * layout.copies
        return 4 * (numbers + (2 * pairs + network.channels + 3) * pixels)

    def _allocate(self) -> None:
        xp, objective, layout = self._device.xp, self.objective, self._layout
        network, pixels = objective.network, objective.pixels
        self.totals = xp.zeros(2)
        self._parameters, starts = flatten_parameters(self._device, network)
        state, names = objective.optimizer.state, list(network.parameters)
        self._moments = [
            flatten_arrays(self._device, [(state, key) for key in keys])
            for keys in state_keys(objective.optimizer, names)
        ]
        self._starts, self._latent_count = starts, starts["rate.0"]

        def zeros(*shape: int) -> Array:
            return xp.zeros(shape, dtype="float32")

        self._image = xp.ascontiguousarray(
            self._device.asarray(objective.values.transpose(2, 0, 1), dtype="float32")
        )
        self._latents = zeros(layout.latents)
        self._planes = zeros(
            (len(NEIGHBOURS) + 1) // 2, layout.latents
        )  # of two numbers of 16 bits
        self._own = zeros(layout.latents)
        self._features = zeros(max(1, layout.features))
        self._derivatives, self._of_latents = zeros(self._latent_count), zeros(self._latent_count)
        self._copies, self._of_copies = zeros(max(1, layout.copies)), zeros(max(1, layout.copies))
        inputs = network.grids + len(SURROUNDINGS)
        self._enlarged = zeros(inputs // 2 + 1, pixels)  # likewise
        self._of_pixels = zeros((inputs + 1) // 2, pixels)
        self._rows = xp.zeros(_MOST_ROWS * _STEP.itemsize, dtype="uint8")
        self._step = xp.zeros((), dtype="int32")
        self._found, self._unused = xp.zeros(2), xp.zeros(2)

    def _make_launches(self) -> None:
        xp, layout, network = self._device.xp, self._layout, self.objective.network
        processors = processor_count(self._device)
        blocks = _PROCESSOR_BLOCKS * processors
        grids, pixels, latents = network.grids, self.objective.pixels, self._latent_count
        starts = self._starts
        rate_weights = starts["filters"] - starts["rate.0"]
        pixel_weights = self._parameters.size - starts["hidden"]
        partials = xp.zeros((blocks, rate_weights), dtype="float32")
        of_pixels_partials = xp.zeros((blocks, pixel_weights), dtype="float32")
        bits, squares = xp.zeros(blocks), xp.zeros(blocks)
        grid_table, levels = xp.asarray(layout.grids), xp.asarray(layout.levels)
        parameters = self._parameters
        weights, filters = parameters[latents:], parameters[starts["filters"] :]
        moments = [array[latents:] for array in self._moments]

        adam = self.objective.optimizer
        assert isinstance(adam, Adam)
        around = [(i, *offset) for i, group in enumerate(SURROUNDINGS) for offset in group]
        shared = {
            "GRIDS": grids,
            "HIDDEN": network.hidden,
            "CHANNELS": network.channels,
            "INPUTS": INPUTS,
            "NEIGHBOURS": len(NEIGHBOURS),
            "OFFSETS": list(NEIGHBOURS),
            "SURROUNDINGS": len(SURROUNDINGS),
            "AROUND": around,
            "AROUND_COUNT": len(around),
            "INPUT_SCALE": f"{INPUT_SCALE}f",
        }
        rate_constants = {
            "WEIGHTS": rate_weights,
            "BLOCKS": blocks,
            "FLOOR": f"{PROBABILITY_FLOOR}f",
            "LEAST_SCALE": f"({LEAST_LOG_SCALE}f)",
            "LARGEST_SCALE": f"{LARGEST_LOG_SCALE}f",
        }
        pixel_constants = {
            "WEIGHTS": pixel_weights,
            "BLOCKS": blocks,
            "ERROR_SCALE": f"{_ERROR_SCALE}f",
        }
        step_constants = {
            "LATENT_SCALE": f"{LATENT_SCALE}f",
            "BETA1": adam.beta1,
            "BETA2": adam.beta2,
            "ONE_MINUS_BETA1": 1 - adam.beta1,
            "ONE_MINUS_BETA2": 1 - adam.beta2,
            "EPSILON": adam.epsilon,
            "RATE_WEIGHTS": rate_weights,
            "PIXEL_WEIGHTS": pixel_weights,
            "RATE_BLOCKS": blocks,
            "PIXEL_BLOCKS": blocks,
        }
        rate = compile_module("latents/rate.cu", shared | rate_constants)
        of_pixels = compile_module("latents/pixels.cu", shared | pixel_constants)
        enlargement = compile_module("latents/enlargement.cu", shared)
        steps = compile_module("latents/steps.cu", shared | step_constants)

        per_latent = (_blocks(latents),)
        now, plane = (self._rows, self._step), np.int64(layout.latents)
        self._round = Launch(
            steps.get_function("round_latents"),
            per_latent,
            (grid_table, *now, parameters, self._latents, self._derivatives, np.int64(latents)),
        )
        self._rate = Launch(
            rate.get_function("rate"),
            (blocks,),
            (
                *(
                    grid_table,
                    self._latents,
                    weights,
                    self._planes,
                    plane,
                    self._own,
                    self._features,
                ),
                *(partials, bits, np.int32(layout.pieces)),
            ),
            _WARP_THREADS,
        )
        enlarge, reduce = (enlargement.get_function(name) for name in ("enlarge", "reduce"))
        firsts = np.zeros(grids, np.int32)
        forward, backward = [], []
        for level in range(grids - 1):
            rows, columns = network.shapes[level + 1]
            size = (_blocks(rows * columns), grids - 1 - level)
            firsts[level + 1] = firsts[level] + size[0] * size[1]
            forward.append((size, level))
        filter_partials = xp.zeros((max(1, int(firsts[-1])), 4), dtype="float32")
        arrays = (filters, self._latents, self._copies)
        for size, level in forward:
            of_level = filter_partials[firsts[level] :]
            gradients = (self._of_pixels, self._of_copies, self._of_latents)
            given = (levels, np.int32(level), *arrays, *gradients, grid_table, of_level)
            backward.append(Launch(reduce, size, given))
        self._pixels = [
            *(
                Launch(enlarge, size, (levels, np.int32(level), *arrays))
                for size, level in reversed(forward[1:])
            ),
            Launch(
                enlargement.get_function("enlarge_last"),
                (_blocks(int(layout.levels[0, :2].prod())), len(self._enlarged)),
                (levels, *arrays, self._enlarged),
            ),
            Launch(
                of_pixels.get_function("pixels"),
                (blocks,),
                (
                    *(self._enlarged, self._image, parameters[starts["hidden"] :]),
                    *(parameters[starts["output"] :], self._of_pixels, of_pixels_partials),
                    *(squares, np.int64(pixels)),
                ),
                _WARP_THREADS,
            ),
            *backward,
        ]
        self._update_latents = Launch(
            steps.get_function("update_latents"),
            per_latent,
            (
                *(
                    grid_table,
                    *now,
                    self._planes,
                    plane,
                    self._own,
                    self._features,
                    self._of_pixels,
                ),
                *(self._of_latents, self._derivatives, parameters, *self._moments),
                np.int64(latents),
            ),
        )
        self._update_weights = Launch(
            steps.get_function("update_weights"),
            (-(-(self._parameters.size - latents) // 32),),
            (
                *(*now, partials, filter_partials, xp.asarray(firsts), of_pixels_partials),
                *(weights, *moments),
            ),
        )
        finish = steps.get_function("finish")
        sums = (*now, bits, squares, self._found)
        self._finish, self._evaluation = (
            Launch(finish, (1,), (*sums, totals, np.float64(pixels)))
            for totals in (self.totals, self._unused)
        )

    def _begin(self, first_step: int) -> None:
        self._upload(self._rows_of(first_step, self._chunk))

    def _upload(self, rows: np.ndarray) -> None:
        """Put the numbers of the next steps on the GPU, and go to the first of them."""
        data = rows.view(np.uint8)
        self._rows[: data.size].set(data, self._cuda.get_current_stream())
        self._step.fill(0)

    def _rows_of(self, first: int, count: int, fixed: Rounding | None = None) -> np.ndarray:
        """Return the structs ``Step`` of steps."""
        objective, adam = self.objective, self.objective.optimizer
        assert isinstance(adam, Adam)
        steps = np.arange(first, first + count)
        roundings = [fixed or objective.rounding(step) for step in steps.tolist()]
        rates = np.array([objective.schedule(step) for step in steps.tolist()])
        rows = np.zeros(count, _STEP)
        rows["temperature"] = [rounding.temperature for rounding in roundings]
        rows["sigma"] = [rounding.sigma for rounding in roundings]
        rows["key"] = objective.noise_keys(steps)
        rows["rate"] = rates / (1 - adam.beta1 ** (steps + 1.0))
        rows["inverse_correction2"] = 1 / np.sqrt(1 - adam.beta2 ** (steps + 1.0))
        rows["bit_weight"] = objective.bit_weight
        rows["bit_scale"] = objective.bit_weight / objective.pixels
        numbers = objective.pixels * objective.network.channels
        rows["pixel_scale"] = INPUT_SCALE * 2 / numbers / _ERROR_SCALE
        return rows

    def _launch_forward(self) -> None:
        """Compute latents, bits and errors, and the gradients, on two streams."""
        stream = self._cuda.get_current_stream()
        self._round()
        self._fork.record(stream)
        self._side.wait_event(self._fork)
        with self._side:
            self._rate()
            self._join.record(self._side)
        for launch in self._pixels:
            launch()
        stream.wait_event(self._join)

    def _launch_step(self) -> None:
        self._launch_forward()
        self._update_latents()
        self._update_weights()
        self._finish()


def _blocks(count: int) -> int:
    return -(-count // THREADS)


def _require_kernels(objective: BitsObjective, precision: str, device: Device) -> None:
    """Raise `NotCovered` if something has no kernels."""
    if device.kind != "gpu":
        raise NotCovered("the cuda engine needs a GPU")
    if precision not in ("auto", "mixed"):
        raise NotCovered(f"the cuda engine fits coded images in mixed precision, not {precision}")
    if (capability := compute_capability(device)) < LEAST_CAPABILITY:
        found = f"{capability // 10}.{capability % 10}"
        raise NotCovered(f"coded images need compute capability 8.0, this GPU has {found}")
    if type(objective.optimizer) is not Adam:
        raise no_kernels_for(f"the optimizer {type(objective.optimizer).__name__}")
