"""The arrays that stages of the cuda engine exchange, and the parts that all passes share."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from neuralfield.engines.kernel_plan import BatchPlan, NetworkPlan
from neuralfield.system.device import Array, Device


@dataclass(frozen=True)
class NetworkArrays:
    """Arrays of a network on the GPU; float32."""

    parameters: Array  # shape (n,), one after another, weights row by row
    offsets: Mapping[str, int]  # the index at which each parameter begins
    frequencies: Array | None  # of Fourier features, shape (2, F)


@dataclass(frozen=True)
class Buffers(NetworkArrays):
    """Arrays on the GPU that outlive a step; float32."""

    inputs: Array  # x, y of every row; u, v for corners
    targets: Array  # shape (pixels, channels), slot by slot
    weights: Array | None  # shape (pixels,); None: all slots have the same weight


@dataclass(frozen=True)
class WeightCopy:
    """A float16 copy of a weight in the layout of matrix products, see `weight_blocks.cuh`."""

    forward: Array
    backward: Array | None  # the transpose
    factor: float  # the copy is the weight times this factor

    @property
    def addresses(self) -> tuple[int, int]:
        """The addresses of both arrays on the GPU; 0 for None."""
        return self.forward.data.ptr, 0 if self.backward is None else self.backward.data.ptr


@dataclass(frozen=True)
class PartialGradient:
    """The gradient of one parameter tensor, as partial sums that remain to be added up.

    Element (part, row, column) is at ``part * part_stride + row * row_stride + column`` of `array`,
    from `offset` on; a bias has one row. The gradient is `scale` times the sum over parts in
    increasing order. The update of the parameter also has to write its `copy`. If there is no copy,
    a row of the parameter can be several rows here, each of which has `columns` elements.
    """

    array: Array
    parts: int
    part_stride: int
    row_stride: int
    offset: int
    scale: float
    copy: WeightCopy | None = None
    columns: int | None = None


@dataclass(frozen=True)
class PassArguments:
    """The arguments for making any pass over a field's batches."""

    device: Device
    network: NetworkPlan
    batch: BatchPlan
    buffers: Buffers
    precision: str  # mixed: activations, gradients and products' weights fp16, sums float32


class Pass(ABC):
    """The forward pass, loss and backward pass of one batch."""

    name: str
    variant: str
    """The name, and whatever else distinguishes the pass's results."""
    loss_partials: Array
    """float64, shape (n, 2); its column sums are the batch's mean loss and squared error."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._allocated: list[Array] = []
        self._launches: list[Callable[[], None]] = []

    @property
    def memory_bytes(self) -> int:
        return sum(array.nbytes for array in self._allocated)

    @abstractmethod
    def partial_gradients(self) -> list[PartialGradient]:
        """Return the partial gradient of each parameter tensor, in order."""

    def prepare(self) -> None:  # noqa: B027 - not every pass has copies of parameters
        """Put on the current stream the work that is needed after something other than the update
        has set parameters."""

    def launch(self) -> None:
        """Put the pass on the current stream; allocates nothing and waits for nothing."""
        for launch in self._launches:
            launch()

    def _zeros(self, shape: int | tuple[int, ...], dtype: Any = "float32") -> Array:
        self._allocated.append(self._device.xp.zeros(shape, dtype=dtype))
        return self._allocated[-1]

    def _upload(self, table: np.ndarray) -> Array:
        """Upload structs for a kernel, as bytes."""
        self._allocated.append(self._device.xp.asarray(table.view(np.uint8).reshape(-1)))
        return self._allocated[-1]
