"""Export of networks as ONNX graphs."""

import json
from collections.abc import Sequence
from functools import partial, partialmethod
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from neuralfield import __version__
from neuralfield.fields import CoordinateNetwork
from neuralfield.system.files import write_atomically
from neuralfield.tasks.image.image_model import Model

_OPSET = 18
"""Version of the operator set: the first with bitwise operations, which hash grids need."""

_IR_VERSION = 8
"""Version of the file format; not the newest, so that older runtimes can read the file."""

_ABOUT = (
    "An image as a function. xy: x to the right, y down, from the centre of the image, in units of"
    " half its longer side. values: in [0, 1], not clipped."
)


class Node:
    """A value of a graph; its operators add nodes to the graph."""

    __array_ufunc__ = None  # an array on the left leaves the operation to this class

    def __init__(self, graph: "Graph", name: str, *, is_whole: bool = False) -> None:
        self.graph, self.name, self.is_whole = graph, name, is_whole

    def _with(self, operation: str, other: Any, *, is_first: bool = True) -> "Node":
        if not isinstance(other, Node):
            dtype = np.int64 if self.is_whole else np.float32
            other = self.graph.constant(np.asarray(other, dtype), is_whole=self.is_whole)
        operands = (self, other) if is_first else (other, self)
        return self.graph.add(operation, *operands, is_whole=self.is_whole)

    __add__ = __radd__ = partialmethod(_with, "Add")
    __mul__ = __rmul__ = partialmethod(_with, "Mul")
    __sub__ = partialmethod(_with, "Sub")
    __rsub__ = partialmethod(_with, "Sub", is_first=False)
    __matmul__ = partialmethod(_with, "MatMul")
    __and__, __xor__ = partialmethod(_with, "BitwiseAnd"), partialmethod(_with, "BitwiseXor")


class Graph:
    """A graph under construction; implements `neuralfield.nn.arithmetic.Arithmetic`."""

    def __init__(self, arrays: dict[str, np.ndarray]) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._arrays = arrays
        self.sin, self.cos, self.exp = (partial(self.add, name) for name in ("Sin", "Cos", "Exp"))
        self.tanh, self.relu = partial(self.add, "Tanh"), partial(self.add, "Relu")
        self.absolute = partial(self.add, "Abs")

    def add(self, operation: str, *inputs: Node, is_whole: bool = False, **how: Any) -> Node:
        name = f"{operation.lower()}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operation, [x.name for x in inputs], [name], **how))
        return Node(self, name, is_whole=is_whole)

    def constant(self, array: np.ndarray, name: str = "", *, is_whole: bool = False) -> Node:
        name = name or f"constant_{len(self.initializers)}"
        self.initializers[name] = numpy_helper.from_array(np.ascontiguousarray(array), name)
        return Node(self, name, is_whole=is_whole)

    def parameter(self, name: str) -> Node:
        return self.constant(self._arrays[name], name)

    def cell(self, x: Node, first: list[int], last: list[int]) -> Node:
        lowest, highest = (self.constant(np.array(bound, np.float32)) for bound in (first, last))
        return self.add("Min", self.add("Max", self.add("Floor", x), lowest), highest)

    def whole(self, x: Node) -> Node:
        return self.add("Cast", x, is_whole=True, to=TensorProto.INT64)

    def rows(self, table: Node, index: Node) -> Node:
        flat = self.add("Squeeze", index, self._whole(1), is_whole=True)
        return self.add("Gather", table, flat, axis=0)

    def columns(self, x: Node, start: int, stop: int) -> Node:
        place = [self._whole(number) for number in (start, stop, 1)]
        return self.add("Slice", x, *place, is_whole=x.is_whole)

    def concatenate(self, parts: Sequence[Node], axis: int = 1) -> Node:
        return self.add("Concat", *parts, axis=axis)

    def _whole(self, number: int) -> Node:
        return self.constant(np.array([number], np.int64), is_whole=True)


def write_onnx(path: Path, network: CoordinateNetwork, model: Model) -> None:
    """Write a network in float32, with the settings of its model as metadata."""
    graph = Graph(network.arrays)
    values = network.formula(Node(graph, "xy"), graph)
    graph.nodes.append(helper.make_node("Identity", [values.name], ["values"]))
    sides = {"xy": ["n", 2], "values": ["n", model.channels]}
    ends = [helper.make_tensor_value_info(k, TensorProto.FLOAT, v) for k, v in sides.items()]
    made = helper.make_model(
        helper.make_graph(
            graph.nodes, "neuralfield", ends[:1], ends[1:], [*graph.initializers.values()]
        ),
        opset_imports=[helper.make_opsetid("", _OPSET)],
        ir_version=_IR_VERSION,
        producer_name="neuralfield",
        producer_version=__version__,
        doc_string=_ABOUT,
    )
    described = json.dumps(model.described(), sort_keys=True)
    helper.set_model_props(made, {"neuralfield": described})
    onnx.checker.check_model(made)
    write_atomically(path, made.SerializeToString(deterministic=True))
