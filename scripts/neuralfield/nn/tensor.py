"""The tape: arrays that record the operations which computed them, for automatic differentiation.

An operation (see `neuralfield.nn.ops`) computes a `Tensor` from others, and stores the function
that propagates a gradient back to them. `gradients` traverses these records in reverse order. It
does not store anything in the tensors, so that several threads may differentiate with respect to
the same parameters.
"""

from collections.abc import Callable, Sequence

from neuralfield.system.device import Array, namespace_of

Backward = Callable[[Array], tuple[Array | None, ...]]


class Tensor:
    """An array on the tape, of NumPy or CuPy, in float32 or float64.

    `differentiable` is whether gradients can be computed: True for a parameter, False for data.
    """

    __slots__ = ("backward", "data", "differentiable", "parents")

    def __init__(self, data: Array, differentiable: bool = False) -> None:
        self.data = data
        self.differentiable = differentiable
        self.parents: tuple[Tensor, ...] = ()
        self.backward: Backward | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        return self.data.shape

    def __repr__(self) -> str:
        return f"Tensor(shape={self.shape}, dtype={self.data.dtype})"


def record(data: Array, parents: tuple[Tensor, ...], backward: Backward) -> Tensor:
    """Create the tensor of an operation's result from its value and its operands.

    `backward` computes, from the gradient of the value, one gradient (or None) for each operand. If
    no operand is differentiable, it is discarded, so that its memory is released.
    """
    result = Tensor(data)
    if any(parent.differentiable for parent in parents):
        result.differentiable, result.parents, result.backward = True, parents, backward
    return result


def gradients(output: Tensor, leaves: Sequence[Tensor]) -> list[Array]:
    """Compute the gradients of a scalar with respect to each leaf.

    A gradient has the shape of its leaf, and is zero if `output` does not depend on the leaf.
    Raises ValueError if `output` is not a single number.
    """
    if output.data.size != 1:
        raise ValueError(f"gradients: output of shape {output.shape}; expected a single number")
    xp = namespace_of(output.data)
    pending: dict[int, Array] = {id(output): xp.ones_like(output.data)}
    kept = {id(leaf) for leaf in leaves}
    for node in _latest_first(output):
        gradient = pending.get(id(node)) if id(node) in kept else pending.pop(id(node), None)
        if node.backward is None or gradient is None:
            continue
        for parent, part in zip(node.parents, node.backward(gradient), strict=True):
            if part is None or not parent.differentiable:
                continue
            held = pending.get(id(parent))
            pending[id(parent)] = part if held is None else held + part
    found = (pending.get(id(leaf)) for leaf in leaves)
    return [
        xp.zeros_like(leaf.data) if gradient is None else gradient
        for leaf, gradient in zip(leaves, found, strict=True)
    ]


def _latest_first(output: Tensor) -> list[Tensor]:
    """Return `output` and all tensors that it depends on, each after all that depend on it."""
    order: list[Tensor] = []
    seen: set[int] = set()
    stack: list[tuple[Tensor, bool]] = [(output, False)]
    while stack:
        node, parents_are_done = stack.pop()
        if parents_are_done:
            order.append(node)
        elif id(node) not in seen:
            seen.add(id(node))
            stack.append((node, True))
            stack.extend((parent, False) for parent in node.parents)
    return order[::-1]
