"""Build ONNX graphs: nodes, and constants written to the data file as they come."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import numpy as np
import onnx
from onnx import TensorProto, helper

FUSED = "com.microsoft"
"""The domain of ONNX Runtime's own operations."""
TYPES = {
    np.dtype(np.float32): TensorProto.FLOAT,
    np.dtype(np.int64): TensorProto.INT64,
    np.dtype(np.int32): TensorProto.INT32,
    np.dtype(np.int8): TensorProto.INT8,
    np.dtype(np.uint8): TensorProto.UINT8,
}
Attribute = Any
"""Numbers, strings or lists of them; the types of `onnx` are no narrower."""
Built = TypeVar("Built")
IR_VERSIONS = {17: 8, 21: 10, 24: 11}
"""IR versions of files, by opset."""
PAGE = 4096
SMALL = 1024
"""Constants of up to this many bytes are stored in the graph, where shape inference can read them."""


class Graph:
    """Nodes and constants, each constant once; a context manager that closes the data file.

    Several graphs can be saved one after the other; they share the constants.
    """

    def __init__(self, folder: Path, *, opset: int = 24, functions: Sequence[onnx.FunctionProto] = ()):
        self.folder, self.opset, self.functions = folder, opset, functions
        self.nodes: list[onnx.NodeProto] = []
        self.made = 0
        """Nodes made so far, in all graphs and branches; used to name their outputs."""
        self.constants: dict[str, onnx.TensorProto] = {}
        self.shared: dict[Hashable, Any] = {}
        self.data = (folder / "model.data").open("wb")

    def __enter__(self) -> "Graph":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.data.close()

    def node(self, kind: str, *inputs: str, domain: str = "", **attributes: Attribute) -> str:
        """Append a node with one output and return the output's name."""
        return self.node_with(kind, inputs, [f"{kind}_{self.made}"], domain, **attributes)[0]

    def node_with(
        self,
        kind: str,
        inputs: tuple[str, ...] | list[str],
        outputs: list[str],
        domain: str = "",
        **attributes: Attribute,
    ) -> list[str]:
        """Append a node with the given outputs; "" stands for an input or output that is left out."""
        while inputs and not inputs[-1]:
            inputs = inputs[:-1]
        self.nodes.append(helper.make_node(kind, inputs, outputs, None, None, domain, **attributes))
        self.made += 1
        return outputs

    def once(self, key: Hashable, build: Callable[[], Built]) -> Built:
        """Build what several layers share once, and return it."""
        if key not in self.shared:
            self.shared[key] = build()
        found: Built = self.shared[key]
        return found

    def choose(
        self, condition: str, then: Callable[[], list[str]], otherwise: Callable[[], list[str]], outputs: list[str]
    ) -> list[str]:
        """Append an If with the given outputs; each branch appends its nodes and returns as many names."""
        branches = {}
        for name, branch in ("then_branch", then), ("else_branch", otherwise):
            outer, self.nodes = self.nodes, []
            results = [onnx.ValueInfoProto(name=result) for result in branch()]
            branches[name] = helper.make_graph(self.nodes, f"{name}_{self.made}", [], results)
            self.nodes = outer
        return self.node_with("If", [condition], outputs, **branches)

    def scan(self, state: str, parts: Sequence[str], step: Callable[..., tuple[str, str]], outputs: list[str]) -> None:
        """Append a Scan over the tokens of `parts` (B, T, ...).

        `step` takes the state and one token of each part, appends nodes, and returns the next state and what it emits;
        the two `outputs` are the last state, and what all steps emitted.
        """
        outer, self.nodes = self.nodes, []
        inputs = [f"{name}_{self.made}" for name in ("state", *parts)]
        told = step(*inputs)
        read, made = (
            [helper.make_tensor_value_info(one, TensorProto.FLOAT, None) for one in each] for each in (inputs, told)
        )
        body = helper.make_graph(self.nodes, f"scan_{self.made}", read, made)
        self.nodes = outer
        how: dict[str, Attribute] = dict(num_scan_inputs=len(parts), scan_input_axes=[1] * len(parts))
        self.node_with("Scan", [state, *parts], outputs, body=body, scan_output_axes=[1], **how)

    def constant(self, name: str, values: np.ndarray) -> str:
        """Add a constant once; floating-point values become float32."""
        if name in self.constants:
            return name
        values = np.asarray(values, values.dtype if values.dtype in TYPES else np.float32, order="C")
        tensor = TensorProto(name=name, data_type=TYPES[values.dtype], dims=values.shape)
        if values.nbytes <= SMALL:
            tensor.raw_data = values.tobytes()
        else:
            offset = self.data.seek(-(-self.data.tell() // PAGE) * PAGE)  # page-aligned, so that it can be mapped
            self.data.write(values.data)
            placed(tensor, offset, values.nbytes)
        self.constants[name] = tensor
        return name

    def numbers(self, *values: int) -> str:
        """Add a vector of whole numbers."""
        return self.constant("numbers_" + "_".join(map(str, values)), np.array(values, np.int64))

    def number(self, value: int) -> str:
        """Add a whole number as a scalar."""
        return self.constant(f"number_{value}", np.array(value, np.int64))

    def scalar(self, value: float) -> str:
        """Add a float as a scalar."""
        return self.constant(f"scalar_{value}", np.array(value, np.float32))

    def split_heads(self, x: str, size: int) -> str:
        """Append a reshape from (B, T, heads size) to (B, T, heads, size)."""
        return self.node("Reshape", x, self.numbers(0, 0, -1, size))

    def join_heads(self, x: str) -> str:
        """Append the reverse of `split_heads`."""
        return self.node("Reshape", x, self.numbers(0, 0, -1))

    def stack(self, name: str, parts: Iterable[np.ndarray], count: int) -> str:
        """Add a constant that stacks `count` parts of one shape, one of them in memory at a time."""
        each = (np.asarray(part, part.dtype if part.dtype in TYPES else np.float32, order="C") for part in parts)
        first = next(each)
        if first.nbytes * count <= SMALL:
            return self.constant(name, np.stack([first, *each]))
        offset = self.data.seek(-(-self.data.tell() // PAGE) * PAGE)
        for part in chain([first], each):
            assert part.shape == first.shape
            self.data.write(part.data)
        tensor = TensorProto(name=name, data_type=TYPES[first.dtype], dims=(count, *first.shape))
        self.constants[name] = placed(tensor, offset, first.nbytes * count)
        return name

    def view(self, name: str, alias: str, shape: tuple[int, ...]) -> str:
        """Add the constant `name` under another name and shape, sharing its bytes, which a Reshape would copy."""
        tensor = TensorProto()
        tensor.CopyFrom(self.constants[name])
        tensor.name, tensor.dims[:] = alias, shape
        self.constants[alias] = tensor
        return alias

    def save(
        self,
        name: str,
        inputs: list[onnx.ValueInfoProto],
        outputs: list[onnx.ValueInfoProto],
        facts: dict[str, str] | None = None,
    ) -> None:
        """Write the nodes to NAME.onnx, with `facts` as metadata, and begin another graph."""
        used = read_by(self.nodes)
        constants = [tensor for alias, tensor in self.constants.items() if alias in used]
        body = helper.make_graph(self.nodes, name, inputs, outputs, constants)
        domains = {node.domain for node in self.nodes} | {""}
        model = helper.make_model(
            body,
            opset_imports=[helper.make_opsetid(one, 1 if one else self.opset) for one in sorted(domains)],
            functions=self.functions,
            ir_version=IR_VERSIONS[self.opset],
            producer_name="chatapp",
        )
        helper.set_model_props(model, facts or {})
        self.data.flush()
        onnx.save(model, self.folder / f"{name}.onnx")
        self.nodes, self.shared = [], {}


def placed(tensor: onnx.TensorProto, offset: int, length: int) -> onnx.TensorProto:
    """Make a constant refer to its bytes in the data file."""
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in ("location", "model.data"), ("offset", offset), ("length", length):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def read_by(nodes: Iterable[onnx.NodeProto]) -> set[str]:
    """The names that the nodes, and those in their branches, read."""
    inside = (read_by(attribute.g.node) for node in nodes for attribute in node.attribute if attribute.HasField("g"))
    return {name for node in nodes for name in node.input}.union(*inside)
