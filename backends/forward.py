"""How a decoder's logits are computed, whatever does the arithmetic."""

from typing import Generic, Protocol, TypeVar

import numpy as np

from backends.decoder import (
    Activation,
    Decoder,
    DeltaNet,
    DeltaWeights,
    ExpertMatrices,
    Norms,
    ShortConvolution,
    Weight,
    Weights,
)
from backends.errors import BackendError

Tensor = TypeVar("Tensor")
NO_STATES = "layers that keep a state (short convolutions, delta nets) run on ONNX Runtime only"


class Ops(Protocol[Tensor]):
    """The operations a backend supplies; each is as large as the largest kernel found for it."""

    @property
    def tokens(self) -> Tensor:
        """(B, T)"""

    @property
    def positions(self) -> Tensor:
        """(B, T)"""

    def embed(self, table: Weight, index: Tensor) -> Tensor: ...
    def scale(self, x: Tensor, factor: float) -> Tensor: ...
    def add(self, x: Tensor, y: Tensor) -> Tensor: ...
    def norm(self, x: Tensor, weight: Weight) -> Tensor: ...
    def add_norm(self, x: Tensor, y: Tensor, weight: Weight) -> tuple[Tensor, Tensor]:
        """Return `norm(x + y)` and `x + y`."""

    def linear(self, x: Tensor, weight: Weight) -> Tensor: ...
    def join(self, x: Tensor, y: Tensor) -> Tensor:
        """The elements of the first, and those of the second: (B, T, X), (B, T, Y) -> (B, T, X + Y)."""

    def attention(self, qkv: Tensor, layer: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> Tensor:
        """Split, normalise and rotate heads, extend the cache, attend: (B, T, Q + K + V) -> (B, T, Q).

        `bias` is the table (buckets, heads) that `Attention.buckets` chooses from, added to the scaled scores;
        `sinks` (heads,) are scores of a key beside all others, whose value is 0.
        """

    def cross_attention(self, q: Tensor, layer: int) -> Tensor:
        """Attend to all of the prompt, to the keys and values that `encode` made for the layer: (B, T, Q) -> (B, T, Q).

        Called only where there is an encoder.
        """

    def short_convolution(self, x: Tensor, layer: int, kernel: Weight) -> Tensor:
        """Two gates, and what they open before and after the convolution: (B, T, 3 H) -> (B, T, H).

        The first gate and the last third are multiplied; each channel of that, weighted by its row of the `kernel`
        (H, width), is summed over the newest tokens, goes into the state, and is multiplied by the second gate.
        """

    def delta_net(self, x: Tensor, rates: Tensor, layer: int, weights: DeltaWeights) -> Tensor:
        """Queries, keys, values and gates, (B, T, channels + V), to what the state answers: (B, T, V).

        `rates` (B, T, 2 value_heads) say how much of a value is written, and how much of the state is kept. A
        convolution over the newest tokens, activated by silu, comes first; last each head is normalised, and opened
        by the silu of its gate.
        """

    def clip(self, x: Tensor, most: float) -> Tensor:
        """Queries, keys and values, none beyond `most` or `-most`."""

    def activate(self, x: Tensor, kind: Activation) -> Tensor:
        """Any kind but xielu."""

    def gate(self, gate_up: Tensor, kind: Activation) -> Tensor:
        """The first half, activated, times the second: (B, T, 2 F) -> (B, T, F)."""

    def experts(
        self, x: Tensor, logits: Tensor, bias: Weight | None, gate_up: ExpertMatrices, down: ExpertMatrices
    ) -> Tensor:
        """The sum of what the experts that each token chooses make of it, by their shares: (B, T, H) -> (B, T, H).

        `logits` (B, T, count) are the router's; `bias` (count,) is added to the scores only while choosing.
        """

    def open(self, x: Tensor, logit: Tensor) -> Tensor:
        """Each token times the sigmoid of its logit (B, T, 1), or each of its elements by one of its own."""

    def last(self, x: Tensor) -> Tensor:
        """Keep the tokens whose logits are wanted."""

    def softcap(self, x: Tensor, cap: float) -> Tensor: ...


def refuse_states(decoder: Decoder) -> None:
    """Raise BackendError for layers that keep a state, before a graph is begun that cannot have them."""
    if decoder.recurrent:
        raise BackendError(NO_STATES)


class Attending(Generic[Tensor]):
    """Operations of a graph whose layers all attend: what keeps a state is refused."""

    def short_convolution(self, x: Tensor, layer: int, kernel: Weight) -> Tensor:
        raise BackendError(NO_STATES)

    def delta_net(self, x: Tensor, rates: Tensor, layer: int, weights: DeltaWeights) -> Tensor:
        raise BackendError(NO_STATES)


def forward(decoder: Decoder, weights: Weights, ops: Ops[Tensor]) -> Tensor:
    """Return the logits (B, last, vocab) of `ops.tokens`; `weights` need only hold what the family has."""
    x, branch = residual(decoder, weights, ops, "")
    normed, _ = add_norm(weights, ops, ops.last(x), None if branch is None else ops.last(branch), "norm")
    if "project_out" in weights:
        normed = ops.linear(normed, weights["project_out"])
    if decoder.output_scale != 1:
        normed = ops.scale(normed, decoder.output_scale)
    logits = ops.linear(normed, weights["lm_head"])  # (B, last, vocab)
    return ops.softcap(logits, decoder.logit_softcap) if decoder.logit_softcap else logits


def encode(decoder: Decoder, weights: Weights, ops: Ops[Tensor]) -> list[Tensor]:
    """Return what each layer of the decoder attends to, once for a prompt: (B, T, K + V) of `ops.tokens`.

    `ops` are those of `decoder.reader`, with no cache.
    """
    x, branch = residual(decoder.reader, weights, ops, "encoder.")
    normed, _ = add_norm(weights, ops, x, branch, "encoder.norm")
    return [ops.linear(normed, weights[f"layers.{i}.cross_kv_proj"]) for i in range(len(decoder.layers))]


def residual(decoder: Decoder, weights: Weights, ops: Ops[Tensor], part: str) -> tuple[Tensor, Tensor | None]:
    """Return what the layers make of `ops.tokens`; `part` begins the names of their weights.

    The residual travels as `x` and the `branch` still to be added, so that adding and normalising can be one kernel.
    """
    x = ops.embed(weights["embedding"], ops.tokens)  # (B, T, hidden)
    if decoder.embedding_scale != 1:
        x = ops.scale(x, decoder.embedding_scale)
    if "project_in" in weights:
        x = ops.linear(x, weights["project_in"])
    if "embedding_norm" in weights:
        x = ops.norm(x, weights["embedding_norm"])
    branch = ops.embed(weights["position_embedding"], ops.positions) if "position_embedding" in weights else None

    for i in range(len(decoder.layers)):
        layer = f"{part}layers.{i}."
        normed, x = add_norm(weights, ops, x, branch, layer + "attention_norm")
        branch = mix(decoder, weights, ops, normed, i, part)
        if decoder.parallel:
            if layer + "ffn_norm" in weights:
                normed = ops.norm(x, weights[layer + "ffn_norm"])
            branch = ops.add(branch, feed_forward(decoder, weights, ops, normed, layer))
            continue
        if layer + "post_attention_norm" in weights:
            branch = ops.norm(branch, weights[layer + "post_attention_norm"])
        if layer + "cross_q_proj" in weights:
            normed, x = ops.add_norm(x, branch, weights[layer + "cross_norm"])
            attended = ops.cross_attention(ops.linear(normed, weights[layer + "cross_q_proj"]), i)
            branch = ops.linear(attended, weights[layer + "cross_o_proj"])
        x, branch = norm_sum(weights, ops, x, branch, layer + "attention_sum_norm")
        normed, x = add_norm(weights, ops, x, branch, layer + "ffn_norm")
        branch = feed_forward(decoder, weights, ops, normed, layer)
        if layer + "post_ffn_norm" in weights:
            branch = ops.norm(branch, weights[layer + "post_ffn_norm"])
        x, branch = norm_sum(weights, ops, x, branch, layer + "ffn_sum_norm")
    return x, branch


def mix(decoder: Decoder, weights: Weights, ops: Ops[Tensor], x: Tensor, number: int, part: str) -> Tensor:
    """Compute what a layer's tokens take from those before them, by attention or by a state: (B, T, hidden)."""
    layer, recurrence = f"{part}layers.{number}.", decoder.layers[number].recurrence
    if isinstance(recurrence, ShortConvolution):
        mixed = ops.short_convolution(ops.linear(x, weights[layer + "in_proj"]), number, weights[layer + "convolution"])
    elif isinstance(recurrence, DeltaNet):
        own = DeltaWeights(*(weights[layer + name] for name in ("convolution", "decay", "decay_bias", "value_norm")))
        rates = ops.linear(x, weights[layer + "rates_proj"])
        mixed = ops.delta_net(ops.linear(x, weights[layer + "qkvz_proj"]), rates, number, own)
    else:
        mixed = attend(decoder, weights, ops, x, number, part)
    return ops.linear(mixed, weights[layer + "o_proj"])


def attend(decoder: Decoder, weights: Weights, ops: Ops[Tensor], x: Tensor, number: int, part: str) -> Tensor:
    """Compute a layer's attention, opened by gates where it has them: (B, T, hidden) -> (B, T, Q)."""
    layer = f"{part}layers.{number}."
    if layer + "kv_down_proj" in weights:
        qkv = expand_latents(weights, ops, x, layer)
    else:
        qkv = ops.linear(x, weights[layer + "qkv_proj"])  # (B, T, (heads + 2 kv_heads) head_dim)
    if decoder.qkv_clip:
        qkv = ops.clip(qkv, decoder.qkv_clip)
    q_norm, k_norm = weights.get(layer + "q_norm"), weights.get(layer + "k_norm")
    norms = (q_norm, k_norm) if q_norm and k_norm else None
    bias = weights.get(layer + "relative_bias") or weights.get(part + "relative_bias")
    attended = ops.attention(qkv, number, norms, bias, weights.get(layer + "sinks"))
    if layer + "attention_gate" in weights:
        attended = ops.open(attended, ops.linear(x, weights[layer + "attention_gate"]))
    return attended


def expand_latents(weights: Weights, ops: Ops[Tensor], x: Tensor, layer: str) -> Tensor:
    """Make queries, keys and values of the few elements that all heads share: (B, T, (heads + 2 kv_heads) head_dim)."""
    latent = ops.norm(ops.linear(x, weights[layer + "kv_down_proj"]), weights[layer + "kv_down_norm"])
    shared = ops.join(latent, ops.linear(x, weights[layer + "k_turning_proj"]))
    if layer + "q_down_proj" in weights:
        x = ops.norm(ops.linear(x, weights[layer + "q_down_proj"]), weights[layer + "q_down_norm"])
    queries = ops.linear(x, weights[layer + "q_proj"])
    return ops.join(queries, ops.linear(shared, weights[layer + "kv_up_proj"]))


def feed_forward(decoder: Decoder, weights: Weights, ops: Ops[Tensor], x: Tensor, layer: str) -> Tensor:
    """Compute one layer's feed-forward: what is for all tokens, and the experts that each chooses, where there are."""
    if layer + "router" not in weights:
        return shared_forward(decoder, weights, ops, x, layer)
    assert decoder.experts  # which say that there is a router
    logits = ops.linear(x, weights[layer + "router"])
    roles = (ExpertMatrices(weights, layer, role, decoder.experts.count) for role in ("gate_up_proj", "down_proj"))
    mixed = ops.experts(x, logits, weights.get(layer + "choice_bias"), *roles)
    if not decoder.experts.shared:
        return mixed
    shared = shared_forward(decoder, weights, ops, x, layer)
    if layer + "shared_gate" in weights:
        shared = ops.open(shared, ops.linear(x, weights[layer + "shared_gate"]))
    return ops.add(mixed, shared)


def shared_forward(decoder: Decoder, weights: Weights, ops: Ops[Tensor], x: Tensor, layer: str) -> Tensor:
    """Compute the feed-forward that all tokens go through, gated where it has a gate."""
    if layer + "gate_up_proj" in weights:
        hidden = ops.gate(ops.linear(x, weights[layer + "gate_up_proj"]), decoder.activation)
    else:
        hidden = ops.linear(x, weights[layer + "up_proj"])
        learned = decoder.activation == "xielu"
        hidden = xielu(ops, hidden, weights[layer + "xielu"]) if learned else ops.activate(hidden, decoder.activation)
    return ops.linear(hidden, weights[layer + "down_proj"])


def xielu(ops: Ops[Tensor], x: Tensor, factors: Weight) -> Tensor:
    """A square above 0, an exponential below it, and a straight line, each by its factor of the three.

    Huang and Schlag, https://arxiv.org/abs/2411.13010.
    """
    square, bent, straight = np.asarray(factors.values).tolist()
    curve = ops.add(ops.scale(ops.activate(x, "relu2"), square), ops.scale(ops.activate(x, "elu"), bent))
    return ops.add(curve, ops.scale(x, straight))


def add_norm(weights: Weights, ops: Ops[Tensor], x: Tensor, branch: Tensor | None, name: str) -> tuple[Tensor, Tensor]:
    """Return the norm of `x` and the branch still to be added, and their sum; twice the sum where there is no norm."""
    if name in weights:
        return (ops.norm(x, weights[name]), x) if branch is None else ops.add_norm(x, branch, weights[name])
    total = x if branch is None else ops.add(x, branch)
    return total, total


def norm_sum(
    weights: Weights, ops: Ops[Tensor], x: Tensor, branch: Tensor | None, name: str
) -> tuple[Tensor, Tensor | None]:
    """Put the norm of the residual in its place, where the model normalises after adding."""
    return (add_norm(weights, ops, x, branch, name)[0], None) if name in weights else (x, branch)
