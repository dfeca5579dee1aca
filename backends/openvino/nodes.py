"""Short names for the nodes that lowering makes many of."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
from openvino import PartialShape
from openvino import opset15 as op

Node = Any
"""A node or one of its outputs; `openvino` has no useful types."""


def parameter(name: str, kind: object, *shape: int) -> Node:
    """An input; -1 is a size that varies."""
    return named(op.parameter(PartialShape(list(shape)), kind, name=name), name)


def named(node: Node, name: str) -> Node:
    """Name the node's output."""
    node.output(0).get_tensor().set_names({name})
    return node


def integers(*values: int) -> Node:
    return op.constant(np.array(values, np.int64))


def number(value: int) -> Node:
    """A whole number as a scalar."""
    return op.constant(np.int64(value))


def scalar(value: float) -> Node:
    return op.constant(np.float32(value))


def vector(values: np.ndarray | Sequence[float]) -> Node:
    return op.constant(np.asarray(values, np.float32))


def outputs(nodes: Sequence[Node]) -> list[Node]:
    """The outputs of nodes; outputs stay as they are."""
    return [x.output(0) if isinstance(x, openvino.Node) else x for x in nodes]
