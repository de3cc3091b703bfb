"""Losses, each a mean over all values that is fused with its derivative."""

from collections.abc import Callable
from functools import partial

from neuralfield.nn.tensor import Tensor, record
from neuralfield.system.device import Array, namespace_of

Loss = Callable[[Tensor, Array, int], Tensor]
"""Function (values, target, count) -> the sum of the loss over all values, divided by `count`.

`count` is the number of values in the whole batch; `values` may be one block of it.
"""

LOSSES = ("mse", "binary_cross_entropy", "huber")
"""Names of the losses of values; the loss of classes is `softmax_cross_entropy`."""

PROBABILITY_MARGIN = 1e-7
"""Minimum distance from 0 and 1 to which probabilities are clipped before a logarithm is taken."""


def mean_squared_error(values: Tensor, target: Array, count: int) -> Tensor:
    """Compute the mean of (value - target) ** 2."""
    difference = values.data - target
    return record(
        (difference * difference).sum() / count,
        (values,),
        lambda g: (difference * (2 / count * g).astype(difference.dtype),),
    )


def squared_error_of_means(estimates: Tensor, target: Array, count: int) -> Tensor:
    """Compute the mean of (mean - target) ** 2 from two independent estimates of each mean.

    Estimates have shape (n, 2, channels), targets (n, channels). The expectation of the product of
    the two errors is the squared error of the mean. The square of a single error would also contain
    the variance of the estimate, which is largest at edges inside pixels, so that networks would
    blur edges to reduce it.
    """
    errors = estimates.data - target[:, None, :]
    return record(
        (errors[:, 0] * errors[:, 1]).sum() / count,
        (estimates,),
        lambda g: (errors[:, ::-1] * (g / count).astype(errors.dtype),),
    )


def binary_cross_entropy(values: Tensor, target: Array, count: int) -> Tensor:
    """Compute the mean of -target * log(value) - (1 - target) * log(1 - value).

    Values are first clipped to [1e-7, 1 - 1e-7], so that the loss is always finite. The derivative
    is that at the clipped value, so that it is not 0 if a clipped value is wrong.
    """
    xp = namespace_of(values.data)
    dtype = values.data.dtype.type
    clipped = xp.clip(values.data, dtype(PROBABILITY_MARGIN), dtype(1) - dtype(PROBABILITY_MARGIN))
    loss = -(target * xp.log(clipped) + (1 - target) * xp.log1p(-clipped)).sum() / count

    def backward(g: Array) -> tuple[Array]:
        gradient = (clipped - target) / (clipped * (1 - clipped))
        return (gradient * (g / count).astype(gradient.dtype),)

    return record(loss, (values,), backward)


def huber(values: Tensor, target: Array, count: int, *, delta: float) -> Tensor:
    """Compute the mean Huber loss (1964): half the squared difference, linear beyond `delta`."""
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
    """Compute the mean of -log(softmax(logits)[label]) over the `count` samples of the whole batch.

    Logits have the shape (n, classes), and labels (n,). The largest logit of each sample is
    subtracted first to avoid overflow.
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
        gradient = probabilities.copy()
        gradient[own] -= 1
        gradient *= (g / count).astype(gradient.dtype)
        return (gradient,)

    return record((xp.log(total[:, 0]) - shifted[own]).sum() / count, (logits,), backward)


def softmax(logits: Array) -> Array:
    """Compute probabilities of classes, exp(logit) / sum of exp(logits); shape (n, classes)."""
    xp = namespace_of(logits)
    weights = xp.exp(logits - logits.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def make_loss(name: str, huber_delta: float = 0.1) -> Loss:
    """Return the loss of a name in `LOSSES`.

    `huber_delta`, in units of the values, is the error at which ``huber`` changes from quadratic to
    linear.
    """
    losses: dict[str, Loss] = {
        "mse": mean_squared_error,
        "binary_cross_entropy": binary_cross_entropy,
        "huber": partial(huber, delta=huber_delta),
    }
    return losses[name]
