"""One batch forwards and backwards on cards of compute capability 9.0, in 16-bit products.

A tile of 64 points stays in the registers of a warpgroup through all layers, forwards and back;
weights stream past in shared memory. See `kernels/hopper_pass.cu`, `kernels/hopper_weights.cu`.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.device import Array, Device
from neuralfield.engines.buffers import Buffers, PartialGradient
from neuralfield.kernels.plan import TILE_ROWS, BatchPlan, LayerPlan, NetworkPlan
from neuralfield.kernels.source import compile_module
from neuralfield.kernels.wgmma import wgmma_source

GRADIENT_SCALE = 1024.0
"""Factor on slopes while they are 16-bit numbers: keeps those of a close fit (an error of 1e-4)
out of the subnormal ones, and the largest (of 1, times a growth of 60 on the way) finite."""

_WIDEST = 256
_MOST_LAYERS = 12
_STAGE_BYTES = 16384
_WEIGHT_STAGE_BYTES = 2 * TILE_ROWS * (128 + 256)
_ACTIVATIONS = ("sine", "tanh", "relu", "sigmoid")
_THREADS = 128


@dataclass(frozen=True)
class _WeightJob:
    """Rows of a layer's matrix whose gradient one block sums over some tiles."""

    layer: int
    first_row: int
    rows: int
    columns: int
    alternates: bool

    @property
    def shape(self) -> tuple[int, int, bool]:
        return self.rows, self.columns, self.alternates


