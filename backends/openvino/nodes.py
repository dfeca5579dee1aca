"""Nodes of OpenVINO's graphs, as lowering makes many of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import openvino
from openvino import PartialShape
from openvino import opset15 as op

Node = Any
"""A node or one of its outputs: the types of `openvino` say little."""


def parameter(name: str, kind: object, *shape: int) -> Node:
    """An input; a size of -1 varies."""
    return named(op.parameter(PartialShape(list(shape)), kind, name=name), name)


def named(node: Node, name: str) -> Node:
    """The same node, whose output has this name."""
    node.output(0).get_tensor().set_names({name})
    return node


def integers(*values: int) -> Node:
    return op.constant(np.array(values, np.int64))


def number(value: int) -> Node:
    """A whole number without axes."""
    return op.constant(np.int64(value))


def scalar(value: float) -> Node:
    return op.constant(np.float32(value))


def vector(values: np.ndarray | Sequence[float]) -> Node:
    return op.constant(np.asarray(values, np.float32))


def outputs(nodes: Sequence[Node]) -> list[Node]:
    """The outputs of nodes, where they are not such."""
    return [x.output(0) if isinstance(x, openvino.Node) else x for x in nodes]
