"""Lower a decoder to MIL, the intermediate language of Core ML's programs."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from backends.coreml import tools
from backends.coreml.cache import CACHES, Cache, Reading, named
from backends.coreml.experts import Mixture, clamped_gate
from backends.coreml.inputs import (
    KINDS,
    Inputs,
    Layout,
    Lowered,
    Package,
    attending_layers,
    bias_input,
    ropes,
    stacked_shape,
)
from backends.coreml.tools import Function, Program, Var, mb, types
from backends.decoder import Activation, Decoder, ExpertMatrices, Layer, Norms, Quantized, Rope, Weight, Weights
from backends.errors import BackendError, foreign
from backends.forward import AttentionOnly, encode, forward

WIDEST = 16384
"""The longest axis that the Neural Engine accepts; the head is cut into pieces of this size."""
HEADS = "lm_head", "embedding"
"""The head's possible names; with tied weights it is the embedding."""
Value = Var
"""A value of the graph, or a list of values where a matrix's parts are needed apart."""


UNEVEN = "Core ML cannot run this model: its layers share keys and values, or have embeddings of their own"


class Channels:
    """(1, hidden, 1, T) and 1x1 convolutions, which Apple's Neural Engine computes fastest.

    https://machinelearning.apple.com/research/neural-engine-transformers
    """

    axis = 1
    """The axis of the hidden elements."""

    def shape(self, matrix: np.ndarray) -> np.ndarray:
        """Reshape a matrix (out, in), or its scales, for `linear`."""
        return matrix[:, :, None, None]

    def linear(self, x: Var, weight: Var, bias: Var) -> Var:
        return mb.conv(x=x, weight=weight, bias=bias)

    def heads(self, x: Var, count: int, head_dim: int) -> Var:
        """Split hidden states into heads (1, heads, T, head_dim)."""
        return mb.transpose(x=mb.reshape(x=x, shape=[1, count, head_dim, x.shape[3]]), perm=[0, 1, 3, 2])

    def joined(self, x: Var) -> Var:
        """The opposite."""
        _, heads, length, head_dim = x.shape
        return mb.reshape(x=mb.transpose(x=x, perm=[0, 1, 3, 2]), shape=[1, heads * head_dim, 1, length])

    def rows(self, x: Var) -> Var:
        """Hidden states as rows (T, hidden)."""
        return mb.transpose(x=mb.reshape(x=x, shape=[x.shape[1], x.shape[3]]), perm=[1, 0])

    def from_rows(self, x: Var) -> Var:
        """The opposite."""
        return mb.reshape(x=mb.transpose(x=x, perm=[1, 0]), shape=[1, x.shape[1], 1, x.shape[0]])


class Plain:
    """(1, T, hidden) and matrix products, for the GPU and the processor."""

    axis = 2

    def shape(self, matrix: np.ndarray) -> np.ndarray:
        return matrix

    def linear(self, x: Var, weight: Var, bias: Var) -> Var:
        return mb.linear(x=x, weight=weight, bias=bias)

    def heads(self, x: Var, count: int, head_dim: int) -> Var:
        return mb.transpose(x=mb.reshape(x=x, shape=[1, x.shape[1], count, head_dim]), perm=[0, 2, 1, 3])

    def joined(self, x: Var) -> Var:
        _, heads, length, head_dim = x.shape
        return mb.reshape(x=mb.transpose(x=x, perm=[0, 2, 1, 3]), shape=[1, length, heads * head_dim])

    def rows(self, x: Var) -> Var:
        return mb.reshape(x=x, shape=x.shape[1:])

    def from_rows(self, x: Var) -> Var:
        return mb.reshape(x=x, shape=[1, *x.shape])


LAYOUTS: Mapping[Layout, Channels | Plain] = {"channels": Channels(), "plain": Plain()}
"""The two layouts of hidden states, and what depends on them."""


