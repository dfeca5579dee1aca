"""Lower a decoder to a graph like that of onnxruntime-genai's model builder, with its names and masks."""

import re
from pathlib import Path

from onnx import TensorProto

from backends.decoder import Decoder, Weights
from backends.forward import AttentionOnly, forward
from backends.onnx import lowering
from backends.onnx.graph import Graph
from backends.onnx.lowering import value, width
from backends.quantize import PRECISIONS, Rounded

CACHE = re.compile(r"(past|present)_(key|value)_(\d+)")
PUBLIC = {"past": "past_key_values", "present": "present"}


class Ops(AttentionOnly[str], lowering.Ops):
    """Operations whose positions follow from an attention mask over cached and new tokens."""

    tokens, positions = "input_ids", "position_ids"

    def __init__(self, decoder: Decoder, graph: Graph):
        super().__init__(decoder, graph)
        self.rows = None  # runtimes of any age know GroupQueryAttention
        total = self.node("Shape", "attention_mask", start=1, end=2)
        graph.node_with("Cast", [total], ["total_length"], to=TensorProto.INT32)
        one = self.numbers(1)
        newest = self.node("Sub", self.node("ReduceSum", "attention_mask", one, keepdims=0), one)
        graph.node_with("Cast", [newest], ["last_position"], to=TensorProto.INT32)

    def last(self, x: str) -> str:
        """All tokens; callers take the logits they want."""
        return x


def public(name: str) -> str:
    """The public name of a cache; other names stay."""
    found = CACHE.fullmatch(name)
    return f"{PUBLIC[found[1]]}.{found[3]}.{found[2]}" if found else name


def lower(decoder: Decoder, weights: Weights, folder: Path, precision: str) -> None:
    """Write model.onnx and model.data to `folder`, one weight in memory at a time.

    Inputs: `input_ids` (B, T), `attention_mask` (B, S + T), `position_ids` (B, T) where the model needs them, and the
    caches `past_key_values.i.key` and `.value` (B, kv_heads, S, width), which may share their buffers with the outputs
    `present.i.key` and `.value`. `logits` (B, T, vocab) are those of every token.
    """
    with Graph(folder, opset=21) as graph:
        logits = forward(decoder, Rounded(weights, PRECISIONS[precision]), Ops(decoder, graph))
        graph.node_with("Identity", [logits], ["logits"])
        inputs = [
            value("input_ids", TensorProto.INT64, "B", "T"),
            value("attention_mask", TensorProto.INT64, "B", "all"),
        ]
        if any("position_ids" in node.input for node in graph.nodes):
            inputs.append(value("position_ids", TensorProto.INT64, "B", "T"))
        outputs = [value("logits", TensorProto.FLOAT, "B", "T", decoder.vocab_size)]
        for i, layer in enumerate(decoder.layers):
            for kind in ("key", "value"):
                shape = ("B", layer.kv_heads, "S", width(layer)), ("B", layer.kv_heads, "all", width(layer))
                inputs.append(value(public(f"past_{kind}_{i}"), TensorProto.FLOAT, *shape[0]))
                outputs.append(value(public(f"present_{kind}_{i}"), TensorProto.FLOAT, *shape[1]))
        for node in graph.nodes:
            node.input[:], node.output[:] = map(public, node.input), map(public, node.output)
        graph.save("model", inputs, outputs)
