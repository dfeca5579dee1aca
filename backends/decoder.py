"""What a decoder is: its sizes, how its layers attend, keep states and choose experts, and its weights."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2", "elu", "xielu"]
"""relu2 is the square of relu; xielu is made of others, with factors of each layer."""
LARGEST = 1 << 30
"""Numbers that a head keeps for a whole context, beyond which no description is believed."""

LEAST_SQUARE = 1e-5
"""The least mean of squares by which a residual is made as large as another: no field of Gemma 3n's says it."""

NEAR_ZERO = 1e-6
"""What a delta net adds to the square of a vector's length before it divides by that: no field of Qwen's says it."""


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
class ShortConvolution:
    """How one layer mixes a token with those just before it, between two gates: LFM2, https://arxiv.org/abs/2511.23404."""

    width: int
    """Tokens that each sees, itself among them."""

    def __post_init__(self) -> None:
        require_sizes(width=self.width)


@dataclass(frozen=True)
class SelectiveState:
    """How one layer keeps a few numbers of each channel, each of which fades at its own rate: Mamba,
    https://arxiv.org/abs/2312.00752."""

    channels: int
    size: int
    """Numbers that are kept of a channel."""
    rank: int
    """Elements of which a token's steps are made, one for each channel."""
    width: int
    """Tokens that each sees in the convolution, itself among them."""

    def __post_init__(self) -> None:
        require_sizes(channels=self.channels, size=self.size, rank=self.rank, width=self.width)

    @property
    def elements(self) -> int:
        """Elements of the state."""
        return self.channels * self.size


@dataclass(frozen=True)
class MatrixState:
    """How one layer keeps what it has read in a matrix of each head, which queries ask and keys and values change."""

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    width: int
    """Tokens that each sees in the convolution of queries, keys and values, itself among them."""

    def __post_init__(self) -> None:
        require_sizes(key_heads=self.key_heads, value_heads=self.value_heads, width=self.width)
        require_sizes(key_size=self.key_size, value_size=self.value_size)
        if self.value_heads % self.key_heads:
            raise ValueError(f"{self.value_heads} heads of values cannot share {self.key_heads} of keys evenly")

    @property
    def channels(self) -> int:
        """Elements of a token's queries, keys and values."""
        return 2 * self.key_heads * self.key_size + self.value_elements

    @property
    def elements(self) -> int:
        """Elements of the state."""
        return self.value_heads * self.value_size * self.key_size

    @property
    def value_elements(self) -> int:
        """Elements of a token's values."""
        return self.value_heads * self.value_size

    @property
    def rates(self) -> int:
        """Numbers of a token that say how much is written and kept."""
        return self.value_heads


@dataclass(frozen=True)
class DeltaNet(MatrixState):
    """Where a value takes the place of what its key found before: gated delta rule, https://arxiv.org/abs/2412.06464."""

    epsilon: float | None = None
    """Of the norm of what each head answers; None: the decoder's."""
    most: float = 1.0
    """How much of what was found there is taken away at most: more than 1 where it may become its opposite."""

    @property
    def rates(self) -> int:
        return 2 * self.value_heads


@dataclass(frozen=True)
class Mamba(MatrixState):
    """Where values are added to what fades: Mamba-2, https://arxiv.org/abs/2405.21060.

    Its C, B and x are queries, keys and values; heads of a group share the former two.
    """

    epsilon: float | None = 1e-5
    """Of the norm of what the heads that share keys answer together; None: there is no norm."""