class Ops(AttentionOnly[Value]):
    """Operations append to the function being built; the host has looked up tokens and positions."""

    tokens, positions = "tokens", "positions"

    def __init__(self, decoder: Decoder, package: Package, inputs: Mapping[str, Var], cache: Cache):
        self.decoder, self.inputs, self.cache = decoder, inputs, cache
        self.layout, self.ropes = LAYOUTS[package.layout], ropes(decoder)
        self.constants: dict[str, Var] = {}

    def constant(self, name: str, values: np.ndarray) -> Var:
        """Add a constant, stored once for all functions of the package."""
        if name not in self.constants:
            self.constants[name] = mb.const(val=np.ascontiguousarray(values), name=name.replace(".", "_"))
            self.constants[name].op.weight_id = name
        return self.constants[name]

    def embed(self, table: Weight, index: Value) -> Value:
        return self.inputs["embedding" if index == self.tokens else "position_embedding"]

    def scale(self, x: Value, factor: float) -> Value:
        return mb.mul(x=x, y=np.float16(factor))

    def add(self, x: Value, y: Value) -> Value:
        return mb.add(x=x, y=y)

    def norm(self, x: Value, weight: Weight) -> Value:
        return self.norm_along(x, weight, self.layout.axis)

    def norm_along(self, x: Value, weight: Weight, axis: int) -> Value:
        """Normalise along an axis."""
        assert isinstance(weight.values, np.ndarray)  # norms are never rounded
        names, vectors = ["gamma", "beta"], [weight.values, weight.bias]
        here = {name: vector for name, vector in zip(names, vectors, strict=True) if vector is not None}
        if self.decoder.norm == "rms":
            # The mean of [x, -x] is 0, so that its layer norm, which every device computes in one step and without
            # squares that overflow float16, is the root mean square norm of x.
            x = mb.concat(values=[x, mb.mul(x=x, y=np.float16(-1))], axis=axis)
            here = {name: np.concatenate([vector, vector]) for name, vector in here.items()}
        constants = {name: self.constant(f"{weight.name}.{name}", vector) for name, vector in here.items()}
        normed = mb.layer_norm(x=x, axes=[axis], epsilon=np.float16(self.decoder.epsilon), **constants)
        return halves(normed, axis)[0] if self.decoder.norm == "rms" else normed

    def add_norm(self, x: Value, y: Value, weight: Weight) -> tuple[Value, Value]:
        total = self.add(x, y)
        return self.norm(total, weight), total

    def linear(self, x: Value, weight: Weight) -> Value:
        if weight.name in HEADS and self.cache.count > 1:
            return x  # a prefill has no head
        products = [self.rows_times(x, weight, rows) for rows in self.cuts(weight)]
        return products[0] if len(products) == 1 else products

    def cuts(self, weight: Weight) -> list[slice]:
        """The slices of a matrix's rows that are multiplied apart."""
        kind, rows = weight.name.rpartition(".")[2], len(matrix(weight))
        if kind == "qkv_proj":
            layer = self.decoder.layers[int(weight.name.split(".")[-2])]
            ends = np.cumsum([0, layer.heads, layer.kv_heads, layer.kv_heads]) * layer.head_dim
        elif kind in ("gate_up_proj", "cross_kv_proj", "kv_up_proj"):
            ends = np.array([0, rows // 2, rows])
        elif kind in HEADS:
            ends = np.array([*range(0, rows, WIDEST), rows])
        else:
            ends = np.array([0, rows])
        return [slice(int(start), int(end)) for start, end in zip(ends[:-1], ends[1:], strict=True)]

    def rows_times(self, x: Value, weight: Weight, rows: slice) -> Value:
        """Multiply by some rows of a matrix, and add their bias."""
        name = f"{weight.name}.{rows.start}"
        values = weight.values
        # MIL's `linear` always has a bias; with ours, both functions and layouts share their weights.
        bias = np.zeros(len(matrix(weight)), np.float16) if weight.bias is None else weight.bias
        bias = self.constant(name + ".bias", bias[rows])
        if not isinstance(values, Quantized):
            return self.layout.linear(x, self.constant(name, self.layout.shape(values[rows])), bias)
        parts = {"data": integers(values, rows), "scale": values.scales[rows]}
        if values.zero_points is not None:
            parts["offset"] = values.zero_points[rows].astype(parts["data"].dtype)
        constants = {part: self.constant(f"{name}.{part}", self.layout.shape(array)) for part, array in parts.items()}
        return self.layout.linear(x, mb.constexpr_blockwise_shift_scale(**constants), bias)

    def concat(self, x: Value, y: Value) -> Value:
        if isinstance(y, list):  # keys and values stay apart
            return [x, *y]
        return mb.concat(values=[x, y], axis=self.layout.axis)

    def chunk(self, x: Value, index: int, count: int) -> Value:
        return mb.split(x=x, num_splits=count, axis=self.layout.axis)[index]

    def multiply(self, x: Value, y: Value) -> Value:
        return mb.mul(x=x, y=y)

    def match_rms(self, x: Value, like: Value) -> Value:
        raise BackendError(UNEVEN)

    def attention(self, qkv: Value, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> Value:
        layer = self.decoder.layers[i]
        counts = layer.heads, layer.kv_heads, layer.kv_heads
        parts = qkv
        if layer.qk_norm == "heads":
            parts = [*map(self.norm, parts, norms), *parts[len(norms) :]]
        parts = [self.layout.heads(x, count, layer.head_dim) for x, count in zip(parts, counts, strict=True)]
        if layer.qk_norm == "head":
            parts = self.normalise(parts, norms)
        if layer.rope:
            parts[:2] = [self.rotate(x, layer.rope) for x in parts[:2]]
        if layer.qk_norm == "turned":
            parts = self.normalise(parts, norms)
        q, k, v = parts
        k, v = self.cache.extend("key", k), self.cache.extend("value", v)  # (1, kv_heads, S, head_dim)
        if i >= len(attending_layers(self.decoder, self.cache.count)):
            return self.layout.joined(q)  # unused: a prefill ends here
        mask = self.inputs[f"mask_{layer.window}" if layer.causal else "prompt_mask"]
        terms = [*([self.inputs[bias_input(bias.name)]] if bias else []), mask]
        return self.attend(q, k, v, layer, terms, sinks)

    def normalise(self, parts: list[Value], norms: Norms) -> list[Value]:
        """Normalise heads of queries, keys and values, each by its norm; those without one stay as they are."""
        return [*(self.norm_along(x, norm, 3) for x, norm in zip(parts, norms, strict=False)), *parts[len(norms) :]]

    def cross_attention(self, q: Value, i: int) -> Value:
        layer = self.decoder.layers[i]
        bare = replace(layer, softcap=0.0, alibi=())
        return self.attend(
            self.layout.heads(q, layer.heads, layer.head_dim), *self.cache.prompt(i), bare, [self.inputs["prompt_mask"]]
        )

    def attend(
        self, q: Value, k: Value, v: Value, layer: Layer, terms: list[Value], sinks: Weight | None = None
    ) -> Value:
        """Attend with queries (1, heads, T, head_dim); `terms` are added to the scores."""
        shared, length = layer.heads // layer.kv_heads, q.shape[2]
        if shared > 1:  # queries that share a key head become rows of one matrix
            q = mb.reshape(x=q, shape=[1, layer.kv_heads, shared * length, layer.head_dim])
        scores = mb.matmul(x=self.scale(q, layer.scale), y=k, transpose_y=True)
        if shared > 1:
            scores = mb.reshape(x=scores, shape=[1, layer.heads, length, k.shape[2]])
        scores = self.masked(scores, layer, terms)
        probabilities = self.softmax_with(sinks, scores) if sinks else mb.softmax(x=scores, axis=-1)  # (1, heads, T, S)
        if shared > 1:
            probabilities = mb.reshape(x=probabilities, shape=[1, layer.kv_heads, shared * length, k.shape[2]])
        attended = mb.matmul(x=probabilities, y=v)
        if shared > 1:
            attended = mb.reshape(x=attended, shape=[1, layer.heads, length, layer.head_dim])
        return self.layout.joined(attended)

    def softmax_with(self, sinks: Weight, scores: Value) -> Value:
        """Softmax with an attention sink for each head, which is left out."""
        assert isinstance(sinks.values, np.ndarray)  # never rounded
        sink = self.constant(sinks.name, sinks.values[None, :, None, None])
        # Zeros computed from the scores: coremltools would store a larger constant, one for each function.
        zeros = self.scale(mb.slice_by_index(x=scores, begin=[0, 0, 0, 0], end=[*scores.shape[:3], 1]), 0.0)
        column = mb.add(x=zeros, y=sink)
        shares = mb.softmax(x=mb.concat(values=[scores, column], axis=3), axis=-1)
        return mb.slice_by_index(x=shares, begin=[0, 0, 0, 0], end=scores.shape)

    def masked(self, scores: Value, layer: Layer, terms: list[Value]) -> Value:
        """Add softcap, ALiBi and `terms` to scores (1, heads, T, S)."""
        if layer.softcap:
            scores = self.softcap(scores, layer.softcap)
        if layer.alibi:
            values = np.array(layer.alibi, np.float16)[None, :, None, None]
            slopes = self.constant(f"slopes.{abs(hash(layer.alibi))}", values)
            scores = mb.add(x=scores, y=mb.mul(x=self.inputs["distance"], y=slopes))
        for term in terms:
            scores = mb.add(x=scores, y=term)
        return scores

    def rotate(self, x: Value, rope: Rope) -> Value:
        i = self.ropes.index(rope)
        a, b = halves(x, 3)
        turned = mb.mul(x=mb.concat(values=[b, a], axis=3), y=self.inputs[f"sin_{i}"])  # half of sin is negated
        return mb.add(x=mb.mul(x=x, y=self.inputs[f"cos_{i}"]), y=turned)

    def clip(self, x: Value, most: float) -> Value:
        return [mb.clip(x=piece, alpha=np.float16(-most), beta=np.float16(most)) for piece in x]

    def activate(self, x: Value, kind: Activation) -> Value:
        if kind == "silu":
            return mb.silu(x=x)
        if kind in ("relu", "relu2"):
            positive = mb.relu(x=x)
            return positive if kind == "relu" else mb.mul(x=positive, y=positive)
        if kind == "elu":
            return mb.elu(x=x, alpha=np.float16(1))
        return mb.gelu(x=x, mode="TANH_APPROXIMATION" if kind == "gelu_tanh" else "EXACT")

    def gate(self, gate_up: Value, kind: Activation, cutoff: float | None = None) -> Value:
        if cutoff is not None:
            raise BackendError(UNEVEN)
        gate, up = gate_up
        return mb.mul(x=self.activate(gate, kind), y=up)

    def experts(
        self, x: Value, logits: Value, bias: Weight | None, gate_up: ExpertMatrices, down: ExpertMatrices
    ) -> Value:
        assert self.decoder.experts
        clamped = self.decoder.experts.clamped

        def gate(gate: Value, up: Value) -> Value:
            return clamped_gate(gate, up, clamped) if clamped else self.gate([gate, up], self.decoder.activation)

        mixture = Mixture(self.decoder.experts, self.constant)
        routed = mixture.choose(self.layout.rows(logits), bias)
        return self.layout.from_rows(mixture.mix(self.layout.rows(x), routed, gate, (gate_up, down)))

    def sigmoid_gate(self, x: Value, logit: Value) -> Value:
        return mb.mul(x=x, y=mb.sigmoid(x=logit))

    def narrow(self, x: Value) -> Value:
        return x

    def last(self, x: Value) -> Value:
        return x  # a decoding step has one token, a prefill no logits

    def softcap(self, x: Value, cap: float) -> Value:
        if isinstance(x, list):
            return [self.softcap(piece, cap) for piece in x]
        return self.scale(mb.tanh(x=mb.real_div(x=x, y=np.float16(cap))), cap)


def matrix(weight: Weight) -> np.ndarray:
    """A weight's values, dequantised."""
    return weight.values.values if isinstance(weight.values, Quantized) else weight.values


def halves(x: Var, axis: int) -> tuple[Var, Var]:
    """Split the elements along an axis into two halves."""
    first, second = mb.split(x=x, num_splits=2, axis=axis)
    return first, second


def integers(values: Quantized, rows: slice) -> np.ndarray:
    """Some rows of integers in MIL's own type: int8, int4, or uint4 where there are zero points."""
    chosen = values.values[rows]
    if values.bits == 8:
        return chosen
    nibbles = np.stack([chosen & 15, chosen >> 4], axis=-1).reshape(len(chosen), -1)
    if values.zero_points is not None:
        return nibbles.astype(tools.string_to_nptype("uint4"))
    return (nibbles.astype(np.int8) - 8).astype(tools.string_to_nptype("int4"))


def function(lowered: Lowered, weights: Weights, inputs: Inputs, count: int) -> Function:
    """Build the function for `count` tokens: one has logits, in pieces; more of them only fill the cache."""
    decoder, package = lowered.decoder, inputs.package
    specs = specifications(inputs.arrays(np.zeros(0, np.int64), 0, count))
    layers, *shape = stacked_shape(decoder.layers, lowered.capacity)
    if package.policy == "io":
        specs |= {f"past_{kind}s": mb.TensorSpec((layers, *shape), types.fp16) for kind in KINDS}
        if decoder.encoder:
            shape[1] = lowered.prompt
            specs |= {f"memory_{kind}s": mb.TensorSpec((layers, *shape), types.fp16) for kind in KINDS}
    else:
        states = [f"{kind}_{i}" for i in range(layers) for kind in KINDS]
        specs |= {name: tools.StateTensorPlaceholder((1, *shape), types.fp16) for name in states}
    with Function(specs, opset_version=tools.coremltools.target.iOS18) as built:
        cache = CACHES[package.policy](lowered, built.inputs, count)
        scaled = replace(decoder, embedding_scale=1.0)  # the host applies it
        logits = forward(scaled, weights, Ops(decoder, package, built.inputs, cache))
        pieces = logits if isinstance(logits, list) else [logits]
        if count > 1:
            outputs = cache.outputs()  # the unused logits are then eliminated
        else:
            outputs = [named(piece, f"logits_{i}") for i, piece in enumerate(pieces)]
            outputs += cache.outputs() if package.policy == "io" else []
        built.set_outputs(outputs)
    return built


def reading(lowered: Lowered, weights: Weights, inputs: Inputs) -> Function:
    """Build the encoder's function: a padded prompt to every decoder layer's keys and values."""
    decoder, none = lowered.decoder, np.zeros(0, np.int64)
    with Function(specifications(inputs.prompt(none)), opset_version=tools.coremltools.target.iOS18) as built:
        cache = Reading(lowered, built.inputs, lowered.prompt)
        ops = Ops(decoder.as_encoder, inputs.package, built.inputs, cache)
        found = encode(replace(decoder, embedding_scale=1.0), weights, ops)  # the host applies it
        outputs = []
        for kind, parts in zip(KINDS, zip(*found, strict=True), strict=True):
            sizes = [(layer.kv_heads, layer.head_dim) for layer in decoder.layers]
            heads = [ops.layout.heads(x, *size) for x, size in zip(parts, sizes, strict=True)]
            outputs.append(mb.concat(values=heads, axis=0, name=f"memory_{kind}s"))
        built.set_outputs(outputs)
    return built


def specifications(arrays: Mapping[str, np.ndarray]) -> dict[str, Var]:
    """Specify inputs like these arrays: float16, but for whole numbers."""
    kinds = {name: types.int32 if array.dtype == np.int32 else types.fp16 for name, array in arrays.items()}
    return {name: mb.TensorSpec(array.shape, kinds[name]) for name, array in arrays.items()}


def program(lowered: Lowered, weights: Weights, inputs: Inputs) -> Program:
    """Build the functions `prefill` for a chunk, `decode` for one token, and `encode` for encoders, sharing weights."""
    built = Program()
    if lowered.prompt:
        built.add_function("encode", reading(lowered, weights, inputs))
    for name, count in ("prefill", lowered.chunk), ("decode", 1):
        built.add_function(name, function(lowered, weights, inputs, count))
    built.default_function_name = "decode"
    built.export_as_multifunction = True
    return built


PASSES = (
    "common::dead_code_elimination",
    "common::const_elimination",
    "common::canonicalize_inplace_pattern",
    "common::prefer_state_in_downstream",
    "common::dedup_op_and_var_names",
    "common::dead_code_elimination",
)
"""The passes of coremltools that a graph needs which is already written as it should be."""


def convert(built: Program, path: Path) -> None:
    """Write a program as the package `path`."""
    with foreign("coremltools cannot convert this model"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a temporary folder that coremltools does not close
        tools.coremltools.convert(
            built,
            source="milinternal",
            convert_to="mlprogram",
            minimum_deployment_target=tools.coremltools.target.iOS18,
            compute_precision=tools.coremltools.precision.FLOAT32,  # which leaves float16 as it is
            pass_pipeline=tools.coremltools.PassPipeline(list(PASSES), "chatapp"),
            skip_model_load=True,
            package_dir=str(path),
        )
        built.check()
