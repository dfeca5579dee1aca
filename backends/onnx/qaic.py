"""Lower a decoder to ONNX in the form that efficient-transformers exports for the compiler for Cloud AI 100.

Prompt and context have fixed lengths there, and caches stay on the device: new keys and values are scattered to the
places that `position_ids` names, and the whole cache is the next call's input. The conventions are those of
QEfficient/customop and QEfficient/transformers in https://github.com/quic/efficient-transformers.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from onnx import TensorProto, parser

from backends.decoder import Activation, Decoder, Layer, Lazy, Norms, Rope, Weight, Weights
from backends.forward import forward
from backends.onnx import stock
from backends.onnx.graph import Graph
from backends.onnx.lowering import value

LARGEST = 65504.0
"""The largest float16; the device computes in float16."""
INVALID = 2**31 - 1
"""The index that marks rows which the device need not read."""
CLOUD, NORMS = "com.qualcomm.cloud", "com.qti.aisw.onnx"
"""The domains of the compiler's functions."""
SCATTER = """
<domain: "com.qualcomm.cloud", opset_import: ["" : 17]>
CtxScatter (data, position_ids, updates) => (out) {
  sizes = Shape (data)
  first = Constant <value_ints = [0]> ()
  second = Constant <value_ints = [1]> ()
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  batch = Gather (sizes, first)
  heads = Gather (sizes, second)
  tokens = Shape (position_ids)
  count = Gather (tokens, second)
  shape = Concat <axis = 0> (batch, heads, count, second)
  rows_end = Squeeze (batch)
  rows = Range (zero, rows_end, one)
  row_axes = Constant <value_ints = [1, 2, 3]> ()
  row_column = Unsqueeze (rows, row_axes)
  row_index = Expand (row_column, shape)
  heads_end = Squeeze (heads)
  each = Range (zero, heads_end, one)
  head_axes = Constant <value_ints = [0, 2, 3]> ()
  head_column = Unsqueeze (each, head_axes)
  head_index = Expand (head_column, shape)
  place_axes = Constant <value_ints = [1, 3]> ()
  place_column = Unsqueeze (position_ids, place_axes)
  place_index = Expand (place_column, shape)
  index = Concat <axis = 3> (row_index, head_index, place_index)
  out = ScatterND (data, index, updates)
}
"""
SCATTER_3D = """
<domain: "com.qualcomm.cloud", opset_import: ["" : 17]>
CtxScatter3D (data, position_ids, updates) => (out) {
  first = Constant <value_ints = [0]> ()
  second = Constant <value_ints = [1]> ()
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  sizes = Shape (data)
  batch = Gather (sizes, first)
  tokens = Shape (position_ids)
  count = Gather (tokens, second)
  shape = Concat <axis = 0> (batch, count, second)
  rows_end = Squeeze (batch)
  rows = Range (zero, rows_end, one)
  row_axes = Constant <value_ints = [1, 2]> ()
  row_column = Unsqueeze (rows, row_axes)
  row_index = Expand (row_column, shape)
  place_axes = Constant <value_ints = [2]> ()
  place_column = Unsqueeze (position_ids, place_axes)
  place_index = Expand (place_column, shape)
  index = Concat <axis = 2> (row_index, place_index)
  out = ScatterND (data, index, updates)
}
"""
GATHER = """
<domain: "com.qualcomm.cloud", opset_import: ["" : 17]>
CtxGather (data, ctx_indices, comp_ctx_len) => (out) {
  start = Constant <value_ints = [0]> ()
  end = Constant <value_ints = [2]> ()
  alone = Constant <value_ints = [1]> ()
  last = Constant <value_ints = [-1]> ()
  sizes = Shape (data)
  rows_and_heads = Slice (sizes, start, end)
  length = Reshape (comp_ctx_len, alone)
  shape = Concat <axis = 0> (rows_and_heads, length)
  each = Expand (ctx_indices, shape)
  index = Unsqueeze (each, last)
  out = GatherND <batch_dims = 2> (data, index)
}
"""
GATHER_3D = """
<domain: "com.qualcomm.cloud", opset_import: ["" : 17]>
CtxGather3D (data, ctx_indices) => (out) {
  start = Constant <value_ints = [0]> ()
  end = Constant <value_ints = [2]> ()
  last = Constant <value_ints = [-1]> ()
  sizes = Shape (data)
  shape = Slice (sizes, start, end)
  each = Expand (ctx_indices, shape)
  index = Unsqueeze (each, last)
  out = GatherND <batch_dims = 1> (data, index)
}
"""
RMS_NORM = """
<domain: "com.qti.aisw.onnx", opset_import: ["" : 17]>
CustomRMSNorm <epsilon> (hidden_states, weight) => (out) {
  two = Constant <value_float = 2.0> ()
  least = Constant <value_float: float = @epsilon> ()
  squares = Pow (hidden_states, two)
  variance = ReduceMean <axes = [-1], keepdims = 1> (squares)
  sum = Add (variance, least)
  deviation = Sqrt (sum)
  factor = Reciprocal (deviation)
  even = Mul (hidden_states, factor)
  out = Mul (weight, even)
}
"""
FUNCTIONS = {
    "CtxScatter": SCATTER,
    "CtxScatter3D": SCATTER_3D,
    "CtxGather": GATHER,
    "CtxGather3D": GATHER_3D,
    "CustomRMSNorm": RMS_NORM,
}
"""The compiler's functions written in ONNX, so that other runtimes can compute them."""


