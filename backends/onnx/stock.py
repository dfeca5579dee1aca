"""Lower a decoder to ONNX's own operations, with caches as inputs and outputs, for runtimes of any age.

Only rounded matrices use operations of ONNX Runtime: ONNX has none that multiply by them.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto

from backends.decoder import Activation, Decoder, Layer, Norms, Rope, Weight, Weights
from backends.forward import AttentionOnly, forward
from backends.onnx import lowering
from backends.onnx.graph import Graph
from backends.onnx.lowering import value
from backends.quantize import PRECISIONS, Rounded

OPSET = 21
"""The opset: what ONNX Runtime 1.19 has, which is in Triton's release 24.10."""
UNSEEN = -65504.0
"""Added to the score of a hidden key: the lowest float16."""


class Ops(AttentionOnly[str], lowering.Ops):
    """Operations on rows with positions and masks of their own."""

    tokens, positions = "input_ids", "position_ids"

    def norm(self, x: str, weight: Weight) -> str:
        if self.decoder.norm == "layer":
            return super().norm(x, weight)
        scale, *bias = self.norm_inputs(weight)
        mean = self.node("ReduceMean", self.node("Mul", x, x), self.numbers(-1), keepdims=1)
        root = self.node("Sqrt", self.node("Add", mean, self.graph.scalar(self.decoder.epsilon)))
        y = self.node("Mul", self.node("Div", x, root), scale)
        return self.node("Add", y, *bias) if bias else y

    def add_norm(self, x: str, y: str, weight: Weight) -> tuple[str, str]:
        total = self.add(x, y)
        return self.norm(total, weight), total

    def attention(self, qkv: str, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> str:
        assert sinks is None  # models with sinks have experts, which are refused
        layer = self.decoder.layers[i]
        q, *new = self.make_heads(qkv, i, norms)
        kinds = ("key", "value")
        if new:
            k, v = (self.cached(x, i, kind) for x, kind in zip(new, kinds, strict=True))
        else:
            k, v = (f"present.{layer.kv_layer}.{kind}" for kind in kinds)
        k, v = self.repeated(k, layer), self.repeated(v, layer)
        scores = self.scale(self.node("MatMul", q, self.node("Transpose", k, perm=[0, 1, 3, 2])), layer.scale)
        scores = self.softcap(scores, layer.softcap) if layer.softcap else scores
        mask = self.graph.once((layer.window, layer.alibi), lambda: self.mask(layer))
        shares = self.node("Softmax", self.node("Add", scores, mask), axis=-1)
        return self.joined(self.node("MatMul", shares, v))

    def make_heads(self, qkv: str, i: int, norms: Norms) -> list[str]:
        """Queries, and keys and values if the layer has its own, normalised and rotated: (B, heads, T, head_dim)."""
        layer, parts = self.decoder.layers[i], [qkv]
        if layer.kv_layer is None:
            sizes = self.numbers(*(heads * layer.head_dim for heads in (layer.heads, layer.kv_heads, layer.kv_heads)))
            parts = self.graph.node_with("Split", [qkv, sizes], [f"{x}_{i}" for x in "qkv"], axis=-1)
        if layer.qk_norm == "heads":
            parts = self.normalise(parts, norms)
        parts = [self.node("Transpose", self.graph.split_heads(x, layer.head_dim), perm=[0, 2, 1, 3]) for x in parts]
        if layer.qk_norm == "head":
            parts = self.normalise(parts, norms)
        if layer.rope:
            parts[:2] = [self.rotate(x, layer.rope) for x in parts[:2]]
        return self.normalise(parts, norms) if layer.qk_norm == "turned" else parts

    def joined(self, heads: str) -> str:
        """Join heads, (B, heads, T, head_dim) to (B, T, heads head_dim)."""
        return self.graph.join_heads(self.node("Transpose", heads, perm=[0, 2, 1, 3]))

    def normalise(self, parts: list[str], norms: Norms) -> list[str]:
        """Normalise queries, keys and values, each by its norm; those without one stay as they are."""
        return [*map(self.norm, parts, norms), *parts[len(norms) :]]

    def cached(self, x: str, i: int, kind: str) -> str:
        """Append x to the cache, and return all of it."""
        inputs, outputs = [f"past_key_values.{i}.{kind}", x], [f"present.{i}.{kind}"]
        return self.graph.node_with("Concat", inputs, outputs, axis=2)[0]

    def repeated(self, x: str, layer: Layer) -> str:
        """Repeat each key-value head for its group of queries."""
        times = layer.heads // layer.kv_heads
        if times == 1:
            return x
        spread = self.node("Expand", self.node("Unsqueeze", x, self.numbers(2)), self.numbers(1, 1, times, 1, 1))
        return self.node("Reshape", spread, self.numbers(0, layer.heads, -1, layer.head_dim))

    def rotate(self, x: str, rope: Rope) -> str:
        cos, sin = self.graph.once(rope, lambda: self.cos_and_sin(rope))
        first, second = self.halves(x)
        turned = self.node("Concat", self.node("Neg", second), first, axis=-1)
        return self.node("Add", self.node("Mul", x, cos), self.node("Mul", turned, sin))

    def cos_and_sin(self, rope: Rope) -> list[str]:
        """Cosines and sines, (B, 1, T, head_dim) each."""
        places = self.node("Unsqueeze", self.node("Cast", self.positions, to=TensorProto.FLOAT), self.numbers(1, 3))
        frequencies = self.constant(f"frequencies_{hash(rope)}", np.tile(rope.inverse_frequencies, 2))
        angle = self.node("Mul", places, frequencies)
        amplitudes = self.constant(f"amplitudes_{hash(rope)}", np.tile(rope.amplitudes, 2)[None, None, None])
        return [self.node("Mul", self.node(kind, angle), amplitudes) for kind in ("Cos", "Sin")]

    def mask(self, layer: Layer) -> str:
        """The mask added to the scores, (B, 1 or heads, T, S)."""
        zero, one = self.graph.number(0), self.graph.number(1)
        count = self.node("Gather", self.node("Shape", self.tokens), one)
        total = self.node("Gather", self.node("Shape", "attention_mask"), one)
        keys = self.node("Range", zero, total, one)  # (S,)
        queries = self.node("Range", self.node("Sub", total, count), total, one)
        distance = self.node("Sub", keys, self.node("Unsqueeze", queries, self.numbers(1)))  # (T, S)
        visible = self.node("LessOrEqual", distance, zero)
        if layer.window:
            visible = self.node("And", visible, self.node("Greater", distance, self.graph.number(-layer.window)))
        given = self.node("Unsqueeze", self.node("Greater", "attention_mask", zero), self.numbers(1, 2))
        visible = self.node("And", given, visible)  # (B, 1, T, S)
        added = self.graph.scalar(0.0)
        if layer.alibi:
            slopes = self.constant(f"slopes_{hash(layer.alibi)}", np.array(layer.alibi)[None, :, None, None])
            added = self.node("Mul", self.node("Cast", distance, to=TensorProto.FLOAT), slopes)
        return self.node("Where", visible, added, self.graph.scalar(UNSEEN))

    def activate(self, x: str, kind: Activation) -> str:
        if kind == "silu":
            return self.node("Mul", x, self.node("Sigmoid", x))
        if kind in ("gelu", "gelu_tanh"):
            return self.node("Gelu", x, approximate="tanh" if kind == "gelu_tanh" else "none")
        return super().activate(x, kind)


def lower(decoder: Decoder, weights: Weights, folder: Path, precision: str) -> None:
    """Write model.onnx and model.data to `folder`, one weight in memory at a time.

    Inputs: `input_ids` (B, T), `attention_mask` (B, S + T) of cached and new tokens, `position_ids` (B, T), `last`
    (1,), and the caches `past_key_values.i.key` and `.value` (B, kv_heads, S, head_dim). Outputs: `logits` (B, last,
    vocab), and the caches `present.i.key` and `.value`, longer by T.
    """
    with Graph(folder, opset=OPSET) as graph:
        logits = forward(decoder, Rounded(weights, PRECISIONS[precision]), Ops(decoder, graph))
        graph.node_with("Identity", [logits], ["logits"])
        inputs = [value(name, TensorProto.INT64, "B", "T") for name in ("input_ids", "position_ids")]
        inputs.insert(1, value("attention_mask", TensorProto.INT64, "B", "S + T"))
        inputs.append(value("last", TensorProto.INT64, 1))
        outputs = [value("logits", TensorProto.FLOAT, "B", "last", decoder.vocab_size)]
        for i, layer in decoder.cached_layers:
            for kind in ("key", "value"):
                past, present = (("B", layer.kv_heads, length, layer.head_dim) for length in ("S", "S + T"))
                inputs.append(value(f"past_key_values.{i}.{kind}", TensorProto.FLOAT, *past))
                outputs.append(value(f"present.{i}.{kind}", TensorProto.FLOAT, *present))
        graph.save("model", inputs, outputs, {"context_length": str(decoder.context_length), "precision": precision})
