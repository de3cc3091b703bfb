"""Optimizers: they change parameters in place and keep their memory in plain arrays."""

import math
from collections.abc import Mapping, Sequence
from typing import Protocol

from neuralfield.device import Array, namespace_of
from neuralfield.errors import ConfigError
from neuralfield.tensor import Tensor


class Optimizer(Protocol):
    """What the engines and checkpoints need of an optimizer."""

    state: dict[str, Array]
    """Everything to resume from, under names that are unique and stable."""

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        """Apply one gradient for each parameter; `step` counts from 1."""
        ...


class Sgd:
    """Gradient descent with momentum: v = momentum * v + g; w -= learning_rate * v."""

    def __init__(self, parameters: Mapping[str, Tensor], momentum: float = 0.0) -> None:
        self.parameters = parameters
        self.momentum = momentum
        self.state: dict[str, Array] = {}
        if momentum:
            for name, tensor in parameters.items():
                self.state[f"velocity.{name}"] = namespace_of(tensor.data).zeros_like(tensor.data)

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        """Apply one gradient for each parameter."""
        for (name, tensor), gradient in zip(self.parameters.items(), gradients, strict=True):
            direction = gradient
            if self.momentum:
                direction = self.state[f"velocity.{name}"]
                direction *= direction.dtype.type(self.momentum)
                direction += gradient
            tensor.data -= tensor.data.dtype.type(learning_rate) * direction


class Adam:
    """Adam with bias correction (Kingma & Ba 2015, algorithm 1)."""

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        beta1: float = 0.9,
        beta2: float = 0.999,
        epsilon: float = 1e-8,
    ) -> None:
        self.parameters = parameters
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.state: dict[str, Array] = {}
        for name, tensor in parameters.items():
            zeros_like = namespace_of(tensor.data).zeros_like
            self.state[f"moment1.{name}"] = zeros_like(tensor.data)
            self.state[f"moment2.{name}"] = zeros_like(tensor.data)

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        """Apply one gradient for each parameter; `step` counts from 1."""
        correction1 = 1 - self.beta1**step
        correction2 = math.sqrt(1 - self.beta2**step)
        for (name, tensor), gradient in zip(self.parameters.items(), gradients, strict=True):
            xp, number = namespace_of(tensor.data), tensor.data.dtype.type
            moment1, moment2 = self.state[f"moment1.{name}"], self.state[f"moment2.{name}"]
            moment1 *= number(self.beta1)
            moment1 += number(1 - self.beta1) * gradient
            moment2 *= number(self.beta2)
            moment2 += number(1 - self.beta2) * gradient * gradient
            scale = xp.sqrt(moment2)
            scale *= number(1 / correction2)
            scale += number(self.epsilon)
            tensor.data -= number(learning_rate / correction1) * moment1 / scale


def make_optimizer(
    name: str,
    parameters: Mapping[str, Tensor],
    *,
    momentum: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
) -> Optimizer:
    """The optimizer of that name.

    Parameters
    ----------
    name : {"adam", "sgd"}
    parameters : mapping of name to Tensor
    momentum : float
        For sgd.
    beta1, beta2 : float
        For adam.

    Raises
    ------
    ConfigError
        Unknown name.
    """
    if name == "adam":
        return Adam(parameters, beta1, beta2)
    if name == "sgd":
        return Sgd(parameters, momentum)
    raise ConfigError("training.optimizer", repr(name), "adam or sgd")
