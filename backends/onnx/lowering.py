"""Lower a decoder to ONNX, with ONNX Runtime's fused operations."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from backends import BackendError
from backends.decoder import (
    LEAST_SQUARE,
    Activation,
    Decoder,
    DeltaNet,
    ExpertMatrices,
    Layer,
    Mamba,
    Norms,
    StateWeights,
    Weight,
    Weights,
)
from backends.forward import encode, forward
from backends.onnx import experts, matrices, states
from backends.onnx.caches import ends_of
from backends.onnx.graph import FUSED, Attribute, Graph, read_by
from backends.onnx.rows import Rows
from backends.processor import has_fast_int8

TOP = 64
"""How many of the largest logits the graph returns: enough for the usual top_k, at no measurable cost."""

NOTHING = -1e30
"""The score of an attention sink without effect. With any sink, ONNX Runtime 1.32 computes int8 attention for all
tokens at once, which makes a step of a long text take 0.7 of the time."""

ROWS = 1 << 14
"""Positions whose angles are computed at once."""


class Ops:
    """Operations append nodes, and return the names of their outputs."""

    tokens, positions, rope_positions = "tokens", "positions", "rope_positions"

    def __init__(
        self,
        decoder: Decoder,
        graph: Graph,
        *,
        blocks: bool = False,
        in_bytes: bool = False,
        windows: Sequence[int] = (),
    ):
        """`blocks`: int8 matrices are multiplied block by block; `in_bytes`: caches may be int8.

        Caches of layers with `windows` may begin after the first token, so rotary positions have an input of their own.
        """
        self.decoder, self.graph = decoder, graph
        self.rows: Rows | None = Rows(graph)
        """The faster attention for a single token; None: there is only one way to attend."""
        self.node, self.constant, self.numbers = graph.node, graph.constant, graph.numbers
        self.blocks, self.in_bytes, self.windows = blocks, in_bytes, windows or [0] * len(decoder.layers)

    def embed(self, table: Weight, index: str) -> str:
        return matrices.embed(self.graph, table, index, blocks=self.blocks)

    def linear(self, x: str, weight: Weight) -> str:
        return matrices.linear(self.graph, x, weight, blocks=self.blocks)

    def scale(self, x: str, factor: float) -> str:
        return self.node("Mul", x, self.graph.scalar(factor))

    def add(self, x: str, y: str) -> str:
        return self.node("Add", x, y)

    def norm(self, x: str, weight: Weight) -> str:
        kind = "SimplifiedLayerNormalization" if self.decoder.norm == "rms" else "LayerNormalization"
        return self.node(kind, x, *self.norm_inputs(weight), axis=-1, epsilon=self.decoder.epsilon)

    def add_norm(self, x: str, y: str, weight: Weight) -> tuple[str, str]:
        kind = "SkipSimplifiedLayerNormalization" if self.decoder.norm == "rms" else "SkipLayerNormalization"
        count = self.graph.made
        outputs = [f"normed_{count}", "", "", f"sum_{count}"]
        inputs = [x, y, *self.norm_inputs(weight)]
        self.graph.node_with(kind, inputs, outputs, domain=FUSED, epsilon=self.decoder.epsilon)
        return outputs[0], outputs[3]

    def norm_inputs(self, weight: Weight) -> list[str]:
        assert isinstance(weight.values, np.ndarray)  # norms are never rounded
        scale = self.constant(weight.name, weight.values)
        return [scale] if weight.bias is None else [scale, self.constant(weight.name + ".bias", weight.bias)]

    def concat(self, x: str, y: str) -> str:
        return self.node("Concat", x, y, axis=-1)

    def chunk(self, x: str, index: int, count: int) -> str:
        def parts() -> list[str]:
            names = [f"{x}_{place}" for place in range(count)]
            return self.graph.node_with("Split", [x], names, axis=-1, num_outputs=count)

        return self.graph.once(("parts", x), parts)[index]

    def multiply(self, x: str, y: str) -> str:
        return self.node("Mul", x, y)

    def match_rms(self, x: str, like: str) -> str:
        least = self.node("Max", self.mean_square(x), self.graph.scalar(LEAST_SQUARE))
        return self.node("Mul", x, self.node("Sqrt", self.node("Div", self.mean_square(like), least)))

    def mean_square(self, x: str) -> str:
        """(B, T, X) -> (B, T, 1)"""
        return self.node("ReduceMean", self.node("Mul", x, x), self.numbers(-1))

    def attention(self, qkv: str, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> str:
        layer, parts = self.split_heads(qkv, i, norms)
        q, k, v, *_ = [*(self.widened(x, layer) for x in parts), "", ""]
        past = [f"past_key_{i}", f"past_value_{i}"] if layer.causal else ["", ""]
        if layer.kv_layer is not None:
            # A cache of another layer is read: no new keys, in as many rows as there are queries.
            none = self.numbers(0, 0), self.numbers(0, layer.kv_heads * width(layer)), self.numbers(1, 2)
            k = v = self.node("Slice", q, *none)
            past = [f"present_key_{layer.kv_layer}", f"present_value_{layer.kv_layer}"]
        added = self.added_to_scores(layer, bias)
        newest, length = ends_of(self.windows[i])
        inputs: dict[str, str] = dict(
            query=q, key=k, value=v, past_key=past[0], past_value=past[1],
            last_position=newest, total_length=length,
            cos=self.rotation("cos", np.cos, layer), sin=self.rotation("sin", np.sin, layer),
            position_ids=self.rope_positions if layer.rope and (layer.rope.border or self.windows[i]) else "",
            attention_bias=added,
            head_sink=self.constant(sinks.name, np.asarray(sinks.values, np.float32)) if sinks else "",
        )  # fmt: skip
        outputs = [f"attended_{i}"]
        if layer.kv_layer is None:
            outputs += [f"present_key_{i}", f"present_value_{i}"]
        how = dict(
            num_heads=layer.heads, kv_num_heads=layer.kv_heads, scale=layer.scale, do_rotary=int(layer.rope is not None)
        )
        how |= dict(local_window_size=layer.window or -1, softcap=layer.softcap, causal=int(layer.causal))

        def together(outputs: list[str]) -> list[str]:
            return self.graph.node_with("GroupQueryAttention", [*inputs.values()], outputs, FUSED, **how)

        if self.in_bytes:
            self.choose_cache(i, inputs, outputs, together, how)
        elif self.rows:
            self.rows.attend(layer, width(layer), inputs, outputs, together)
        else:
            together(outputs)
        return self.narrowed(outputs[0], layer)

    def added_to_scores(self, layer: Layer, bias: Weight | None) -> str:
        """The name of the scores' bias, (1, heads, T, S); "" if there is none."""
        if bias:
            return self.graph.once(bias.name, lambda: self.by_bucket(layer, bias))
        return self.graph.once(layer.alibi, lambda: self.alibi(layer.alibi)) if layer.alibi else ""

    def split_heads(self, qkv: str, i: int, norms: Norms) -> tuple[Layer, list[str]]:
        """Split, normalise and rotate heads where that must happen before the fused attention.

        Returns what is left for it to do, as a layer, and its inputs.
        """
        layer = self.decoder.layers[i]
        parts = [qkv]
        if norms and layer.kv_layer is None:
            sizes = self.numbers(*(heads * layer.head_dim for heads in (layer.heads, layer.kv_heads, layer.kv_heads)))
            parts = self.graph.node_with("Split", [qkv, sizes], [f"{x}_{i}" for x in "qkv"], axis=-1)
        if norms:
            if turns_first(layer):
                counts = layer.heads, layer.kv_heads
                parts[:2] = [self.turn(x, layer, heads) for x, heads in zip(parts, counts, strict=False)]
                layer = replace(layer, rope=None)
            size = 0 if layer.qk_norm == "heads" else layer.head_dim
            normed = [self.norm_heads(x, norm, size) for x, norm in zip(parts, norms, strict=False)]
            parts = [*normed, *parts[len(norms) :]]
        return layer, parts

    def choose_cache(
        self,
        i: int,
        inputs: dict[str, str],
        outputs: list[str],
        together: Callable[[list[str]], list[str]],
        how: dict[str, Attribute],
    ) -> None:
        """Append attention twice, with float and with int8 caches; the input `in_bytes` chooses one."""
        floats = [f"past_key_{i}", f"past_value_{i}"]
        whole = [f"bytes_key_{i}", f"bytes_value_{i}"]
        scales = [f"scale_key_{i}", f"scale_value_{i}"]
        both = [*outputs, *(name.replace("bytes", "present_bytes") for name in whole)]

        def unused(caches: list[str], kind: str) -> list[str]:
            return [self.graph.node_with("Identity", [cache], [f"{cache}_{kind}"])[0] for cache in caches]

        def with_bytes() -> list[str]:
            known = inputs | dict(zip(("past_key", "past_value"), whole, strict=True))
            if not known["head_sink"]:  # adds nothing to the softmax; without a sink the bytes are read in tiles
                heads = int(how["num_heads"])
                known["head_sink"] = self.constant(f"no_sink_{heads}", np.full(heads, NOTHING, np.float32))
            made = [f"{name}_in_bytes" for name in (outputs[0], *both[3:])]
            kinds = dict(k_quant_type="PER_CHANNEL", v_quant_type="PER_CHANNEL", kv_cache_bit_width=8)
            self.graph.node_with("GroupQueryAttention", [*known.values(), *scales], made, FUSED, **how, **kinds)
            return [made[0], *unused(floats, "unused"), *made[1:]]

        def with_floats() -> list[str]:
            return [*together([f"{name}_in_floats" for name in outputs]), *unused(whole, "unused")]

        self.graph.choose("in_bytes", with_bytes, with_floats, both)

    def short_convolution(self, x: str, i: int, kernel: Weight) -> str:
        return states.short_convolution(self.graph, x, i, kernel)

    def convolve(self, x: str, i: int, kernel: Weight) -> str:
        return states.convolve(self.graph, x, i, kernel, "none")

    def selective_state(self, x: str, steps: str, keys: str, queries: str, i: int, decay: Weight, skip: Weight) -> str:
        return states.selective_state(self.graph, (x, steps, keys, queries), i, decay, skip)

    def delta_net(self, x: str, rates: str, i: int, weights: StateWeights) -> str:
        how = self.decoder.layers[i].recurrence
        assert isinstance(how, DeltaNet)
        epsilon = self.decoder.epsilon if how.epsilon is None else how.epsilon
        return states.delta_net(self.graph, x, rates, i, how, weights, epsilon)

    def mamba(self, x: str, steps: str, i: int, weights: StateWeights) -> str:
        how = self.decoder.layers[i].recurrence
        assert isinstance(how, Mamba)
        return states.mamba(self.graph, x, steps, i, how, weights)

    def widened(self, heads: str, layer: Layer) -> str:
        """Pad heads with zeros to `width`; halves that rotate are padded one by one."""
        if width(layer) == layer.head_dim:
            return heads
        pieces = 2 if layer.rope else 1
        parts = self.graph.split_heads(heads, layer.head_dim // pieces)
        zeros = self.numbers(*[0] * 7, (width(layer) - layer.head_dim) // pieces)
        return self.graph.join_heads(self.node("Pad", parts, zeros))

    def narrowed(self, heads: str, layer: Layer) -> str:
        """Remove the padding of `widened`."""
        if width(layer) == layer.head_dim:
            return heads
        pieces = 2 if layer.rope else 1
        parts, part = self.graph.split_heads(heads, width(layer) // pieces), (0, layer.head_dim // pieces, -1)
        return self.graph.join_heads(self.node("Slice", parts, *map(self.numbers, part)))

    def cross_attention(self, q: str, i: int) -> str:
        layer = self.decoder.layers[i]
        memory = f"memory_key_{i}", f"memory_value_{i}"
        return self.node("MultiHeadAttention", q, *memory, domain=FUSED, num_heads=layer.heads, scale=layer.scale)

    def turn(self, x: str, layer: Layer, heads: int) -> str:
        """Rotate heads apart, where GroupQueryAttention cannot do it."""
        tables = self.rotation("cos", np.cos, layer), self.rotation("sin", np.sin, layer)
        positions = "rope_positions" if layer.rope and layer.rope.border else self.positions
        return self.node("RotaryEmbedding", x, positions, *tables, domain=FUSED, num_heads=heads)

    def norm_heads(self, x: str, weight: Weight, head_dim: int) -> str:
        """Normalise each head, or all heads together if `head_dim` is 0."""
        if not head_dim:
            return self.norm(x, weight)
        return self.graph.join_heads(self.norm(self.graph.split_heads(x, head_dim), weight))

    def rotation(self, name: str, function: Callable[[np.ndarray], np.ndarray], layer: Layer) -> str:
        """A table of cosines or sines, (context_length, width / 2), after the short texts' rows for LongRoPE."""
        rope, half = layer.rope, layer.head_dim // 2
        if rope is None:
            return ""
        columns = half if turns_first(layer) else width(layer) // 2
        table = np.full((rope.border + self.decoder.context_length, columns), function(np.zeros(1)), np.float32)
        for kind, first, end in (rope, 0, rope.border), (rope.stretched, rope.border, len(table)):
            for start in range(first, end, ROWS):  # the angles are float64
                part = table[start : min(start + ROWS, end), :half]
                angles = np.outer(np.arange(start - first, start - first + len(part)), kind.inverse_frequencies)
                part[:] = function(angles) * rope.amplitudes
        return self.constant(f"{name}_{hash(rope)}", table)

    def alibi(self, slopes: tuple[float, ...]) -> str:
        """slope * (key - query), (1, heads, T, S)."""
        distance = self.node("Cast", self.distance(), to=TensorProto.FLOAT)
        slope = self.constant(f"slopes_{hash(slopes)}", np.array(slopes, np.float32)[None, :, None, None])
        return self.node("Mul", slope, distance)

    def by_bucket(self, layer: Layer, bias: Weight) -> str:
        """The relative bias of each distance, (1, heads, T, S)."""
        assert isinstance(bias.values, np.ndarray)  # never rounded
        last = len(layer.buckets) - 1
        table = self.constant(bias.name, bias.values[list(layer.buckets[::-1])].T[None])  # (1, heads, distances)
        here = self.node("Add", self.distance(), self.graph.number(last if layer.causal else last // 2))
        place = self.node("Clip", here, self.graph.number(0), self.graph.number(last))
        return self.node("Gather", table, place, axis=2)

    def distance(self) -> str:
        """key - query, (T, S)."""
        zero, one = self.graph.number(0), self.graph.number(1)
        length = self.node("Squeeze", self.node("Cast", "total_length", to=TensorProto.INT64))
        keys = self.node("Range", zero, length, one)
        queries = self.node("Gather", self.positions, zero)  # (T,), alike in every row
        queries = self.node("Unsqueeze", queries, self.numbers(-1))
        return self.node("Sub", keys, queries)

    def clip(self, x: str, most: float) -> str:
        return self.node("Clip", x, self.graph.scalar(-most), self.graph.scalar(most))

    def activate(self, x: str, kind: Activation) -> str:
        if kind == "silu":
            return self.node("QuickGelu", x, domain=FUSED, alpha=1.0)
        if kind in ("relu", "relu2"):
            positive = self.node("Relu", x)
            return positive if kind == "relu" else self.node("Mul", positive, positive)
        if kind == "elu":
            return self.node("Elu", x)
        return self.node("FastGelu" if kind == "gelu_tanh" else "Gelu", x, domain=FUSED)

    def gate(self, gate_up: str, kind: Activation, cutoff: float | None = None) -> str:
        gate, up = self.halves(gate_up)
        if cutoff is not None:
            gate = self.node("Sub", gate, self.node("ReduceMean", gate, self.numbers(-1)))
            deviation = self.node("Sqrt", self.mean_square(gate))
            gate = self.node("Relu", self.node("Sub", gate, self.scale(deviation, cutoff)))
        return self.node("Mul", self.activate(gate, kind), up)

    def halves(self, x: str) -> list[str]:
        """Split the elements into two halves."""
        outputs = [f"{half}_{self.graph.made}" for half in ("first", "second")]
        return self.graph.node_with("Split", [x], outputs, axis=-1, num_outputs=2)

    def experts(self, x: str, logits: str, bias: Weight | None, gate_up: ExpertMatrices, down: ExpertMatrices) -> str:
        assert self.decoder.experts
        if self.decoder.activation != "silu":
            raise BackendError(f"onnx mixes only experts that silu activates, not {self.decoder.activation}")
        return experts.mix(self.graph, self.decoder.experts, x, logits, bias, (gate_up, down))

    def sigmoid_gate(self, x: str, logit: str) -> str:
        return self.node("Mul", x, self.node("Sigmoid", logit))

    def gate_heads(self, x: str, logits: str, size: int) -> str:
        opened = self.node("Unsqueeze", self.node("Sigmoid", logits), self.numbers(-1))
        return self.graph.join_heads(self.node("Mul", self.graph.split_heads(x, size), opened))

    def narrow(self, x: str) -> str:
        return x

    def last(self, x: str) -> str:
        return self.ending(x, "last")

    def ending(self, x: str, count: str) -> str:
        """The last `count` tokens."""
        return self.node("Slice", x, self.node("Neg", count), self.numbers(2**62), self.numbers(1))

    def softcap(self, x: str, cap: float) -> str:
        return self.scale(self.node("Tanh", self.scale(x, 1 / cap)), cap)


class NarrowingOps(Ops):
    """Operations that compute layers which only read others' caches for the wanted tokens alone.

    GroupQueryAttention takes fewer queries than keys in a single row, and only one query in each of several.
    """

    kept = ""

    def narrow(self, x: str) -> str:
        if not self.kept:
            shape = self.node("Shape", self.tokens)
            rows, count = (self.node("Slice", shape, self.numbers(i), self.numbers(i + 1)) for i in range(2))
            alone = self.node("Equal", rows, self.numbers(1))
            self.kept = self.node("Where", alone, "last", count)
            self.rope_positions = self.ending(self.rope_positions, self.kept)
        return self.ending(x, self.kept)


def width(layer: Layer) -> int:
    """The head size that GroupQueryAttention needs: a multiple of 8, or of 16 where it rotates."""
    step = 16 if layer.rope and not turns_first(layer) else 8
    return -(-layer.head_dim // step) * step


def find_windows(decoder: Decoder) -> list[int]:
    """Each layer's window; 0 where it sees all tokens, or counts distances from the first one."""
    counted = [not layer.causal or bool(layer.alibi or layer.buckets) for layer in decoder.layers]
    return [0 if no or decoder.encoder else layer.window for no, layer in zip(counted, decoder.layers, strict=True)]


def turns_first(layer: Layer) -> bool:
    """Whether heads are normalised between their rotation and attention."""
    return layer.rope is not None and layer.qk_norm == "turned"


def lower(decoder: Decoder, weights: Weights, folder: Path, precision: str) -> None:
    """Write model.onnx, model.data and, for an encoder, encoder.onnx to `folder`, one weight in memory at a time.

    Inputs: `tokens` (B, T); `positions` (B, T) where the model needs them; `rope_positions` (B, T) for LongRoPE, offset
    by the border in long texts, and for windows; `last_position` (B,), the position of the newest token, and
    `total_length` (1,), and both again for every window as `last_position_w` and `total_length_w`, since its caches may
    begin with a later token; `last` (1,); the caches `past_key_i` and `past_value_i` (B, kv_heads, capacity, width) of
    layers that have their own. Where no heads share keys also `in_bytes` (1,), which chooses the int8 caches
    `bytes_key_i` and `bytes_value_i` and their channels' scales `scale_key_i` and `scale_value_i` (1, kv_heads, 1,
    width). Recurrent layers have `state_...`, and return `new_state_...`.

    Outputs: `logits` (B, last, vocab); the largest of them, `top_logits` and `top_tokens` (B, last, TOP); the caches as
    `present_...`. The encoder's, `memory_key_i` and `memory_value_i` (B, heads, T, head_dim), are the decoder's inputs.
    """
    facts = {"context_length": str(decoder.context_length), "precision": precision, "border": str(decoder.border)}
    in_bytes, windows = gains_by_int8(decoder, precision), find_windows(decoder)
    facts["windows"] = " ".join(map(str, windows))
    with Graph(folder) as graph:
        blocks = has_fast_int8()  # 1.5 times as fast for a token, 0.75 times for a prompt
        memory = lower_encoder(decoder, weights, graph, blocks) if decoder.encoder else []
        ops = NarrowingOps(decoder, graph, blocks=blocks, in_bytes=in_bytes, windows=windows)
        logits = forward(decoder, weights, ops)
        graph.node_with("Identity", [logits], ["logits"])
        top = min(TOP, decoder.vocab_size)
        graph.node_with("TopK", [logits, graph.numbers(top)], ["top_logits", "top_tokens"], axis=-1)
        inputs = [*basic_inputs(graph, windows), value("last", TensorProto.INT64, 1), *memory]
        outputs = [value("logits", TensorProto.FLOAT, "B", "last", decoder.vocab_size)]
        outputs.append(value("top_logits", TensorProto.FLOAT, "B", "last", top))
        outputs.append(value("top_tokens", TensorProto.INT64, "B", "last", top))
        for kept, given in remembered(decoder, ops.in_bytes):
            inputs += kept
            outputs += given
        inputs += [value("in_bytes", TensorProto.BOOL, 1)] if ops.in_bytes else []
        graph.save("model", inputs, outputs, facts | ({"start_token": str(decoder.start_token)} if memory else {}))


Values = list[onnx.ValueInfoProto]


def remembered(decoder: Decoder, in_bytes: bool) -> Iterator[tuple[Values, Values]]:
    """Yield the inputs and outputs of each state and of each layer's cache."""
    for name, sizes in states.state_shapes(decoder).items():
        yield [value(name, TensorProto.FLOAT, "B", *sizes)], [value("new_" + name, TensorProto.FLOAT, "B", *sizes)]
    for i, layer in decoder.cached_layers:
        for kind in "key", "value":
            shape = "B", layer.kv_heads, "S", width(layer)
            inputs = [value(f"past_{kind}_{i}", TensorProto.FLOAT, *shape)]
            outputs = [value(f"present_{kind}_{i}", TensorProto.FLOAT, *shape)]
            if in_bytes:
                shape, one = ("B", layer.kv_heads, "C", width(layer)), (1, layer.kv_heads, 1, width(layer))
                inputs.append(value(f"bytes_{kind}_{i}", TensorProto.INT8, *shape))
                inputs.append(value(f"scale_{kind}_{i}", TensorProto.FLOAT, *one))
                outputs.append(value(f"present_bytes_{kind}_{i}", TensorProto.INT8, *shape))
            yield inputs, outputs


def gains_by_int8(decoder: Decoder, precision: str) -> bool:
    """Whether int8 caches can pay off: shared keys are read less often anyway; f32 and f16 stay exact."""
    alone = all(layer.causal and layer.heads == layer.kv_heads and layer.kv_layer is None for layer in decoder.layers)
    changing = decoder.recurrent or decoder.encoder or decoder.border
    return alone and not changing and precision not in ("f32", "f16")


def lower_encoder(decoder: Decoder, weights: Weights, graph: Graph, blocks: bool) -> list[onnx.ValueInfoProto]:
    """Write encoder.onnx and return its outputs."""
    outputs = []
    by_head = graph.numbers(0, 0, 2, -1, decoder.layers[0].head_dim)
    for i, kv in enumerate(encode(decoder, weights, Ops(decoder.as_encoder, graph, blocks=blocks))):
        layer = decoder.layers[i]
        split = graph.node("Transpose", graph.node("Reshape", kv, by_head), perm=[2, 0, 3, 1, 4])
        for place, kind in enumerate(("key", "value")):
            name = f"memory_{kind}_{i}"
            graph.node_with("Gather", [split, graph.number(place)], [name], axis=0)
            outputs.append(value(name, TensorProto.FLOAT, "B", layer.kv_heads, "P", layer.head_dim))
    graph.save("encoder", basic_inputs(graph), outputs)
    return outputs


def basic_inputs(graph: Graph, windows: Iterable[int] = ()) -> list[onnx.ValueInfoProto]:
    """The inputs that tell a graph its tokens and their positions."""
    inputs = [value("tokens", TensorProto.INT64, "B", "T")]
    for newest, length in map(ends_of, sorted({0, *windows})):
        inputs += [value(newest, TensorProto.INT32, "B"), value(length, TensorProto.INT32, 1)]
    used = read_by(graph.nodes)
    for name in "positions", "rope_positions":
        if name in used:
            inputs.append(value(name, TensorProto.INT64, "B", "T"))
    return inputs


def value(name: str, kind: int, *shape: str | int) -> onnx.ValueInfoProto:
    """An input or output."""
    return helper.make_tensor_value_info(name, kind, shape)
