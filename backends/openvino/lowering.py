"""Lower a decoder to OpenVINO operations, with caches as states of the model."""

import json
from collections.abc import Callable, Hashable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import openvino
from openvino import PartialShape, Type
from openvino import opset15 as op
from openvino.utils.node_factory import NodeFactory

from backends.decoder import (
    LEAST_SQUARE,
    Activation,
    Decoder,
    ExpertMatrices,
    Layer,
    Norms,
    Quantized,
    Rope,
    Weight,
    Weights,
)
from backends.forward import AttentionOnly, encode, forward, refuse_states
from backends.openvino.experts import Mixture, clamped_gate
from backends.openvino.matrix import matrix
from backends.openvino.nodes import Node, integers, named, number, outputs, parameter, scalar, vector
from backends.openvino.runtime import UNSEEN, Facts
from backends.openvino.weights_file import WeightsFile

SINKING = NodeFactory("opset13")
"""Makes attention with sinks, for which the package has no function."""


class MatrixState:
    """The matrices of all graphs of a model, each stored once."""

    def __init__(self, folder: Path, name: str = "model"):
        self.file, self.nodes = WeightsFile(folder, name), dict[str, Node]()

    def of(self, weight: Weight) -> Node:
        """The constant for a weight."""
        if weight.name not in self.nodes:
            self.nodes[weight.name] = matrix(weight.values, self.file)
        return self.nodes[weight.name]


