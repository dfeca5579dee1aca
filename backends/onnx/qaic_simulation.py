"""Simulate an export for Cloud AI 100 with ONNX Runtime: its shapes, its chunks, its rounding."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper, shape_inference

from backends import BackendError
from backends.errors import foreign
from backends.microscaling import one_level
from backends.onnx.graph import Graph
from backends.onnx.session import open_runtime
from backends.quantize import PRECISIONS, dequantize, rounded

STATE = "_RetainedState"
Rounding = Callable[[np.ndarray], np.ndarray]


def verify(graph: Path, specializations: Sequence[Mapping[str, int]]) -> None:
    """Check a graph with ONNX's own checker, and its shapes for each size that it is compiled for."""
    try:
        onnx.checker.check_model(graph, full_check=True)
        for sizes in specializations:
            model = onnx.load(graph, load_external_data=False)
            for one in [*model.graph.input, *model.graph.output]:
                for dimension in one.type.tensor_type.shape.dim:
                    if dimension.dim_param:
                        dimension.dim_value = sizes[dimension.dim_param]
            shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except KeyError as error:
        raise BackendError(f"no specialization of {graph} gives a size to {error}") from error
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        raise BackendError(f"{graph} is not valid ONNX: {error}") from error


def half(values: np.ndarray) -> np.ndarray:
    """Round to float16."""
    with np.errstate(over="ignore"):
        return values.astype(np.float16).astype(np.float32)


def mxfp6(matrix: np.ndarray) -> np.ndarray:
    """Round a matrix (in, out) to MXFP6, each column in blocks of 32, then to float16."""
    return half(dequantize(rounded(np.ascontiguousarray(matrix.T), PRECISIONS["mxfp6-e2m3"])).T)


def mxint8(cache: np.ndarray) -> np.ndarray:
    """Round a cache to MXINT8, each head in blocks of at most 32."""
    block = next(size for size in (32, 16, 8, 4, 2, 1) if not cache.shape[-1] % size)
    blocks, units = one_level(cache.reshape(*cache.shape[:-1], -1, block), top=127, mantissa=6)
    return np.asarray((blocks * units[..., None]).reshape(cache.shape), np.float32)


def simulate(folder: Path, target: Path, *, halves: bool, matrices: Rounding = half) -> None:
    """Write the export in `folder` to `target`, changed so that ONNX Runtime can run it.

    With `halves`, every operation's result is rounded to float16, and matrices as `matrices` says. The index of rows
    that the device does not read becomes a valid one.
    """
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    multiplied = {node.input[1] for node in model.graph.node if node.op_type == "MatMul"}
    inferred, number = shape_inference.infer_shapes(model).graph.value_info, TensorProto.FLOAT
    floats = {one.name for one in inferred if one.type.tensor_type.elem_type == number}
    floats |= {one.name for one in model.graph.output}
    with Graph(target, opset=17, functions=model.functions) as graph:
        for tensor in model.graph.initializer:
            values = numpy_helper.to_array(tensor, base_dir=str(folder))
            if tensor.name == "invalid_index":
                values = np.array(0)
            elif halves and tensor.data_type == TensorProto.FLOAT:
                values = matrices(values) if tensor.name in multiplied else half(values)
            graph.constant(tensor.name, values)
        for node in model.graph.node:
            whole = [name for name in node.output if halves and name in floats]
            node.output[:] = [name + ".whole" if name in whole else name for name in node.output]
            graph.nodes.append(node)
            for name in whole:
                cut = helper.make_node("Cast", [name + ".whole"], [name + ".half"], to=TensorProto.FLOAT16)
                graph.nodes += [cut, helper.make_node("Cast", [name + ".half"], [name], to=TensorProto.FLOAT)]
        graph.save("model", list(model.graph.input), list(model.graph.output))


class Device:
    """The host's side of the device: reads a prompt in chunks, keeps the caches, and appends tokens."""

    def __init__(self, folder: Path, prompt_length: int, context_length: int, state: Rounding | None = None):
        """`state` rounds the caches between two calls."""
        self.runtime = open_runtime(folder / "model.onnx", {}, optimised=False)
        self.prompt_length, self.context_length, self.state = prompt_length, context_length, state
        self.cache: dict[str, np.ndarray] = {}
        self.clear()

    def clear(self) -> None:
        """Empty the caches."""
        self.length = 0
        for one in self.runtime.get_inputs():
            if one.name.startswith("past_"):
                sizes = {"batch_size": 1, "ctx_len": self.context_length}
                self.cache[one.name] = np.zeros([sizes.get(size, size) for size in one.shape], np.float32)

    def read(self, tokens: np.ndarray) -> np.ndarray:
        """Read a prompt (count,) in chunks, the last one padded, and return the next token's logits (vocab,)."""
        self.clear()
        logits = np.zeros(0)
        for start in range(0, len(tokens), self.prompt_length):
            logits = self.call(tokens[start : start + self.prompt_length], self.prompt_length)
        return logits

    def append(self, token: int) -> np.ndarray:
        """Read one more token and return the next one's logits (vocab,)."""
        return self.call(np.array([token]), 1)

    def call(self, tokens: np.ndarray, shape: int) -> np.ndarray:
        """Run the program for `shape` tokens on `tokens`, padded."""
        ids, places = np.zeros((1, shape), np.int64), np.full((1, shape), -1)
        ids[0, : len(tokens)] = tokens
        places[0, : len(tokens)] = np.arange(self.length, self.length + len(tokens))
        feeds = {"input_ids": ids, "position_ids": places, **self.cache}
        names = [one.name for one in self.runtime.get_outputs()]
        with foreign("ONNX Runtime failed"):
            found = dict(zip(names, self.runtime.run(names, feeds), strict=True))
        for name in self.cache:
            state = np.asarray(found[name + STATE])
            self.cache[name] = self.state(state) if self.state else state
        self.length += len(tokens)
        return np.asarray(found["logits"][0, 0], np.float32)
