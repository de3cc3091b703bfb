"""What training makes small. Each loss is a mean over all values, fused with its derivative."""

from collections.abc import Callable
from functools import partial

from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of
from neuralfield.system.errors import ConfigError

Loss = Callable[[Tensor, Array, int], Tensor]
"""(values, target, count) -> the sum of the loss over all values, divided by `count`.

`count` is the number of values in the whole batch, of which `values` may be one block.
"""

LOSSES = ("mse", "binary_cross_entropy", "huber")
"""The names of losses of values; that of classes is `softmax_cross_entropy`."""

PROBABILITY_MARGIN = 1e-7
"""How near to 0 and 1 a probability may come before its logarithm is taken."""


def mean_squared_error(values: Tensor, target: Array, count: int) -> Tensor:
    """Mean of (value - target) ** 2."""
    difference = values.data - target
    return record(
        (difference * difference).sum() / count,
        (values,),
        lambda g: (difference * (2 / count * g).astype(difference.dtype),),
    )


def squared_error_of_means(estimates: Tensor, target: Array, count: int) -> Tensor:
    """Mean of (mean - target) ** 2, where each mean is known by two independent estimates.

    The product of their two errors has the square of the mean's error as its expectation. The
    square of one estimate's error would have its variance added, which is largest at an edge
    inside a pixel: networks would blur edges to make it small.

    Parameters
    ----------
    estimates : Tensor, shape (n, 2, channels)
    target : array, shape (n, channels)
    count : int
    """
    errors = estimates.data - target[:, None, :]
    return record(
        (errors[:, 0] * errors[:, 1]).sum() / count,
        (estimates,),
        lambda g: (errors[:, ::-1] * (g / count).astype(errors.dtype),),
    )


def binary_cross_entropy(values: Tensor, target: Array, count: int) -> Tensor:
    """Mean of -target * log(value) - (1 - target) * log(1 - value).

    Values are clipped to [1e-7, 1 - 1e-7] first, so the loss is always finite. The derivative is
    the one at the clipped value: a value that is certain and wrong is still pushed back.
    """
    xp = namespace_of(values.data)
    dtype = values.data.dtype.type
    clipped = xp.clip(values.data, dtype(PROBABILITY_MARGIN), dtype(1) - dtype(PROBABILITY_MARGIN))
    loss = -(target * xp.log(clipped) + (1 - target) * xp.log1p(-clipped)).sum() / count

    def backward(g: Array) -> tuple[Array]:
        slope = (clipped - target) / (clipped * (1 - clipped))
        return (slope * (g / count).astype(slope.dtype),)

    return record(loss, (values,), backward)


def huber(values: Tensor, target: Array, count: int, *, delta: float) -> Tensor:
    """Half the square of the difference up to `delta`, and linear beyond (Huber 1964)."""
    xp = namespace_of(values.data)
    difference = values.data - target
    size = xp.abs(difference)
    near = xp.minimum(size, difference.dtype.type(delta))
    return record(
        (near * (size - near / 2)).sum() / count,
        (values,),
        lambda g: (xp.clip(difference, -delta, delta) * (g / count).astype(difference.dtype),),
    )


def softmax_cross_entropy(logits: Tensor, labels: Array, count: int) -> Tensor:
    """Mean of -log(softmax(logits)[label]): of classes, where the other losses are of values.

    Logits of any size are fine: the largest of each sample is taken off first.

    Parameters
    ----------
    logits : Tensor, shape (n, classes)
    labels : array of int, shape (n,)
        In ``range(classes)``.
    count : int
        Samples of the whole batch.

    Returns
    -------
    Tensor of one number

    Raises
    ------
    ValueError
        The shapes do not belong together.
    """
    if len(logits.shape) != 2 or labels.shape != logits.shape[:1]:
        raise ValueError(
            f"softmax_cross_entropy: logits of shape {logits.shape} and labels of shape "
            f"{labels.shape}; expected (n, classes) and (n,)"
        )
    xp = namespace_of(logits.data)
    shifted = logits.data - logits.data.max(axis=1, keepdims=True)
    probabilities = xp.exp(shifted)
    total = probabilities.sum(axis=1, keepdims=True)
    probabilities /= total
    own = (xp.arange(len(labels)), labels)

    def backward(g: Array) -> tuple[Array]:
        slope = probabilities.copy()
        slope[own] -= 1
        slope *= (g / count).astype(slope.dtype)
        return (slope,)

    return record((xp.log(total[:, 0]) - shifted[own]).sum() / count, (logits,), backward)


def softmax(logits: Array) -> Array:
    """exp(logit) / sum of exp(logits), a probability for each class.

    Parameters
    ----------
    logits : array, shape (n, classes)
    """
    xp = namespace_of(logits)
    weights = xp.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def make_loss(name: str, huber_delta: float = 0.1) -> Loss:
    """The loss of that name.

    Parameters
    ----------
    name : {"mse", "binary_cross_entropy", "huber"}
    huber_delta : float
        Where `huber` turns from square to linear, in units of the picture's values.

    Raises
    ------
    ConfigError
        Unknown name.
    """
    losses: dict[str, Loss] = {
        "mse": mean_squared_error,
        "binary_cross_entropy": binary_cross_entropy,
        "huber": partial(huber, delta=huber_delta),
    }
    if name not in losses:
        raise ConfigError("training.loss", repr(name), f"one of {', '.join(losses)}")
    return losses[name]
