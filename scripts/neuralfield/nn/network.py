"""What all networks share: their arrays by name; and networks that are a row of stages."""

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, Self, TypeVar

import numpy as np

from neuralfield.nn.dropout import Dropout, TrainingCall, dropout
from neuralfield.nn.layers import Conv2d, Linear
from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, Device, namespace_of
from neuralfield.system.errors import ConfigError


class Trainable(Protocol):
    """A layer, as far as its arrays go."""

    @property
    def parameters(self) -> Mapping[str, Tensor]:
        """What is trained, by name."""
        ...


AnyLayer = TypeVar("AnyLayer", bound=Trainable)


class Network(Generic[AnyLayer]):
    """Layers whose parameters have names that are unique and stable.

    Parameters
    ----------
    layers : sequence of Trainable
        Those with something to train, from the first to the last.
    """

    def __init__(self, layers: Sequence[AnyLayer]) -> None:
        self.layers = list(layers)

    @property
    def parameters(self) -> dict[str, Tensor]:
        """What is trained, under names that are unique and stable."""
        return {
            f"layers.{index}.{name}": tensor
            for index, layer in enumerate(self.layers)
            for name, tensor in layer.parameters.items()
        }

    @property
    def hidden_matrices(self) -> frozenset[str]:
        """Names of the parameters that are matrices between two hidden layers."""
        hidden = enumerate(self.layers[1:-1], start=1)
        return frozenset(
            f"layers.{index}.{name}"
            for index, layer in hidden
            for name, tensor in layer.parameters.items()
            if len(tensor.shape) == 2
        )

    @property
    def buffers(self) -> dict[str, Array]:
        """What is drawn once and not trained, but is lost with the network."""
        return {}

    @property
    def arrays(self) -> dict[str, Array]:
        """Parameters and buffers, to be saved."""
        return {name: tensor.data for name, tensor in self.parameters.items()} | self.buffers

    @property
    def parameter_count(self) -> int:
        """How many numbers are trained."""
        return sum(tensor.data.size for tensor in self.parameters.values())

    def load(self, arrays: dict[str, np.ndarray], source: str) -> None:
        """Put saved arrays in place of the present ones.

        Raises
        ------
        ConfigError
            A name or a shape is not this network's.
        """
        present = self.arrays
        if set(arrays) != set(present):
            wrong = sorted(set(arrays) ^ set(present))
            raise ConfigError(source, f"arrays {wrong} do not match", f"just {sorted(present)}")
        for name, array in arrays.items():
            if array.shape != present[name].shape:
                expected = f"shape {present[name].shape}"
                raise ConfigError(source, f"{name} of shape {array.shape}", expected)
            present[name][...] = namespace_of(present[name]).asarray(array)

    def with_weights(self, arrays: dict[str, np.ndarray], device: Device, dtype: str) -> Self:
        """This network with a model's arrays, to be used on a device and not trained; in place.

        Raises
        ------
        ConfigError
            A name or a shape is not this network's.
        """
        self.load(arrays, "model")
        for tensor in self.parameters.values():
            tensor.differentiable = False
        return self.to(device, dtype)

    def to(self, device: Device, dtype: str) -> Self:
        """This network on a device, in a precision; in place."""
        for tensor in self.parameters.values():
            tensor.data = device.asarray(tensor.data, dtype=dtype)
        return self


Stage = Linear | Conv2d | Dropout | Callable[[Tensor], Tensor]
"""A layer, or a function of the layer's output such as `neuralfield.nn.ops.relu`."""


class Sequential(Network[Linear | Conv2d]):
    """One stage after another.

    Parameters
    ----------
    stages : sequence of Stage

    Examples
    --------
    >>> network = Sequential([convolution, ops.relu, ops.flatten, Dropout(0.5), linear])
    >>> logits = network(pictures)  # nothing is dropped
    >>> logits = network(pictures, TrainingCall(random_seed, step, samples))
    """

    def __init__(self, stages: Sequence[Stage]) -> None:
        super().__init__([stage for stage in stages if isinstance(stage, Linear | Conv2d)])
        self.stages = list(stages)

    def __call__(self, inputs: Array, training: TrainingCall | None = None) -> Tensor:
        """The last stage's values.

        Parameters
        ----------
        inputs : array, shape (n, ...)
            Of the network's dtype and device.
        training : TrainingCall, optional
            In training: what dropout's draws depend on. Without it nothing is dropped.

        Returns
        -------
        Tensor, shape (n, ...)
        """
        x, dropouts = Tensor(inputs), 0
        for stage in self.stages:
            if isinstance(stage, Dropout):
                if training is not None:
                    x = dropout(x, stage.rate, training, dropouts)
                dropouts += 1
            else:
                x = stage(x)
        return x
