"""Forward and backward pass of one batch, with all gradients, in one kernel: for networks whose
first layer is a product of linear maps.

Matrix products are those of warps, for every GPU of compute capability 8.0 and more; see
`product_pass.cu`.
"""

from dataclasses import replace

from neuralfield.engines.cuda.buffers import PartialGradient, PassArguments
from neuralfield.engines.cuda.fused.fused_pass import FusedPass
from neuralfield.engines.cuda.fused.padded_network import (
    TILE_THREADS,
    PaddedNetwork,
    shared_limit_bytes,
)
from neuralfield.engines.cuda.launch import Launch, gpu_limits
from neuralfield.engines.cuda.source import compile_kernel
from neuralfield.engines.kernel_plan import (
    ACTIVATIONS,
    ENCODINGS,
    MIXED_GRADIENT_SCALE,
    TILE_ROWS,
    BatchPlan,
    LayerPlan,
    NetworkPlan,
)

_MOST_SUMS = 180
"""Maximum number of gradient sums of a thread."""

_WARPS = 8


class ProductPass(FusedPass):
    """Forward pass, loss and backward pass of one batch, in mixed precision; see `Pass`."""

    name = "fused-product"
    by_warps = True
    has_product = True

    def __init__(self, given: PassArguments) -> None:
        shape = _shape(given.network)
        blocks = min(gpu_limits(given.device)[0], given.batch.tiles)
        super().__init__(given, shape, blocks, backward=True)
        layers = shape.matrices
        weights, biases = self._make_parts()
        copies = [self._stream.copy_of(index, 1.0) for index in layers]
        matrices = [copy.forward for copy in copies] + [copy.backward for copy in copies]
        arguments = self._arguments_of([*matrices, *weights, *biases])
        assert given.buffers.frequencies is not None
        self._frequencies = given.buffers.frequencies.shape[1]
        constants = {
            **shape.constants(len(layers)),
            **given.batch.constants(),
            # polynomials follow the features that have weights, and the first of them is 1
            "ENCODING": ENCODINGS.index("chebyshev"),
            "FOURIER_COUNT": self._frequencies,
            "ACTIVATION": ACTIVATIONS.index("relu"),
            "FACTORS": shape.hidden[0].factors,
            "FEATURES": shape.stream_shapes(backward=False)[0][0],
            "WARP_PRODUCTS": True,
            "GRADIENT_SCALE": MIXED_GRADIENT_SCALE,
            "SHARED_BYTES": _fixed_bytes(shape),
        }
        file, shared_bytes = "fused/product_pass.cu", _block_bytes(shape)
        kernel = compile_kernel(file, "product_pass", constants, "", shared_bytes)
        threads = 2 * TILE_THREADS
        own = Launch(kernel, (blocks,), (arguments,), threads, shared_bytes)
        self._launches += [self._stream.launch, own]

    def prepare(self) -> None:
        """Do nothing: each step packs the weights."""

    @classmethod
    def _lacking(
        cls, network: NetworkPlan, batch: BatchPlan, compute_capability: int
    ) -> str | None:
        if network.encoding not in ("fourier", "chebyshev"):
            return f"factors of the encoding {network.encoding}"
        shape = _shape(network)
        first, *others = shape.hidden
        if any(layer.activation != "relu" for layer in others):
            return "activations other than relu behind a product"
        if first.values_out % 16 or len(set(shape.widths)) > 1:
            return "factors whose values are not a multiple of 16"
        if _sums(shape) > _MOST_SUMS:
            return "gradients that do not fit in registers"
        if _block_bytes(shape) > shared_limit_bytes(compute_capability):
            return "layers that do not fit on a multiprocessor"
        return None

    def _matrix_gradients(
        self, index: int, layer: LayerPlan, scale: float
    ) -> list[PartialGradient]:
        weight, bias = super()._matrix_gradients(index, layer, scale)
        weight = replace(weight, copy=None)
        if index == 0:  # the bias's gradient is that of the weight of the feature that is 1
            bias = replace(weight, offset=2 * self._frequencies * weight.row_stride)
        return [weight, bias]


def _shape(network: NetworkPlan) -> PaddedNetwork:
    """Describe a network of any width; two groups of 128 threads work on a tile together."""
    return PaddedNetwork(network, {1 << 10: 2})


def _sums(shape: PaddedNetwork) -> int:
    """Count the sums of a thread, as `WeightSums` of weight_sums.cuh distributes them."""
    total = 0
    for index in shape.matrices:
        rows, columns = shape.fan_in(index) // 16, shape.columns(index) // 8
        total += 4 * min(-(-rows * n // _WARPS) * -(-columns // n) for n in (1, 2, 4, 8))
    return total


def _block_bytes(shape: PaddedNetwork) -> int:
    """Return the shared memory of a block, in bytes."""
    relus = len(shape.matrices) - 1
    columns = shape.input_width + shape.columns(0) + max(1, 2 * relus) * shape.widths[0]
    return 2 * TILE_ROWS * columns + _fixed_bytes(shape)


def _fixed_bytes(shape: PaddedNetwork) -> int:
    """Return an upper bound on the size of the struct Shared of product_pass.cuh, in bytes."""
    hidden, channels = len(shape.hidden), shape.network.layers[-1].fan_out
    arguments = 8 * (8 + 4 * hidden) + 8 * (hidden + 1)
    vectors = 4 * 4 * (channels + hidden - 1) * shape.widest
    others = 4 * shape.columns(0) + 2 * 8 * shape.widths[-1]
    outputs = 2 * 4 * TILE_ROWS * channels + _WARPS * (16 + 4 * channels)
    return arguments + shape.constants_bytes + vectors + others + outputs + 256
