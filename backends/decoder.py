"""What a decoder is, and how its logits are computed, whatever does the arithmetic."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, Protocol, TypeVar

import numpy as np

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2", "elu", "xielu"]
"""relu2 is the square of relu; xielu is made of others, with factors of each layer."""
Tensor = TypeVar("Tensor")
LARGEST = 1 << 30
"""Numbers that a head keeps for a whole context, beyond which no description is believed."""


@dataclass(frozen=True)
class Rope:
    """Rotary positions: elements i and i + head_dim / 2 turn together; frequency 0 leaves them alone."""

    inverse_frequencies: tuple[float, ...]  # head_dim / 2 of them
    amplitude: float = 1.0
    """What the elements that turn are multiplied by."""
    long: tuple[float, ...] = ()
    """The inverse frequencies of all tokens of a text with more of them than `border`, where those turn otherwise."""
    border: int = 0

    @property
    def amplitudes(self) -> np.ndarray:
        """What each element is multiplied by, (head_dim / 2,)."""
        return np.where(np.array(self.inverse_frequencies) == 0, 1.0, self.amplitude)

    @property
    def stretched(self) -> "Rope":
        """The positions of texts beyond the border alone."""
        return replace(self, inverse_frequencies=self.long, long=(), border=0) if self.border else self


@dataclass(frozen=True)
class Latent:
    """What keys and values are made of where all heads share it, as DeepSeek does, https://arxiv.org/abs/2405.04434.

    The weights say how; this is what their shapes, and their reading, follow from.
    """

    rank: int
    """Elements of which each head makes its keys, but for those that turn, and its values."""
    turning: int
    """Elements of a key that turn, the same in each head."""
    value: int
    """Elements of a head's value; the others of `head_dim` are 0."""
    queries: int = 0
    """Elements of which the queries are made; 0 where that is the residual."""
    gain: float = 1.0
    """What the latents are multiplied by before their norms, which makes up for an epsilon of their own."""

    def __post_init__(self) -> None:
        require_sizes(rank=self.rank, turning=self.turning, value=self.value)


@dataclass(frozen=True)
class Attention:
    """How one layer attends: a query sees keys at `0 <= distance < window` (0: no limit)."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    rope: Rope | None = None
    alibi: tuple[float, ...] = ()
    """One slope per head, or none."""
    window: int = 0
    softcap: float = 0.0
    causal: bool = True
    """Only in an encoder a query sees keys on both sides of it, and nothing is cached."""
    buckets: tuple[int, ...] = ()
    """The row of the table `relative_bias` for each distance: from 0, or from -n to n where attention is not causal;
    what is farther away counts as the last."""
    qk_norm: Literal["head", "heads", "turned"] = "head"
    """What `q_norm` and `k_norm` normalise: each head, all heads together, or each head when it has turned."""
    latent: Latent | None = None

    def __post_init__(self) -> None:
        require_sizes(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim)
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly")


@dataclass(frozen=True)
class Clamped:
    """A gate of some experts: `g * sigmoid(alpha * g) * (u + 1)`, with g up to `limit`, and u from -limit to limit."""

    alpha: float
    limit: float


@dataclass(frozen=True)
class Experts:
    """How each token chooses a few of many feed-forwards, and what share each of these has in the sum of them."""

    layers: tuple[int, ...]
    """The layers that choose; the others have one feed-forward."""
    count: int
    chosen: int
    size: int
    """Hidden elements of each."""
    scores: Literal["softmax", "sigmoid", "sparsemixer"] = "softmax"
    """What becomes of the router's logits; with sparsemixer, https://arxiv.org/abs/2409.12136, the share of an expert
    is the softmax of its logit beside those near it, without those of experts chosen before; that is all."""
    nearness: float = 0.0
    """How far below a chosen logit others count, relative to the larger of both, with sparsemixer."""
    normalised: bool = True
    """Whether the scores of the chosen ones are divided by their sum."""
    scale: float = 1.0
    """What the shares are multiplied by."""
    groups: int = 1
    """Groups of neighbours, of which the `chosen_groups` with the largest sums of two scores may be chosen from."""
    chosen_groups: int = 1
    shared: bool = False
    """Whether these layers have, beside the experts, a feed-forward for all tokens."""
    clamped: Clamped | None = None
    """How they gate, where not as the decoder's activation says."""

    def __post_init__(self) -> None:
        sizes = dict(experts=self.count, experts_of_a_token=self.chosen, expert_size=self.size)
        require_sizes(**sizes, groups=self.groups, chosen_groups=self.chosen_groups)
        if self.chosen * self.groups > self.count * self.chosen_groups:
            raise ValueError(f"a token cannot choose {self.chosen} of {self.count} experts")
        if self.count % self.groups or (self.groups > 1 and self.count < 2 * self.groups):
            raise ValueError(f"{self.count} experts cannot be in {self.groups} groups")

    @property
    def plain(self) -> bool:
        """Whether shares are the softmax of the logits of the chosen ones."""
        return self.scores == "softmax" and self.normalised and self.scale == 1 and self.groups == 1


