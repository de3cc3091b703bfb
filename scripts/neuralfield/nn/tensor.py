"""The tape: arrays with a record of the operations that made them, for automatic differentiation.

An operation (see `neuralfield.nn.ops`) makes a `Tensor` from others and keeps the function that
carries a gradient back to them. `gradients` goes through this record backwards. It stores nothing
on the tensors, so several threads may differentiate with respect to the same parameters.
"""

from collections.abc import Callable, Sequence

from neuralfield.system.device import Array, namespace_of

Backward = Callable[[Array], tuple[Array | None, ...]]


class Tensor:
    """An array on the tape, of NumPy or CuPy, in float32 or float64.

    It is `differentiable` where gradients can be computed: True for a parameter, False for data.
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
    """Make the result of an operation: its value and its operands.

    `backward` leads from the gradient of the value to one gradient (or None) for each operand. It
    is dropped, with the memory that it holds, where no operand is differentiable.
    """
    result = Tensor(data)
    if any(parent.differentiable for parent in parents):
        result.differentiable, result.parents, result.backward = True, parents, backward
    return result


def gradients(output: Tensor, leaves: Sequence[Tensor]) -> list[Array]:
    """Differentiate a scalar with respect to each leaf: arrays of their shapes, zeros where
    `output` does not depend on the leaf. Raises ValueError where `output` is not a single number.
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
    """List every tensor that `output` was made from, each after all that were made from it."""
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
