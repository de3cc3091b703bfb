"""Optimizers, which update parameters in place and store their state in plain arrays."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Protocol

from neuralfield.nn.tensor import Tensor
from neuralfield.system.device import Array, namespace_of

OPTIMIZERS = ("adam", "muon", "sgd")

NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients a, b and c of a step of `orthogonalised`, from Jordan et al. 2024."""

NEWTON_SCHULZ_STEPS = 5


class Optimizer(Protocol):
    """The interface of an optimizer for engines and checkpoints."""

    state: dict[str, Array]
    """Everything needed to resume, under unique and stable names."""

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        """Apply one gradient for each parameter; `step` counts from 1."""
        ...


class Sgd:
    """Gradient descent with momentum: v = momentum * v + g; w -= learning_rate * v."""

    def __init__(self, parameters: Mapping[str, Tensor], momentum: float) -> None:
        self.parameters = parameters
        self.momentum = momentum
        self.state: dict[str, Array] = {}
        if momentum:
            for name, tensor in parameters.items():
                self.state[f"velocity.{name}"] = namespace_of(tensor.data).zeros_like(tensor.data)

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
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
        self, parameters: Mapping[str, Tensor], beta1: float, beta2: float, epsilon: float
    ) -> None:
        self.parameters = parameters
        self.beta1, self.beta2, self.epsilon = beta1, beta2, epsilon
        self.state: dict[str, Array] = {}
        for name, tensor in parameters.items():
            zeros_like = namespace_of(tensor.data).zeros_like
            self.state[f"moment1.{name}"] = zeros_like(tensor.data)
            self.state[f"moment2.{name}"] = zeros_like(tensor.data)

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        correction1 = 1 - self.beta1**step
        correction2 = math.sqrt(1 - self.beta2**step)
        for (name, tensor), gradient in zip(self.parameters.items(), gradients, strict=True):
            xp, number = namespace_of(tensor.data), tensor.data.dtype.type
            moment1, moment2 = self.state[f"moment1.{name}"], self.state[f"moment2.{name}"]
            if xp.__name__ == "cupy":
                scalars = (self.beta1, self.beta2, self.epsilon, learning_rate / correction1)
                _adam_kernel()(gradient, *scalars, 1 / correction2, tensor.data, moment1, moment2)
                continue
            moment1 *= number(self.beta1)
            moment1 += number(1 - self.beta1) * gradient
            moment2 *= number(self.beta2)
            moment2 += number(1 - self.beta2) * gradient * gradient
            scale = xp.sqrt(moment2)
            scale *= number(1 / correction2)
            scale += number(self.epsilon)
            tensor.data -= number(learning_rate / correction1) * moment1 / scale


@cache
def _adam_kernel() -> Any:
    """Return Adam's update as one GPU kernel, which would otherwise be 13 launches."""
    import cupy

    return cupy.ElementwiseKernel(
        "T gradient, float64 beta1, float64 beta2, float64 epsilon, float64 rate, float64 scale",
        "T value, T moment1, T moment2",
        """
        moment1 = T(beta1) * moment1 + T(1 - beta1) * gradient;
        moment2 = T(beta2) * moment2 + T(1 - beta2) * gradient * gradient;
        value -= T(rate) * moment1 / (sqrt(moment2) * T(scale) + T(epsilon));
        """,
        "neuralfield_adam",
    )


class Muon:
    """Orthogonalised momentum for hidden matrices, Adam for the rest (Jordan et al. 2024, "Muon: an
    optimizer for hidden layers in neural networks").

    m = 0.95 m + 0.05 g; w -= learning_rate * 0.2 sqrt(max(rows, columns)) * O(0.95 m + 0.05 g),
    where O(x) approximates the orthogonal matrix nearest to x. With the factor, the root mean
    square of a step is that of Adam (Liu et al. 2025, "Muon is scalable for LLM training"), so that
    the same learning rate suits both. `hidden_matrices` are names of parameters.
    """

    momentum = 0.95

    def __init__(
        self,
        parameters: Mapping[str, Tensor],
        hidden_matrices: frozenset[str],
        beta1: float,
        beta2: float,
        epsilon: float,
    ) -> None:
        self.parameters, self.hidden_matrices = parameters, hidden_matrices
        rest = {name: t for name, t in parameters.items() if name not in hidden_matrices}
        self.adam = Adam(rest, beta1, beta2, epsilon)
        self.state = self.adam.state  # shared, so that both use arrays that are replaced in it
        for name in sorted(hidden_matrices):
            data = parameters[name].data
            self.state[f"momentum.{name}"] = namespace_of(data).zeros_like(data)

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        named = dict(zip(self.parameters, gradients, strict=True))
        self.adam.update([named[name] for name in self.adam.parameters], learning_rate, step)
        for name in sorted(self.hidden_matrices):
            tensor, gradient = self.parameters[name], named[name]
            number = tensor.data.dtype.type
            kept, fresh = number(self.momentum), number(1 - self.momentum)
            momentum = self.state[f"momentum.{name}"]
            momentum *= kept
            momentum += fresh * gradient
            direction = orthogonalised(kept * momentum + fresh * gradient)
            length = 0.2 * math.sqrt(max(direction.shape))
            tensor.data -= number(learning_rate * length) * direction