@dataclass(frozen=True)
class Decoder:
    """A causal language model, as numbers; its optional parts are the weights that are present."""

    layers: tuple[Attention, ...]
    hidden_size: int
    vocab_size: int
    context_length: int
    norm: Literal["rms", "layer"]
    epsilon: float
    activation: Activation
    qkv_clip: float = 0.0
    """How large queries, keys and values can be, in both directions; 0: as they are."""
    parallel: bool = False
    """Attention and feed-forward read the same residual, side by side."""
    embedding_scale: float = 1.0
    output_scale: float = 1.0
    """What the last norm is multiplied by before the head."""
    logit_softcap: float = 0.0
    encoder: tuple[Attention, ...] = ()
    """Layers that read the prompt as a whole; the decoder attends to what they make of it, and writes the answer."""
    start_token: int = 0
    """With an encoder: what stands before the answer's first token."""
    experts: Experts | None = None
    """What layers choose from, where they have more than one feed-forward."""

    def __post_init__(self) -> None:
        sizes = dict(hidden_size=self.hidden_size, vocab_size=self.vocab_size, context_length=self.context_length)
        require_sizes(layers=len(self.layers), **sizes)
        widest = max(layer.head_dim for layer in self.layers)
        if widest * self.context_length > LARGEST:
            raise ValueError(f"a context of {self.context_length:,} tokens with heads of {widest:,} is too large")
        if not 0 <= self.start_token < self.vocab_size:
            raise ValueError(f"the start token {self.start_token} is not among the {self.vocab_size} of the vocabulary")

    @property
    def border(self) -> int:
        """Tokens up to which positions turn as in short texts; 0 where they turn alike in all."""
        return max((layer.rope.border for layer in self.layers if layer.rope), default=0)

    @property
    def stretched(self) -> "Decoder":
        """The decoder of texts beyond the border alone."""
        return replace(self, layers=tuple(replace(a, rope=a.rope and a.rope.stretched) for a in self.layers))

    @property
    def reader(self) -> "Decoder":
        """The encoder: the same but for its layers, and that no logits are made of it."""
        return replace(self, layers=self.encoder, encoder=())


def require_sizes(**sizes: object) -> None:
    """Raise ValueError for a size that is not a positive whole number."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} must be a positive whole number, not {size!r}")


@dataclass(frozen=True)
class Quantized:
    """`(values - zero_points) * scales`, each scale and zero point shared by `block` neighbours of a row.

    `values` is int8 or int16 (out, in), or uint8 (out, in / 2) holding two nibbles, the low one first.
    """

    values: np.ndarray
    scales: np.ndarray  # (out, in / block)
    bits: int
    """4, 8 or 16 that hold a value."""
    block: int
    zero_points: np.ndarray | None = None  # (out, in / block), uint8 for nibbles and else int8
    """None: 8 for nibbles and else 0."""
    format: str = ""
    """The microscaling format whose elements the values are, in units of its smallest; "" for plain integers."""


@dataclass(frozen=True)
class Weight:
    """One named parameter: a matrix (out, in), a norm (size,) or a table (rows, size)."""

    name: str
    values: np.ndarray | Quantized
    bias: np.ndarray | None = None


Norms = tuple[Weight, Weight] | None
"""Of the queries and the keys of a layer, if they are normalised."""
Weights = Mapping[str, Weight]
"""Canonical weights by name, read when asked for: `layers.0.qkv_proj`, `encoder.layers.0.qkv_proj`, `embedding`, ..."""


class Lazy(Mapping[str, Weight]):
    """Weights under the names in a table; a subclass reads one when it is asked for."""

    table: Mapping[str, object]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, name: object) -> bool:
        return name in self.table


@dataclass(frozen=True)
class ExpertMatrices:
    """The matrices that all experts of a layer have in one role, each read when it is asked for."""

    weights: Weights
    layer: str
    role: str
    count: int

    @property
    def name(self) -> str:
        """What names all of them."""
        return f"{self.layer}experts.{self.role}"

    def __getitem__(self, expert: int) -> Weight:
        return self.weights[f"{self.layer}experts.{expert}.{self.role}"]

    def __iter__(self) -> Iterator[Weight]:
        return (self[expert] for expert in range(self.count))


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
        """Each token times the sigmoid of its logit (B, T, 1)."""

    def last(self, x: Tensor) -> Tensor:
        """Keep the tokens whose logits are wanted."""

    def softcap(self, x: Tensor, cap: float) -> Tensor: ...


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
        if layer + "kv_down_proj" in weights:
            qkv = expand_latents(weights, ops, normed, layer)
        else:
            qkv = ops.linear(normed, weights[layer + "qkv_proj"])  # (B, T, (heads + 2 kv_heads) head_dim)
        if decoder.qkv_clip:
            qkv = ops.clip(qkv, decoder.qkv_clip)
        q_norm, k_norm = weights.get(layer + "q_norm"), weights.get(layer + "k_norm")
        norms = (q_norm, k_norm) if q_norm and k_norm else None
        bias = weights.get(layer + "relative_bias") or weights.get(part + "relative_bias")
        attended = ops.attention(qkv, i, norms, bias, weights.get(layer + "sinks"))
        branch = ops.linear(attended, weights[layer + "o_proj"])  # (B, T, hidden)
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
