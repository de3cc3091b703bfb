"""Networks: their arrays by name, checks of weights from files, and sequences of operations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Self, TypeVar

import numpy as np

from neuralfield.nn.dropout import Dropout, TrainingCall, dropout
from neuralfield.nn.layers import Conv2d, Layer, Linear
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import HOST, Array, Device, namespace_of, require_memory
from neuralfield.system.errors import ConfigError

AnyLayer = TypeVar("AnyLayer", bound=Layer | Conv2d)


class Network(Generic[AnyLayer]):
    """A network: a list of layers with parameters, whose names are stable."""

    def __init__(self, layers: Sequence[AnyLayer]) -> None:
        self.layers = list(layers)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """The trainable tensors by name: ``layers.{index}.{name}``."""
        return {
            f"layers.{index}.{name}": tensor
            for index, layer in enumerate(self.layers)
            for name, tensor in layer.parameters.items()
        }

    @property
    def hidden_matrices(self) -> frozenset[str]:
        """The names of the parameters that are matrices between two hidden layers."""
        hidden = enumerate(self.layers[1:-1], start=1)
        return frozenset(
            f"layers.{index}.{name}"
            for index, layer in hidden
            for name, tensor in layer.parameters.items()
            if len(tensor.shape) == 2
        )

    @property
    def buffers(self) -> dict[str, Array]:
        """The arrays that are saved with the network but not trained, such as random features."""
        return {}

    @property
    def arrays(self) -> dict[str, Array]:
        return {name: tensor.data for name, tensor in self.parameters.items()} | self.buffers

    @property
    def parameter_count(self) -> int:
        return sum(tensor.data.size for tensor in self.parameters.values())

    def load(self, arrays: dict[str, np.ndarray], source: str) -> None:
        """Replace all arrays with saved arrays from `source`; see `require_same_arrays`."""
        self.require_same_arrays(arrays, source)
        for name, present in self.arrays.items():
            present[...] = namespace_of(present).asarray(arrays[name])

    def require_same_arrays(self, arrays: Mapping[str, np.ndarray], source: str) -> None:
        """Raise `ConfigError` unless names and shapes of arrays from `source` match the network."""
        present = self.arrays
        if set(arrays) != set(present):
            wrong = sorted(set(arrays) ^ set(present))
            raise ConfigError(source, f"arrays {wrong} do not match", f"just {sorted(present)}")
        for name, array in arrays.items():
            if array.shape != present[name].shape:
                expected = f"shape {present[name].shape}"
                raise ConfigError(source, f"{name} of shape {array.shape}", expected)

    def with_weights(self, arrays: dict[str, np.ndarray], device: Device, dtype: str) -> Self:
        """Load a model's arrays for inference on a device, in place; see `load`."""
        self.load(arrays, "model")
        for tensor in self.parameters.values():
            tensor.differentiable = False
        return self.to(device, dtype)

    def to(self, device: Device, dtype: str) -> Self:
        """Move the network to a device and a precision, in place."""
        for tensor in self.parameters.values():
            tensor.data = device.asarray(tensor.data, dtype=dtype)
        return self


class ZeroGenerator(np.random.Generator):
    """A generator that returns zeros, which is fast, for networks whose weights are then loaded."""

    def __init__(self) -> None:
        super().__init__(np.random.PCG64(0))

    def uniform(self, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
        return np.zeros(size)

    def normal(self, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
        return np.zeros(size)


Operation = Linear | Conv2d | Dropout | Callable[[Tensor], Tensor]
"""A layer, or a function of a layer's output such as `neuralfield.nn.ops.relu`."""


class Sequential(Network[Linear | Conv2d]):
    """A sequence of operations.

    >>> network = Sequential([convolution, ops.relu, ops.flatten, Dropout(0.5), linear])
    >>> logits = network(images)  # nothing is dropped
    >>> logits = network(images, TrainingCall(random_seed, step, samples))
    """

    def __init__(self, operations: Sequence[Operation]) -> None:
        super().__init__([layer for layer in operations if isinstance(layer, Linear | Conv2d)])
        self.operations = list(operations)

    def __call__(self, inputs: Array, training: TrainingCall | None = None) -> Tensor:
        """Apply all operations to inputs of shape (n, ...), with the network's dtype and device.

        Dropout is applied only if `training` is given.
        """
        x, dropouts = Tensor(inputs), 0
        for operation in self.operations:
            if isinstance(operation, Dropout):
                if training is not None:
                    x = dropout(x, operation.rate, training, dropouts)
                dropouts += 1
            else:
                x = operation(x)
        return x


_BYTES_PER_WEIGHT = 16
"""Memory of a weight in float64, and of its copy while the network is created."""

_ALWAYS_FREE_BYTES = 1 << 28

Shapes = Sequence[tuple[int, int]]
"""Shapes of the matrices of a network."""


def require_memory_for(shapes: Shapes, where: str) -> None:
    """Check that a network fits in memory, before it is created; raises `ResourceError`."""
    weights = sum(into * out for into, out in shapes)
    if (needed_bytes := _BYTES_PER_WEIGHT * weights) > _ALWAYS_FREE_BYTES:
        require_memory(needed_bytes, HOST, where, "make the network smaller")


def require_numbers(arrays: Mapping[str, np.ndarray]) -> None:
    """Raise ValueError unless arrays of a file are float32 or float64, and finite in float32."""
    for name, array in arrays.items():
        if array.dtype not in (np.float32, np.float64):
            raise ValueError(f"{name} of type {array.dtype}")
        with np.errstate(over="ignore"):
            if not np.isfinite(array.astype(np.float32)).all():
                raise ValueError(f"{name} holds numbers that are not finite")


def require_enough(arrays: Mapping[str, np.ndarray], shapes: Shapes, claimed: object) -> None:
    """Raise ValueError if a file has fewer weights than the network that its settings describe.

    This is checked before the network is created, because settings can describe a network that does
    not fit in memory. `shapes` is empty if they are unknown, which is also an error; `claimed` are
    the settings, for the message.
    """
    values = sum(array.size for array in arrays.values())
    needed = sum(into * out for into, out in shapes)
    if not 0 < len(shapes) <= len(arrays) or needed > values:
        raise ValueError(f"{values} weights in {len(arrays)} arrays are too few for {claimed}")