@dataclass(frozen=True)
class Layer:
    """One layer: its attention, the recurrence instead of it or beside it, and its feed-forward."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    rope: Rope | None = None
    alibi: tuple[float, ...] = ()
    """One slope per head, or none."""
    window: int = 0
    """A query sees keys at `0 <= distance < window`; 0: no limit."""
    softcap: float = 0.0
    causal: bool = True
    """Only in an encoder a query sees keys on both sides of it, and nothing is cached."""
    buckets: tuple[int, ...] = ()
    """The row of the table `relative_bias` for each distance: from 0, or from -n to n where attention is not causal;
    what is farther away counts as the last."""
    qk_norm: Literal["head", "heads", "turned"] = "head"
    """What `q_norm` and `k_norm` normalise: each head, all heads together, or each head when it has turned."""
    gates: Literal["element", "head"] = "element"
    """What each number of `attention_gate` opens."""
    latent: Latent | None = None
    recurrence: ShortConvolution | SelectiveState | DeltaNet | Mamba | None = None
    """What the layer has in the place of attention; it keeps a state then, and nothing is cached."""
    beside: bool = False
    """Whether it attends beside that, too: both read the same, and what they make of it is added."""
    gains: tuple[float, ...] = ()
    """What a family multiplies some of the layer's matrices by while they are read."""
    kv_layer: int | None = None
    """The layer before this one whose keys and values it attends to, having none of its own."""
    k_eq_v: bool = False
    """Whether values are what keys are before their norm: there is one matrix for both, until it is read."""
    feeds: bool = True
    """Whether a feed-forward follows."""
    cutoff: float | None = None
    """How many standard deviations above their mean the gates of that begin, and the others are 0; None: all count."""

    def __post_init__(self) -> None:
        require_sizes(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim)
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly")

    @property
    def attends(self) -> bool:
        """Whether tokens see others, with nothing in the place of that or beside it."""
        return self.beside or self.recurrence is None


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

    layers: tuple[Layer, ...]
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
    encoder: tuple[Layer, ...] = ()
    """Layers that read the prompt as a whole; the decoder attends to what they make of it, and writes the answer."""
    start_token: int = 0
    """With an encoder: what stands before the answer's first token."""
    experts: Experts | None = None
    """What layers choose from, where they have more than one feed-forward."""
    per_layer_size: int = 0
    """Elements of a token's embedding that each layer has beside the residual; 0: none."""
    per_layer_scale: float = 1.0
    """What those are multiplied by."""
    residuals: int = 1
    """Residuals that travel side by side, of which layers read the first: AltUp, https://arxiv.org/abs/2301.13310."""

    def __post_init__(self) -> None:
        sizes = dict(hidden_size=self.hidden_size, vocab_size=self.vocab_size, context_length=self.context_length)
        require_sizes(layers=len(self.layers), **sizes)
        for i, layer in enumerate(self.layers):
            if layer.kv_layer is None:
                continue
            makers = (replace(each, cutoff=layer.cutoff) for each in self.layers[:i])
            if dict(enumerate(makers)).get(layer.kv_layer) != replace(layer, kv_layer=None):
                raise ValueError(f"layer {i} cannot attend to the keys and values of layer {layer.kv_layer}")
        widest = max(layer.head_dim for layer in self.layers)
        if widest * self.context_length > LARGEST:
            raise ValueError(f"a context of {self.context_length:,} tokens with heads of {widest:,} is too large")
        if not any(layer.attends for layer in self.layers):
            raise ValueError("none of its layers attends")
        if not 0 <= self.start_token < self.vocab_size:
            raise ValueError(f"the start token {self.start_token} is not among the {self.vocab_size} of the vocabulary")

    @property
    def border(self) -> int:
        """Tokens up to which positions turn as in short texts; 0 where they turn alike in all."""
        return max((layer.rope.border for layer in self.layers if layer.rope), default=0)

    @property
    def recurrent(self) -> bool:
        """Whether layers keep states, which go on with every token and cannot go back."""
        return any(layer.recurrence for layer in self.layers)

    @property
    def stretched(self) -> "Decoder":
        """The decoder of texts beyond the border alone."""
        layers = (replace(layer, rope=layer.rope and layer.rope.stretched) for layer in self.layers)
        return replace(self, layers=tuple(layers))

    @property
    def caches(self) -> list[tuple[int, Layer]]:
        """The layers that have keys and values of their own, with their numbers."""
        return [(i, layer) for i, layer in enumerate(self.layers) if layer.kv_layer is None and layer.attends]

    @property
    def readers(self) -> int:
        """Where the last layers begin that have no keys and values of their own, nor a state: of a token, nothing reads
        theirs."""
        return max((i + 1 for i, layer in enumerate(self.layers) if layer.kv_layer is None), default=0)

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

    def times(self, factor: float) -> "Weight":
        """The same, whose products are multiplied by a factor."""
        values, bias, by = self.values, self.bias, np.float32(factor)
        scaled = replace(values, scales=values.scales * by) if isinstance(values, Quantized) else None
        bias = None if bias is None else np.asarray(bias, np.float32) * by
        return Weight(self.name, scaled or np.asarray(values, np.float32) * by, bias)

    def with_rows(self, change: Callable[[np.ndarray], np.ndarray], suffix: str = "") -> "Weight":
        """The same with other rows, those of scales, zero points and the bias with them; `suffix` ends its name."""
        values, bias = self.values, None if self.bias is None else change(self.bias)
        if not isinstance(values, Quantized):
            return Weight(self.name + suffix, change(values), bias)
        zeros = None if values.zero_points is None else change(values.zero_points)
        changed = replace(values, values=change(values.values), scales=change(values.scales), zero_points=zeros)
        return Weight(self.name + suffix, changed, bias)


Norms = tuple[Weight, ...]
"""Of the queries of a layer, of its keys and of its values, or of the first of these only."""


class StateWeights(NamedTuple):
    """What a layer that keeps matrices has beside its own; the norm is that of Mamba-2, or of each head."""

    kernel: Weight  # (channels, width)
    decay: Weight  # (value_heads,), logarithms of rates
    decay_bias: Weight  # (value_heads,)
    norm: Weight | None  # (value_elements,) or (value_size,)
    skip: Weight | None  # (value_heads,), of Mamba-2 alone


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
    scales: Weight | None = None
    """What the products of each are multiplied by, (count,)."""

    @property
    def name(self) -> str:
        """What names all of them."""
        return f"{self.layer}experts.{self.role}"

    def __getitem__(self, expert: int) -> Weight:
        weight = self.weights[f"{self.layer}experts.{expert}.{self.role}"]
        return weight if self.scales is None else weight.times(np.asarray(self.scales.values)[expert])

    def __iter__(self) -> Iterator[Weight]:
        return (self[expert] for expert in range(self.count))