def orthogonalised(matrix: Array) -> Array:
    """Approximate U V' of a matrix U S V' with five Newton-Schulz steps.

    The steps x -> a x + b (x x') x + c (x x')^2 x move every singular value of a matrix of norm 1
    to about [0.7, 1.2].
    """
    xp, number = namespace_of(matrix), matrix.dtype.type
    a, b, c = (number(factor) for factor in NEWTON_SCHULZ)
    is_tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if is_tall else matrix
    x = x / (xp.sqrt((x * x).sum()) + number(1e-20))
    for _ in range(NEWTON_SCHULZ_STEPS):
        square = x @ x.T
        x = a * x + (b * square + c * (square @ square)) @ x
    return x.T if is_tall else x


class ClippedGradients:
    """An optimizer with gradients clipped by their norm (Pascanu et al. 2013).

    `limit` is the maximum norm of all gradients together; if it is exceeded, all gradients are
    scaled by the same factor.
    """

    def __init__(self, optimizer: Optimizer, limit: float) -> None:
        self.optimizer, self.limit = optimizer, limit
        self.state = optimizer.state

    def update(self, gradients: Sequence[Array], learning_rate: float, step: int) -> None:
        xp = namespace_of(gradients[0])
        squares = [xp.square(gradient).sum(dtype="float64") for gradient in gradients]
        norm = xp.sqrt(sum(squares[1:], squares[0]))
        factor = self.limit / xp.maximum(norm, self.limit)  # 1 up to the limit
        shortened = [gradient * factor.astype(gradient.dtype) for gradient in gradients]
        self.optimizer.update(shortened, learning_rate, step)


def unclipped(optimizer: Optimizer) -> Optimizer:
    """Return the optimizer inside a `ClippedGradients`, or the optimizer itself."""
    return optimizer.optimizer if isinstance(optimizer, ClippedGradients) else optimizer


def state_keys(optimizer: Optimizer, names: Sequence[str]) -> list[list[str]]:
    """Return the names of an optimizer's state arrays for the named parameters.

    The first list has one array for every parameter, in order; the second list has the second array
    of each parameter that has two.
    """
    optimizer = unclipped(optimizer)
    if isinstance(optimizer, Muon):
        rest = [name for name in names if name not in optimizer.hidden_matrices]
        first = [f"moment1.{name}" if name in rest else f"momentum.{name}" for name in names]
        return [first, [f"moment2.{name}" for name in rest]]
    prefixes = ("moment1", "moment2") if isinstance(optimizer, Adam) else ("velocity",)
    return [[f"{p}.{name}" for name in names] for p in prefixes] if optimizer.state else []


def make_optimizer(
    name: str,
    parameters: Mapping[str, Tensor],
    *,
    hidden_matrices: frozenset[str] = frozenset(),
    momentum: float = 0.0,
    beta1: float = 0.9,
    beta2: float = 0.999,
    epsilon: float = 1e-8,
    gradient_clip_norm: float | None = None,
) -> Optimizer:
    """Create the optimizer of a name in `OPTIMIZERS`.

    `hidden_matrices` is for muon: names of the parameters that are matrices between hidden layers.
    `momentum` is for sgd; `beta1`, `beta2` and `epsilon` are for adam, and for the parameters that
    muon updates with adam. For `gradient_clip_norm` see `ClippedGradients`.
    """
    makers: dict[str, Callable[[], Optimizer]] = {
        "adam": lambda: Adam(parameters, beta1, beta2, epsilon),
        "muon": lambda: Muon(parameters, hidden_matrices, beta1, beta2, epsilon),
        "sgd": lambda: Sgd(parameters, momentum),
    }
    optimizer = makers[name]()
    return ClippedGradients(optimizer, gradient_clip_norm) if gradient_clip_norm else optimizer