class HopperPass:
    """Forward, loss and backward for one batch; see `neuralfield.engines.buffers.Pass`.

    Parameters
    ----------
    device : Device
    network : NetworkPlan
    batch : BatchPlan
    buffers : Buffers
    precision : {"mixed"}
    """

    name = "hopper"

    def __init__(
        self,
        device: Device,
        network: NetworkPlan,
        batch: BatchPlan,
        buffers: Buffers,
        precision: str,
    ) -> None:
        self.network, self.batch, self._xp = network, batch, device.xp
        self._allocated: list[Array] = []
        self._hidden = network.layers[:-1]
        self._first_product = 0 if network.encoding == "fourier" else 1
        properties = device.xp.cuda.runtime.getDeviceProperties(device.xp.cuda.Device().id)
        self._processors = int(properties["multiProcessorCount"])
        self._shared_limit_bytes = int(properties["sharedMemPerBlockOptin"])
        self._set_up_weights(buffers)
        self._set_up_pass(buffers)
        self._set_up_weight_gradients()

    @staticmethod
    def reason_against(
        network: NetworkPlan, batch: BatchPlan, precision: str, compute_capability: int
    ) -> str | None:
        """Why this pass cannot do it; None: it can."""
        widest = max(layer.fan_out for layer in network.layers)
        if network.encoding == "fourier":
            widest = max(widest, network.layers[0].fan_in)
        if compute_capability != 90:
            return f"compute capability {compute_capability / 10}, not 9.0"
        if precision != "mixed":
            return f"precision {precision}, not mixed"
        if widest > _WIDEST:
            return f"a layer of {widest} values, more than {_WIDEST}"
        if not 2 <= len(network.layers) <= _MOST_LAYERS:
            return f"{len(network.layers)} layers, not 2 to {_MOST_LAYERS}"
        if batch.points > TILE_ROWS or batch.channels > 4:
            return f"{batch.points} points a pixel, {batch.channels} channels"
        return None

    @property
    def memory_bytes(self) -> int:
        """What it has allocated."""
        return sum(array.nbytes for array in self._allocated)

    def partial_gradients(self) -> list[PartialGradient]:
        """One for each parameter tensor, in order."""
        unit = 1 / (GRADIENT_SCALE * self.batch.pixels * self.batch.channels)
        partials = []
        for index, layer in enumerate(self.network.layers):
            pair = self._gradient_of(index, layer, unit * layer.frequency)
            partials += pair if layer.has_bias else pair[:1]
        return partials

    def launch(self) -> None:
        """Put the pass on the current stream."""
        if self._matrices:
            self._pack((32, len(self._matrices)), (256,), self._pack_arguments)
        self._pass(
            (self._blocks,),
            (_THREADS * (self._block_tiles + 1),),
            (self._arguments,),
            shared_mem=self._pass_shared_bytes,
        )
        if self._jobs:
            self._weights(
                (len(self._jobs),),
                (3 * _THREADS,),
                (self._job_table,),
                shared_mem=self._weights_shared_bytes,
            )

    def _zeros(self, shape: int | tuple[int, ...], dtype: Any) -> Array:
        self._allocated.append(self._xp.zeros(shape, dtype=dtype))
        return self._allocated[-1]

    def _upload(self, table: np.ndarray) -> Array:
        self._allocated.append(self._xp.asarray(table.view(np.uint8).reshape(-1)))
        return self._allocated[-1]

    def _set_up_weights(self, buffers: Buffers) -> None:
        """The stream of packed weights: matrices forwards, then their transposes backwards."""
        layers, names = self._hidden, self.network.parameter_names
        self._offsets = [
            (
                buffers.offsets[f"layers.{index}.weight"],
                buffers.offsets.get(f"layers.{index}.bias", -1),
            )
            for index in range(len(names))
            if f"layers.{index}.weight" in names
        ]
        self._matrices = list(range(self._first_product, len(layers)))
        forward, backward, size = {}, dict.fromkeys(self._matrices, -1), 0
        for index in self._matrices:
            forward[index] = size
            size += _padded(layers[index].fan_in) * _padded(layers[index].fan_out)
        for index in reversed(self._matrices):
            if index >= 1:
                backward[index] = size
                size += _padded(layers[index].fan_in) * _padded(layers[index].fan_out)
        self._stream = self._zeros(max(size, 8), "float16")
        if not self._matrices:
            return
        constants = {
            "MATRICES": len(self._matrices),
            "MATRIX_ROWS": _list(layers[i].fan_in for i in self._matrices),
            "MATRIX_COLUMNS": _list(layers[i].fan_out for i in self._matrices),
            "MATRIX_FACTORS": _list(f"{layers[i].frequency!r}f" for i in self._matrices),
            "MATRIX_OFFSETS": _list(self._offsets[i][0] for i in self._matrices),
            "FORWARD_STARTS": _list(forward[i] for i in self._matrices),
            "BACKWARD_STARTS": _list(backward[i] for i in self._matrices),
        }
        self._pack = compile_module("hopper_pack.cu", constants).get_function("hopper_pack")
        self._pack_arguments = (buffers.parameters, self._stream)

    def _set_up_pass(self, buffers: Buffers) -> None:
        network, batch, hidden = self.network, self.batch, self._hidden
        widths = [_padded(layer.fan_out) for layer in hidden]
        encoded = hidden[0].fan_in if network.encoding == "fourier" else 1
        input_width = _padded(encoded)
        widest = self._widest = max(input_width, *widths)
        self._block_tiles = 4 if widest <= 64 else 3 if widest <= 128 else 2
        vectors = batch.channels + (0 if network.encoding == "fourier" else 3)
        fixed_bytes = _pass_fixed_bytes(
            len(hidden), widest, batch.channels, vectors, self._block_tiles
        )
        sizes = [(_fan_in(i, widths, input_width), widths[i]) for i in self._matrices]
        sizes += [(b, a) for i, (a, b) in zip(self._matrices, sizes, strict=True) if i >= 1]
        chunks = sum(_chunks(rows, columns) for rows, columns in sizes)
        places = (self._shared_limit_bytes - fixed_bytes) // (_STAGE_BYTES + 16)
        stages = max(1, min(chunks, places))
        self._pass_shared_bytes = fixed_bytes + stages * (_STAGE_BYTES + 16)
        constants = network.constants() | batch.constants()
        constants |= {
            "HIDDEN": len(hidden),
            "WIDTHS": _list(widths),
            "REAL_WIDTHS": _list(layer.fan_out for layer in hidden),
            "INPUT_WIDTH": input_width,
            "FOURIER_COUNT": hidden[0].fan_in // 2,
            "ACTIVATIONS": _list(_ACTIVATIONS.index(str(layer.activation)) for layer in hidden),
            "FREQUENCIES": _list(f"{layer.frequency!r}f" for layer in hidden),
            "BLOCK_TILES": self._block_tiles,
            "STAGES": stages,
            "STAGE_BYTES": _STAGE_BYTES,
            "GRADIENT_SCALE": GRADIENT_SCALE,
        }
        products = {columns for _, columns in sizes}
        module = compile_module("hopper_pass.cu", constants, wgmma_source(products))
        self._pass = module.get_function("hopper_pass")
        self._pass.max_dynamic_shared_size_bytes = self._pass_shared_bytes

        self._blocks = min(self._processors, -(-batch.tiles // self._block_tiles))
        self._values = [self._zeros(1, "float16")] * len(hidden)
        self._slopes = list(self._values)
        for index in self._matrices:
            self._values[index] = self._zeros(
                batch.rows * _fan_in(index, widths, input_width), "float16"
            )
            self._slopes[index] = self._zeros(batch.rows * widths[index], "float16")
        derivatives = self._zeros(
            self._blocks * len(hidden) * (widest // 16) * _THREADS * self._block_tiles * 4,
            "float32",
        )
        self._vectors = self._zeros((self._blocks, vectors, widest), "float32")
        self._output_bias = self._zeros((self._blocks, batch.channels), "float32")
        self.loss_partials = self._zeros((self._blocks, 2), "float64")
        pointers = [
            buffers.inputs,
            buffers.targets,
            buffers.weights,
            buffers.parameters,
            buffers.frequencies,
            self._stream,
            *self._values,
            *self._slopes,
            derivatives,
            self._vectors,
            self._output_bias,
            self.loss_partials,
        ]
        numbers = [pair[0] for pair in self._offsets] + [pair[1] for pair in self._offsets]
        table = np.concatenate(
            [_addresses(pointers).view(np.uint8), np.array(numbers, np.int32).view(np.uint8)]
        )
        self._arguments = self._upload(table)

    def _set_up_weight_gradients(self) -> None:
        """Share out the matrices over the processors, in proportion to their work."""
        self._partials: dict[int, tuple[Array, Array, int]] = {}
        self._jobs: list[np.ndarray] = []
        if not self._matrices:
            return
        kinds = [job for index in self._matrices for job in self._jobs_of(index)]
        shapes = sorted({job.shape for job in kinds})
        work = {job: job.rows + job.columns + 64 for job in kinds}
        splits = {
            index: max(
                1,
                min(
                    self.batch.tiles,
                    *(
                        int(self._processors * work[job] / sum(work.values()))
                        for job in kinds
                        if job.layer == index
                    ),
                ),
            )
            for index in self._matrices
        }
        for index in self._matrices:
            parts = splits[index] * (2 if kinds[0].alternates else 1)
            jobs = [job for job in kinds if job.layer == index]
            parts = splits[index] * (2 if jobs[0].alternates else 1)
            rows, columns = sum(job.rows for job in jobs), jobs[0].columns
            weight = self._zeros((parts, rows, columns), "float32")
            bias = self._zeros((parts, columns), "float32")
            self._partials[index] = weight, bias, parts
            for job in jobs:
                self._jobs += self._split(job, splits[index], weight, bias, shapes.index(job.shape))
        stage_bytes = max(2 * TILE_ROWS * (rows + columns) for rows, columns, _ in shapes)
        stages = min(8, (self._shared_limit_bytes - 2048) // (stage_bytes + 16))
        self._weights_shared_bytes = stages * (stage_bytes + 16) + 1024
        constants = {
            "SHAPES": len(shapes),
            "SHAPE_ROWS": _list(shape[0] for shape in shapes),
            "SHAPE_COLUMNS": _list(shape[1] for shape in shapes),
            "SHAPE_ALTERNATES": _list(int(shape[2]) for shape in shapes),
            "WEIGHT_STAGES": stages,
        }
        columns = {shape[1] for shape in shapes}
        module = compile_module("hopper_weights.cu", constants, wgmma_source(columns))
        self._weights = module.get_function("hopper_weights")
        self._weights.max_dynamic_shared_size_bytes = self._weights_shared_bytes
        self._job_table = self._upload(np.concatenate(self._jobs))

    def _jobs_of(self, index: int) -> list[_WeightJob]:
        layer = self._hidden[index]
        rows, columns = _padded(layer.fan_in), _padded(layer.fan_out)
        if rows <= 128:
            return [_WeightJob(index, 0, rows, columns, rows <= 64)]
        half = _padded(rows // 2)
        return [
            _WeightJob(index, 0, half, columns, False),
            _WeightJob(index, half, rows - half, columns, False),
        ]

    def _split(
        self, job: _WeightJob, splits: int, weight: Array, bias: Array, shape: int
    ) -> list[np.ndarray]:
        """The job over ranges of tiles, as the structs that the kernel reads."""
        each = 2 if job.alternates else 1
        bounds = [self.batch.tiles * i // splits for i in range(splits + 1)]
        has_bias = job.first_row == 0 and self._hidden[job.layer].has_bias
        structs = []
        for part, (first, last) in enumerate(zip(bounds, bounds[1:], strict=False)):
            pointers = _addresses(
                [
                    self._values[job.layer],
                    self._slopes[job.layer],
                    weight[part * each, job.first_row :],
                    bias[part * each] if has_bias else None,
                ]
            )
            columns_of_values = weight.shape[1]
            numbers = [shape, first, last, columns_of_values, job.first_row, 0]
            structs.append(pointers.view(np.uint8))
            structs.append(np.array(numbers, np.int32).view(np.uint8))
        joined = np.concatenate(structs).reshape(splits, -1)
        return list(joined)

    def _gradient_of(self, index: int, layer: LayerPlan, scale: float) -> list[PartialGradient]:
        """Of weight and bias."""
        vectors, channels, widest = self._vectors.shape[1], self.batch.channels, self._widest
        stride = vectors * widest
        if index == len(self._hidden):
            return [
                PartialGradient(self._vectors, self._blocks, stride, channels, 0, scale),
                PartialGradient(self._output_bias, self._blocks, channels, channels, 0, scale),
            ]
        if index < self._first_product:
            ones = channels * widest
            rows = ones if self.network.encoding == "corners" else ones + widest
            return [
                PartialGradient(self._vectors, self._blocks, stride, widest, rows, scale),
                PartialGradient(self._vectors, self._blocks, stride, widest, ones, scale),
            ]
        weight, bias, parts = self._partials[index]
        _, rows, columns = weight.shape
        return [
            PartialGradient(weight, parts, rows * columns, columns, 0, scale),
            PartialGradient(bias, parts, columns, columns, 0, scale),
        ]


def _padded(width: int) -> int:
    return -(-width // 16) * 16


def _fan_in(index: int, widths: list[int], input_width: int) -> int:
    return widths[index - 1] if index else input_width


def _chunks(rows: int, columns: int) -> int:
    fitting = _STAGE_BYTES // (2 * columns) // 16 * 16
    return -(-rows // min(fitting, rows))


def _list(values: Any) -> str:
    return "{" + ", ".join(str(value) for value in values) + "}"


def _addresses(arrays: list[Array | None]) -> np.ndarray:
    return np.array([0 if array is None else array.data.ptr for array in arrays], np.uint64)


def _pass_fixed_bytes(hidden: int, widest: int, channels: int, vectors: int, tiles: int) -> int:
    """Shared memory of hopper_pass.cu, but for its ring of weights."""
    arguments = 8 * (10 + 2 * hidden) + 8 * (hidden + 1)
    constants = 4 * widest * (3 + hidden + channels) + 4 * channels
    tile = 2 * TILE_ROWS * widest + 4 * vectors * widest + 2 * 3 * 8 * 72
    tile += 4 * TILE_ROWS * channels + 4 * (16 + 4 * channels)
    return arguments + constants + tiles * tile + 256