class Ops(stock.Ops):
    """Operations as the compiler knows them: ONNX's own, in their old versions.

    With `flat` caches the only key-value head has no axis of its own, (B, S, head_dim).
    """

    tokens = "input_ids"

    def __init__(self, decoder: Decoder, graph: Graph, *, flat: bool):
        super().__init__(decoder, graph)
        self.flat = flat
        self.prepare()

    def prepare(self) -> None:
        """Append what all layers share: positions, masks, and which keys are not written yet."""
        zero, one, heads = self.graph.number(0), self.graph.number(1), self.numbers(1)
        axis = self.graph.number(1 if self.flat else 2)
        self.length = self.node("Gather", self.node("Shape", "past_key.0"), axis)
        padding = self.node("Less", "position_ids", zero)  # position -1 is padding
        self.positions = self.node("Where", padding, zero, "position_ids")
        keys = self.node("Range", zero, self.length, one)
        keys = self.node("Unsqueeze", keys, self.numbers(0, 1))  # (1, 1, S)
        queries = self.node("Unsqueeze", "position_ids", self.numbers(2))  # (B, T, 1)
        self.unseen = {0: self.node("Unsqueeze", self.node("Greater", keys, queries), heads)}  # (B, 1, T, S)
        for window in sorted({layer.window for layer in self.decoder.layers} - {0}):
            first = self.node("Sub", queries, self.graph.number(window - 1))
            past = self.node("Unsqueeze", self.node("Less", keys, first), heads)
            self.unseen[window] = self.node("Or", self.unseen[0], past)
        newest = self.node("ReduceMax", "position_ids", axes=[1], keepdims=1)
        newest = newest if self.flat else self.node("Unsqueeze", newest, heads)
        if self.flat:
            keys = self.node("Squeeze", keys, heads)
        self.unwritten = self.node("Greater", keys, newest)  # (B, 1, S), or (B, S) where flat
        self.places = self.node("Where", self.unwritten, self.constant("invalid_index", np.array(INVALID)), keys)
        self.unwritten = self.node("Unsqueeze", self.unwritten, self.numbers(-1))

    def norm(self, x: str, weight: Weight) -> str:
        if self.decoder.norm == "layer":
            return super().norm(x, weight)
        return self.node("CustomRMSNorm", x, *self.norm_inputs(weight), domain=NORMS, epsilon=self.decoder.epsilon)

    def attention(self, qkv: str, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> str:
        assert sinks is None  # models with sinks have experts, which are refused
        layer = self.decoder.layers[i]
        q, k, v = self.make_heads(qkv, i, norms)
        heads = self.numbers(1)
        if self.flat:
            k, v = self.node("Squeeze", k, heads), self.node("Squeeze", v, heads)
        k, v = self.kept("key", k, i), self.kept("value", v, i)
        v = self.node("Where", self.unwritten, self.graph.scalar(0.0), v)
        if self.flat:
            k, v = self.node("Unsqueeze", k, heads), self.node("Unsqueeze", v, heads)
        k, v = self.repeated(k, layer), self.repeated(v, layer)

        scores = self.node("MatMul", self.scale(q, layer.scale), self.node("Transpose", k, perm=[0, 1, 3, 2]))
        scores = self.softcap(scores, layer.softcap) if layer.softcap else scores
        unseen = self.unseen[layer.window]
        shares = self.node("Softmax", self.node("Where", unseen, self.graph.scalar(-LARGEST), scores), axis=-1)
        return self.joined(self.node("MatMul", shares, v))

    def cos_and_sin(self, rope: Rope) -> list[str]:
        angles = np.outer(np.arange(self.decoder.context_length), rope.inverse_frequencies)
        tables = [
            self.constant(f"{name}_{hash(rope)}", np.tile(part * rope.amplitudes, 2))
            for name, part in (("cos", np.cos(angles)), ("sin", np.sin(angles)))
        ]
        return [self.node("Unsqueeze", self.node("Gather", x, self.positions), self.numbers(1)) for x in tables]

    def halves(self, x: str) -> list[str]:
        outputs = [f"{half}_{self.graph.made}" for half in ("first", "second")]
        return self.graph.node_with("Split", [x], outputs, axis=-1)

    def kept(self, kind: str, x: str, i: int) -> str:
        """Write to a layer's cache, and read all of it."""
        dimensions, past = "3D" if self.flat else "", f"past_{kind}.{i}"
        state = f"{past}_RetainedState"
        self.graph.node_with("CtxScatter" + dimensions, [past, "position_ids", x], [state], CLOUD)
        length = () if self.flat else (self.length,)
        return self.node("CtxGather" + dimensions, state, self.places, *length, domain=CLOUD)

    def repeated(self, x: str, layer: Layer) -> str:
        return x if layer.kv_heads == 1 else super().repeated(x, layer)  # a single head is broadcast

    def activate(self, x: str, kind: Activation) -> str:
        if kind not in ("gelu", "gelu_tanh"):
            return super().activate(x, kind)
        if kind == "gelu":
            bent = self.node("Erf", self.scale(x, 0.5**0.5))
        else:  # so that x**3 stays in the range of float16
            root = (2 / np.pi) ** 0.5
            slope = self.node("Add", self.scale(self.node("Mul", x, x), 0.044715 * root), self.graph.scalar(root))
            bent = self.node("Tanh", self.node("Mul", x, slope))
        return self.node("Mul", self.scale(x, 0.5), self.node("Add", bent, self.graph.scalar(1.0)))

    def last(self, x: str) -> str:
        """The newest token of each row: that with the largest position."""
        if not hasattr(self, "newest"):
            least = self.node("Cast", "position_ids", to=TensorProto.INT32)
            index = self.node("ArgMax", least, axis=1, keepdims=1)
            self.newest = self.node("Unsqueeze", index, self.numbers(-1))
        return self.node("GatherND", x, self.newest, batch_dims=1)


class InRange(Lazy):
    """Weights clamped to the range of float16."""

    def __init__(self, weights: Weights):
        self.table = self.weights = weights

    def __getitem__(self, name: str) -> Weight:
        weight = self.weights[name]
        assert isinstance(weight.values, np.ndarray)  # the compiler rounds, not we
        bias = None if weight.bias is None else np.clip(weight.bias, -LARGEST, LARGEST)
        return Weight(weight.name, np.clip(np.asarray(weight.values, np.float32), -LARGEST, LARGEST), bias)


def lower(decoder: Decoder, weights: Weights, folder: Path, *, flat: bool) -> None:
    """Write model.onnx and model.data to `folder`, for a context of `decoder.context_length`.

    Inputs: `input_ids` and `position_ids` (batch_size, seq_len), and the caches `past_key.i` and `past_value.i`
    (batch_size, kv_heads, ctx_len, head_dim), without the second axis if `flat`. Outputs: `logits` (batch_size, 1,
    vocab) of the newest token, and the caches as `..._RetainedState`.
    """
    functions = [parser.parse_function(text) for text in FUNCTIONS.values()]
    with Graph(folder, opset=17, functions=functions) as graph:
        logits = forward(decoder, InRange(weights), Ops(decoder, graph, flat=flat))
        graph.node_with("Identity", [logits], ["logits"])
        used = {node.op_type for node in graph.nodes}
        graph.functions = [one for one in functions if one.name in used]
        for node in graph.nodes:
            node.name = node.output[0]
        inputs = [value(name, TensorProto.INT64, "batch_size", "seq_len") for name in ("input_ids", "position_ids")]
        outputs = [value("logits", TensorProto.FLOAT, "batch_size", 1, decoder.vocab_size)]
        for name, shape in caches(decoder, flat=flat).items():
            inputs.append(value(name, TensorProto.FLOAT, *shape))
            outputs.append(value(name + "_RetainedState", TensorProto.FLOAT, *shape))
        graph.save("model", inputs, outputs)


def caches(decoder: Decoder, *, flat: bool) -> dict[str, Sequence[str | int]]:
    """The shapes of the caches by name."""
    return {
        f"past_{kind}.{i}": ("batch_size", *([] if flat else [layer.kv_heads]), "ctx_len", layer.head_dim)
        for i, layer in enumerate(decoder.layers)
        for kind in ("key", "value")
    }
