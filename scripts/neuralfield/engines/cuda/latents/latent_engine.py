"""The engine for NVIDIA GPUs that fits latents and networks to an image; see `tasks.bits`.

A step is recorded as a graph: latents from parameters; on one stream the rate model, on another
enlarged grids, pixels and their gradients; then the updates. All sums have a fixed order, so that
two trainings on the same kind of GPU end with the same bytes.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from neuralfield.engines.cuda import recorded_engine
from neuralfield.engines.cuda.latents.latent_kernels import (
    ERROR_SCALE,
    MOST_STEPS,
    STEP,
    LatentKernels,
    memory_bytes,
)
from neuralfield.engines.cuda.launch import Launch, compute_capability
from neuralfield.engines.cuda.recorded_steps import RecordedSteps, named_range
from neuralfield.engines.cuda.source import compiled_together
from neuralfield.engines.kernel_plan import NotCovered, no_kernels_for
from neuralfield.nn.optimizers import Adam
from neuralfield.system.device import Device
from neuralfield.tasks.bits.bits_objective import BitsObjective, Rounding
from neuralfield.tasks.bits.latent_network import INPUT_SCALE

LEAST_CAPABILITY = 80
"""From this on, tensor cores multiply 16 x 16 numbers at once."""

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
        self.totals = device.xp.zeros(2)
        self._chunk = 1
        with recorded_engine.made_in_memory(objective, device, memory_bytes(objective), _REMEDY):
            with named_range(self._cuda, "compile"), compiled_together(device):
                self._kernels = LatentKernels(objective, device, self.totals)
            self._side = self._cuda.Stream(non_blocking=True)
            self._fork, self._join = (self._cuda.Event(disable_timing=True) for _ in range(2))
            device.synchronize()
            self._steps = RecordedSteps(device, self._begin, self._launch_step)
            self._steps.record(self._launch_forward)

    def run(self, first_step: int, count: int) -> None:
        """Take `count` steps and add each one's loss and error to `totals`."""
        step, end = first_step, first_step + count
        while step < end:
            if self.objective.steers_at(step):
                self.objective.steer(step, *self.evaluate())
            following = range(step + 1, min(end, step + MOST_STEPS))
            self._chunk = (
                next((s for s in following if self.objective.steers_at(s)), following.stop) - step
            )
            self._steps.run(step, self._chunk)
            step += self._chunk

    def evaluate(self) -> tuple[float, float]:
        """Return the mean squared error and the bits per pixel of latents that are rounded."""
        self._device.synchronize()
        with self._steps.stream as stream:
            self._upload(self._numbers_of(0, 1, Rounding(0, 0)))
            self._launch_forward()
            blocks = self._kernels.squares, self._kernels.bits
            squares, bits = (float(array.get(stream=stream).sum()) for array in blocks)
        return squares / self.objective.values.size, bits / self.objective.pixels

    def memory_report(self) -> dict[str, int]:
        return {
            "parameters": self._kernels.parameters.nbytes,
            "optimizer": sum(array.nbytes for array in self._kernels.moments),
            "pass": memory_bytes(self.objective),
        }

    def close(self) -> None:
        """Release the GPU memory of everything except the network and the optimizer."""
        self._steps.close()
        del self._steps, self._kernels
        self._device.xp.get_default_memory_pool().free_all_blocks()

    def _begin(self, first_step: int) -> None:
        self._upload(self._numbers_of(first_step, self._chunk))

    def _upload(self, numbers: np.ndarray) -> None:
        """Put the numbers of the next steps on the GPU, and go to the first of them."""
        data = numbers.view(np.uint8)
        self._kernels.steps[: data.size].set(data, self._cuda.get_current_stream())
        self._kernels.step.fill(0)

    def _numbers_of(self, first: int, count: int, fixed: Rounding | None = None) -> np.ndarray:
        """Return the structs ``Step`` of steps."""
        objective, adam = self.objective, self.objective.optimizer
        assert isinstance(adam, Adam)
        steps = np.arange(first, first + count)
        roundings = [fixed or objective.rounding(step) for step in steps.tolist()]
        rates = np.array([objective.schedule(step) for step in steps.tolist()])
        numbers = np.zeros(count, STEP)
        numbers["temperature"] = [rounding.temperature for rounding in roundings]
        numbers["sigma"] = [rounding.sigma for rounding in roundings]
        numbers["key"] = objective.noise_keys(steps)
        numbers["rate"] = rates / (1 - adam.beta1 ** (steps + 1.0))
        numbers["inverse_correction2"] = 1 / np.sqrt(1 - adam.beta2 ** (steps + 1.0))
        numbers["bit_weight"] = objective.bit_weight
        numbers["bit_scale"] = objective.bit_weight / objective.pixels
        values = objective.pixels * objective.network.channels
        numbers["pixel_scale"] = INPUT_SCALE * 2 / values / ERROR_SCALE
        return numbers

    def _launch_forward(self) -> None:
        """Compute latents, bits and errors, and the gradients, on two streams."""
        self._kernels.round_latents()
        with self._beside(self._kernels.rate):
            for launch in self._kernels.pixels:
                launch()

    def _launch_step(self) -> None:
        self._launch_forward()
        with self._beside(self._kernels.update_weights):
            self._kernels.update_latents()
        self._kernels.finish()

    @contextmanager
    def _beside(self, launch: Launch) -> Iterator[None]:
        """Put a launch on another stream, beside those of a ``with`` block."""
        stream = self._cuda.get_current_stream()
        self._fork.record(stream)
        self._side.wait_event(self._fork)
        with self._side:
            launch()
            self._join.record(self._side)
        yield
        stream.wait_event(self._join)


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