class Ops(AttentionOnly[Node]):
    """Operations return nodes."""

    def __init__(self, decoder: Decoder, inputs: dict[str, Node], matrices: MatrixState):
        self.decoder, self.inputs, self.matrices = decoder, inputs, matrices
        self.tokens, self.positions = inputs["tokens"], inputs["positions"]
        self.assigned: list[Node] = []
        self.shared: dict[Hashable, Node] = {}
        self.seen: dict[int, tuple[Node, Node]] = {}
        """The keys and values that each layer attends to."""

    def embed(self, table: Weight, index: Node) -> Node:
        # The plugin looks rows of microscaling formats up in float32, and would then multiply by those.
        alone = isinstance(table.values, Quantized) and table.values.format
        rows = matrix(table.values, self.matrices.file) if alone else self.matrices.of(table)
        return op.gather(rows, op.convert(index, "i32"), op.constant(np.int32(0)))

    def linear(self, x: Node, weight: Weight) -> Node:
        """Multiply by the matrix; for gate_up returns two nodes, which saves the plugin a copy."""
        if weight.name.endswith("gate_up_proj"):
            return [self.linear(x, half) for half in halves(weight)]
        y = op.matmul(x, self.matrices.of(weight), False, True)
        return y if weight.bias is None else op.add(y, vector(weight.bias))

    def scale(self, x: Node, factor: float) -> Node:
        return op.multiply(x, scalar(factor))

    def add(self, x: Node, y: Node) -> Node:
        return op.add(x, y)

    def norm(self, x: Node, weight: Weight) -> Node:
        assert isinstance(weight.values, np.ndarray)  # norms are never rounded
        if self.decoder.norm == "layer":
            y = op.mvn(x, integers(-1), True, self.decoder.epsilon, "INSIDE_SQRT")
        else:  # the form that the plugin recognises and fuses
            root = op.sqrt(op.add(mean_square(x), scalar(self.decoder.epsilon)))
            y = op.multiply(x, op.divide(scalar(1), root))
        y = op.multiply(y, vector(weight.values))
        return y if weight.bias is None else op.add(y, vector(weight.bias))

    def add_norm(self, x: Node, y: Node, weight: Weight) -> tuple[Node, Node]:
        total = op.add(x, y)
        return self.norm(total, weight), total

    def concat(self, x: Node, y: Node) -> Node:
        return op.concat([x, y], -1)

    def chunk(self, x: Node, index: int, count: int) -> Node:
        key = "parts", x.get_friendly_name()
        return self.once(key, lambda: op.split(x, number(2), count).outputs())[index]

    def multiply(self, x: Node, y: Node) -> Node:
        return op.multiply(x, y)

    def match_rms(self, x: Node, like: Node) -> Node:
        least = op.maximum(mean_square(x), scalar(LEAST_SQUARE))
        return op.multiply(x, op.sqrt(op.divide(mean_square(like), least)))

    def attention(self, qkv: Node, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> Node:
        layer = self.decoder.layers[i]
        sizes = [layer.heads * layer.head_dim, layer.kv_heads * layer.head_dim, layer.kv_heads * layer.head_dim]
        parts = [qkv]
        if layer.kv_layer is None:
            parts = op.variadic_split(qkv, number(2), integers(*sizes)).outputs()
        if layer.qk_norm != "turned":
            parts = self.normalise(parts, norms, layer)
        parts = [by_head(x, layer) for x in parts]
        if layer.rope:
            parts[:2] = [self.rotate(x, layer.rope) for x in parts[:2]]
        if layer.qk_norm == "turned":
            parts = self.normalise(parts, norms, layer)
        q, *new = parts
        if new and layer.causal:
            kinds = ("key", "value")
            new = [self.cached(x, f"{kind}_{i}", layer) for x, kind in zip(new, kinds, strict=True)]
        self.seen[i] = k, v = tuple(new) if layer.kv_layer is None else self.seen[layer.kv_layer]
        mask = self.once(
            ("mask", layer.causal, layer.window, layer.alibi, layer.buckets, bias and bias.name),
            lambda: self.mask(layer, bias),
        )
        return self.attend(q, k, v, layer, mask, sinks)

    def normalise(self, parts: list[Node], norms: Norms, layer: Layer) -> list[Node]:
        """Normalise queries, keys and values, each by its norm; those without one stay as they are."""
        given = [heads(x, layer) for x in parts[: len(norms)]] if layer.qk_norm == "head" else parts
        return [*map(self.norm, given, norms), *parts[len(norms) :]]

    def cross_attention(self, q: Node, i: int) -> Node:
        layer = self.decoder.layers[i]
        names = f"memory_key_{i}", f"memory_value_{i}"
        k, v = (parameter(name, np.float32, -1, layer.kv_heads, -1, layer.head_dim) for name in names)
        self.inputs |= zip(names, (k, v), strict=True)
        return self.attend(by_head(q, layer), k, v, layer, scalar(0))

    def attend(self, q: Node, k: Node, v: Node, layer: Layer, mask: Node, sinks: Weight | None = None) -> Node:
        """Attend: from heads (B, heads, T or S, head_dim) to (B, T, heads head_dim)."""
        k, v = repeat(k, layer), repeat(v, layer)
        scale = scalar(layer.scale)
        if layer.softcap:
            scores = self.softcap(self.scale(op.matmul(q, k, False, True), layer.scale), layer.softcap)
            y = op.matmul(op.softmax(op.add(scores, mask), -1), v, False, False)
        elif sinks:
            column = vector(np.asarray(sinks.values)[None, :, None, None])
            y = SINKING.create("ScaledDotProductAttention", outputs([q, k, v, mask, scale, column]), {"causal": False})
        else:
            y = op.scaled_dot_product_attention(q, k, v, mask, scale, causal=False)
        return op.reshape(op.transpose(y, integers(0, 2, 1, 3)), integers(0, 0, layer.heads * layer.head_dim), True)

    def mask(self, layer: Layer, bias: Weight | None) -> Node:
        """The mask added to the scores, (1, 1 or heads, T, S)."""
        queries = op.unsqueeze(self.positions, integers(0, 1, 3))
        keys = op.unsqueeze(self.inputs["key_positions"], integers(0, 1, 2))
        distance = op.subtract(queries, keys)
        added = scalar(0)
        if layer.alibi:
            added = op.multiply(op.convert(distance, "f32"), vector(-np.array(layer.alibi)[None, :, None, None]))
        if bias:
            assert isinstance(bias.values, np.ndarray)  # never rounded
            last, before = len(layer.buckets) - 1, 0 if layer.causal else len(layer.buckets) // 2
            place = op.clamp(op.convert(op.add(distance, integers(before)), "f32"), 0.0, float(last))
            table = vector(bias.values[list(layer.buckets)].T[None])  # (1, heads, distances)
            place = op.squeeze(op.convert(place, "i32"), integers(0, 1))  # (T, S)
            added = op.gather(table, place, op.constant(np.int32(2)))
        if not layer.causal:
            return added
        visible = op.greater_equal(distance, integers(0))
        if layer.window:
            visible = op.logical_and(visible, op.less(distance, integers(layer.window)))
        return op.select(visible, added, scalar(UNSEEN))

    def rotate(self, x: Node, rope: Rope) -> Node:
        cos, sin = self.once(rope, lambda: self.rotation(rope))
        half, end, axis = integers(len(rope.inverse_frequencies)), integers(2**62), integers(3)
        first, second = (op.slice(x, *part, integers(1), axis) for part in ((integers(0), half), (half, end)))
        turned = op.concat([op.multiply(second, scalar(-1)), first], -1)
        return op.add(op.multiply(x, cos), op.multiply(turned, sin))

    def rotation(self, rope: Rope) -> tuple[Node, Node]:
        """Cosines and sines, (1, 1, T, head_dim): with fewer axes the plugin does not fuse them."""
        positions = op.unsqueeze(op.convert(self.positions, "f32"), integers(0, 1, 3))
        frequencies = vector(np.array(rope.inverse_frequencies))
        if rope.border:
            both = vector(np.array([rope.inverse_frequencies, rope.long]))
            frequencies = op.gather(both, self.inputs["long"], op.constant(np.int32(0)))  # (1, head_dim / 2)
        angle = op.multiply(positions, frequencies)
        angle = op.concat([angle, angle], -1)
        amplitudes = vector(np.tile(rope.amplitudes, 2))
        return op.multiply(op.cos(angle), amplitudes), op.multiply(op.sin(angle), amplitudes)

    def cached(self, x: Node, name: str, layer: Layer) -> Node:
        """Append x (B, kv_heads, T, head_dim) to the state `name`, after gathering its rows by `parents`."""
        empty = self.once(("empty", layer.kv_heads, layer.head_dim), lambda: self.empty(layer))
        past = op.read_value(empty, name, Type.f32, PartialShape([-1, layer.kv_heads, -1, layer.head_dim]))
        whole = op.concat([op.gather(past, self.inputs["parents"], op.constant(np.int32(0))), x], 2)
        self.assigned.append(op.assign(whole, name))
        return whole

    def empty(self, layer: Layer) -> Node:
        batch = op.gather(op.shape_of(self.tokens), integers(0), number(0))
        return op.broadcast(scalar(0), op.concat([batch, integers(layer.kv_heads, 0, layer.head_dim)], 0))

    def once(self, key: Hashable, build: Callable[[], Node]) -> Node:
        """Build what several layers share once, and return it."""
        if key not in self.shared:
            self.shared[key] = build()
        return self.shared[key]

    def clip(self, x: Node, most: float) -> Node:
        return op.clamp(x, -most, most)

    def activate(self, x: Node, kind: Activation) -> Node:
        if kind == "silu":
            return op.swish(x)
        if kind in ("relu", "relu2"):
            positive = op.relu(x)
            return positive if kind == "relu" else op.multiply(positive, positive)
        if kind == "elu":
            return op.elu(x, 1.0)
        return op.gelu(x, "tanh" if kind == "gelu_tanh" else "erf")

    def gate(self, gate_up: Node, kind: Activation, cutoff: float | None = None) -> Node:
        gate, up = gate_up
        if cutoff is not None:
            gate = op.subtract(gate, op.reduce_mean(gate, integers(-1), True))
            gate = op.relu(op.subtract(gate, self.scale(op.sqrt(mean_square(gate)), cutoff)))
        return op.multiply(self.activate(gate, kind), up)

    def experts(
        self, x: Node, logits: Node, bias: Weight | None, gate_up: ExpertMatrices, down: ExpertMatrices
    ) -> Node:
        assert self.decoder.experts
        clamped = self.decoder.experts.clamped

        def gate(gated: list[Node]) -> Node:
            return clamped_gate(gated[0], gated[1], clamped) if clamped else self.gate(gated, self.decoder.activation)

        mixture = Mixture(self.decoder.experts, self.decoder.hidden_size, self.matrices.file)
        return mixture.mix(x, logits, bias, gate, (gate_up, down))

    def sigmoid_gate(self, x: Node, logit: Node) -> Node:
        return op.multiply(x, op.sigmoid(logit))

    def narrow(self, x: Node) -> Node:
        return x  # paged attention needs as many queries as tokens

    def last(self, x: Node) -> Node:
        return op.gather(x, self.inputs["wanted"], op.constant(np.int32(1)))

    def softcap(self, x: Node, cap: float) -> Node:
        return self.scale(op.tanh(self.scale(x, 1 / cap)), cap)


def mean_square(x: Node) -> Node:
    """(B, T, X) -> (B, T, 1)"""
    return op.reduce_mean(op.power(x, scalar(2)), integers(-1), True)


def heads(x: Node, layer: Layer) -> Node:
    """Split heads: (B, T, heads head_dim) to (B, T, heads, head_dim)."""
    return op.reshape(x, integers(0, 0, -1, layer.head_dim), True)


def by_head(x: Node, layer: Layer) -> Node:
    """Heads first: (B, T, heads head_dim), split or not, to (B, heads, T, head_dim)."""
    return op.transpose(heads(x, layer), integers(0, 2, 1, 3))


def repeat(x: Node, layer: Layer) -> Node:
    """Repeat each key-value head for its group of queries.

    The target shape is constant: if it were read from the cache, the plugin would not fuse cache and attention.
    """
    times = layer.heads // layer.kv_heads
    if times == 1:
        return x
    spread = op.broadcast(op.unsqueeze(x, integers(2)), integers(1, 1, times, 1, 1), None, "BIDIRECTIONAL")
    return op.reshape(spread, integers(0, layer.heads, -1, layer.head_dim), True)


def halves(weight: Weight) -> list[Weight]:
    """Split a gate_up matrix into gate and up."""
    return [
        weight.with_rows(lambda rows: rows[: len(rows) // 2], ".gate"),
        weight.with_rows(lambda rows: rows[len(rows) // 2 :], ".up"),
    ]


def lower(decoder: Decoder, weights: Weights, folder: Path, precision: str) -> None:
    """Write model.xml, model.bin and facts.json to `folder`.

    Inputs: `tokens` (B, T); `positions` (T,); `key_positions` (S,) of cached and new tokens; `parents` (B,), the row
    that each row continues; `wanted` (last,), the tokens whose logits are asked for; `long` (1,), for LongRoPE only, 1
    for a text beyond the border. Output: `logits` (B, last, vocab).

    With an encoder, the same model maps `prompt` (B, P) to `read_...` (B, kv_heads, P, head_dim), which the decoder
    takes as `memory_...`.
    """
    refuse_states(decoder)
    inputs = {
        "tokens": parameter("tokens", np.int64, -1, -1),
        "positions": parameter("positions", np.int64, -1),
        "key_positions": parameter("key_positions", np.int64, -1),
        "parents": parameter("parents", np.int32, -1),
        "wanted": parameter("wanted", np.int64, -1),
    }
    if decoder.border:
        inputs["long"] = parameter("long", np.int64, 1)
    matrices = MatrixState(folder)
    ops = Ops(decoder, inputs, matrices)
    outputs = [op.result(named(forward(decoder, weights, ops), "logits"))]
    if decoder.encoder:
        inputs["prompt"] = parameter("prompt", np.int64, -1, -1)
        outputs += encoder(decoder, weights, inputs["prompt"], matrices)
    model = openvino.Model(outputs, ops.assigned, list(inputs.values()), "decoder")
    start_token = decoder.start_token if decoder.encoder else None
    fused = not decoder.encoder and not any(layer.softcap or layer.buckets for layer in decoder.layers)
    layers = [(layer.window, list(layer.alibi)) for layer in decoder.layers] if fused else None
    grouped = any(layer.kv_heads < layer.heads for layer in decoder.layers)
    facts = Facts(decoder.context_length, decoder.vocab_size, precision, start_token, layers, decoder.border, grouped)
    (folder / "facts.json").write_text(json.dumps(asdict(facts)))
    matrices.file.finish(model)


def encoder(decoder: Decoder, weights: Weights, prompt: Node, matrices: MatrixState) -> list[Node]:
    """Build the encoder: what each decoder layer cross-attends to, as outputs of the model."""
    count = op.gather(op.shape_of(prompt), integers(1), number(0))
    positions = op.range(number(0), op.squeeze(count), number(1), "i64")
    ops = Ops(decoder.as_encoder, dict(tokens=prompt, positions=positions, key_positions=positions), matrices)
    outputs = []
    for layer, kv in enumerate(encode(decoder, weights, ops)):
        halves = op.split(kv, number(-1), 2).outputs()
        for name, half in zip((f"read_key_{layer}", f"read_value_{layer}"), halves, strict=True):
            outputs.append(op.result(named(by_head(half, decoder.layers[layer]), name)))
    return outputs
