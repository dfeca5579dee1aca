"""What a decoder is: its sizes, its layers (attention, recurrence, experts) and its weights."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

Activation = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2", "elu", "xielu"]
"""relu2 is the square of relu; xielu combines relu2 and elu with factors learned per layer."""
LARGEST = 1 << 30
"""The largest head_dim * context_length that a description may claim."""

LEAST_SQUARE = 1e-5
"""Gemma 3n: the lower bound of the mean square that `Ops.match_rms` divides by; no config field has it."""

NEAR_ZERO = 1e-6
"""Qwen's delta nets: added to a vector's squared length before dividing by its root; no config field has it."""


@dataclass(frozen=True)
class Rope:
    """Rotary position embedding: elements i and i + head_dim / 2 rotate together; frequency 0 leaves them alone."""

    inverse_frequencies: tuple[float, ...]  # head_dim / 2 of them
    amplitude: float = 1.0
    """The factor of the elements that rotate."""
    long: tuple[float, ...] = ()
    """LongRoPE: the inverse frequencies for all tokens of a text that is longer than `border` tokens."""
    border: int = 0

    @property
    def amplitudes(self) -> np.ndarray:
        """The factor of each element, (head_dim / 2,)."""
        return np.where(np.array(self.inverse_frequencies) == 0, 1.0, self.amplitude)

    @property
    def stretched(self) -> "Rope":
        """The same for texts longer than the border."""
        return replace(self, inverse_frequencies=self.long, long=(), border=0) if self.border else self


@dataclass(frozen=True)
class Latent:
    """Multi-head latent attention, as in DeepSeek-V2, https://arxiv.org/abs/2405.04434.

    Keys and values of all heads are projected up from one small vector per token.
    """

    rank: int
    """Size of the latent vector that keys (without their rotary part) and values are made of."""
    turning: int
    """Size of the rotary part of a key, which all heads share."""
    value: int
    """Size of a head's value, padded with zeros to `head_dim`."""
    queries: int = 0
    """Size of the latent vector that queries are made of; 0: they are projected from the residual."""
    gain: float = 1.0
    """Factor of the latents before their norms, which makes up for norms with an epsilon of their own."""

    def __post_init__(self) -> None:
        require_sizes(rank=self.rank, turning=self.turning, value=self.value)


@dataclass(frozen=True)
class ShortConvolution:
    """A gated short convolution over the newest tokens: LFM2, https://arxiv.org/abs/2511.23404."""

    width: int
    """Tokens in the kernel, the newest included."""

    def __post_init__(self) -> None:
        require_sizes(width=self.width)


@dataclass(frozen=True)
class SelectiveState:
    """A selective state space: `size` decaying numbers per channel. Mamba, https://arxiv.org/abs/2312.00752."""

    channels: int
    size: int
    """Numbers kept per channel."""
    rank: int
    """Size of the low-rank projection that a token's step sizes are made of."""
    width: int
    """Tokens in the convolution's kernel, the newest included."""

    def __post_init__(self) -> None:
        require_sizes(channels=self.channels, size=self.size, rank=self.rank, width=self.width)

    @property
    def elements(self) -> int:
        """Size of the state."""
        return self.channels * self.size


@dataclass(frozen=True)
class MatrixState:
    """Linear attention: a state matrix per head, written by keys and values and read by queries."""

    key_heads: int
    value_heads: int
    key_size: int
    value_size: int
    width: int
    """Tokens in the kernel of the convolution over queries, keys and values, the newest included."""

    def __post_init__(self) -> None:
        require_sizes(key_heads=self.key_heads, value_heads=self.value_heads, width=self.width)
        require_sizes(key_size=self.key_size, value_size=self.value_size)
        if self.value_heads % self.key_heads:
            raise ValueError(f"{self.value_heads} heads of values cannot share {self.key_heads} of keys evenly")

    @property
    def channels(self) -> int:
        """Size of a token's queries, keys and values together."""
        return 2 * self.key_heads * self.key_size + self.value_elements

    @property
    def elements(self) -> int:
        """Size of the state."""
        return self.value_heads * self.value_size * self.key_size

    @property
    def value_elements(self) -> int:
        """Size of a token's values."""
        return self.value_heads * self.value_size

    @property
    def rates(self) -> int:
        """How many numbers per token control writing and decay."""
        return self.value_heads


@dataclass(frozen=True)
class DeltaNet(MatrixState):
    """The gated delta rule, where a value replaces what its key found: https://arxiv.org/abs/2412.06464."""

    epsilon: float | None = None
    """The epsilon of the norm of each head's output; None: the decoder's."""
    most: float = 1.0
    """The largest share of the old value that is removed; above 1 it may change sign."""

    @property
    def rates(self) -> int:
        return 2 * self.value_heads


@dataclass(frozen=True)
class Mamba(MatrixState):
    """Mamba-2, https://arxiv.org/abs/2405.21060: the state decays, and values are added.

    Its C, B and x are queries, keys and values; the heads of a group share queries and keys.
    """

    epsilon: float | None = 1e-5
    """The epsilon of the norm over the heads that share keys; None: there is no norm."""


@dataclass(frozen=True)
class Layer:
    """One layer: its attention, the recurrence instead of it or beside it, and its feed-forward."""

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    rope: Rope | None = None
    alibi: tuple[float, ...] = ()
    """ALiBi slopes, one per head, or none."""
    window: int = 0
    """A query sees keys at `0 <= distance < window`; 0: no limit."""
    softcap: float = 0.0
    causal: bool = True
    """False in an encoder: a query sees keys on both sides, and nothing is cached."""
    buckets: tuple[int, ...] = ()
    """The row of `relative_bias` for each distance: 0 to n, or -n to n where attention is not causal. Larger distances
    use the last row."""
    qk_norm: Literal["head", "heads", "turned"] = "head"
    """What `q_norm` and `k_norm` normalise: each head, all heads together, or each head after its rotation."""
    gates: Literal["element", "head"] = "element"
    """Whether `attention_gate` has a number for each element or for each head."""
    latent: Latent | None = None
    recurrence: ShortConvolution | SelectiveState | DeltaNet | Mamba | None = None
    """What replaces attention; the layer then keeps a state, and no keys and values."""
    beside: bool = False
    """Whether the layer also attends: both read the same input, and their outputs are added."""
    gains: tuple[float, ...] = ()
    """Numbers by which a family changes some of the layer's matrices while they are read."""
    kv_layer: int | None = None
    """The earlier layer whose keys and values it attends to, having none of its own."""
    k_eq_v: bool = False
    """Whether values are the keys before their norm: the checkpoint has one matrix for both."""
    feeds: bool = True
    """Whether a feed-forward follows the attention or recurrence."""
    cutoff: float | None = None
    """Gates below mean + `cutoff` standard deviations become 0, as in Gemma 3n; None: there is no cutoff."""

    def __post_init__(self) -> None:
        require_sizes(heads=self.heads, kv_heads=self.kv_heads, head_dim=self.head_dim)
        if self.heads % self.kv_heads:
            raise ValueError(f"{self.heads} heads cannot share {self.kv_heads} key-value heads evenly")

    @property
    def attends(self) -> bool:
        """Whether the layer has attention, alone or beside a recurrence."""
        return self.beside or self.recurrence is None


@dataclass(frozen=True)
class Clamped:
    """The clamped gate of some experts: `g * sigmoid(alpha * g) * (u + 1)`, g at most `limit`, u in [-limit, limit]."""

    alpha: float
    limit: float


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: how each token chooses some of many feed-forwards, and how they are weighted."""

    layers: tuple[int, ...]
    """The layers with experts; the others have one feed-forward."""
    count: int
    chosen: int
    size: int
    """Intermediate size of an expert."""
    scores: Literal["softmax", "sigmoid", "sparsemixer"] = "softmax"
    """How the router's logits become scores. With sparsemixer, https://arxiv.org/abs/2409.12136, an expert's share is
    the softmax of its logit among those near it, without the experts chosen before; `normalised` and `scale` do not
    apply."""
    nearness: float = 0.0
    """sparsemixer: logits count as near within this distance, relative to the larger of the two."""
    normalised: bool = True
    """Whether the chosen experts' scores are divided by their sum."""
    scale: float = 1.0
    """Factor of the shares."""
    groups: int = 1
    """Groups of consecutive experts; only the `chosen_groups` with the largest sums of their two best scores are
    eligible."""
    chosen_groups: int = 1
    shared: bool = False
    """Whether these layers also have a feed-forward that all tokens go through."""
    clamped: Clamped | None = None
    """How experts gate, if not by the decoder's activation."""

    def __post_init__(self) -> None:
        sizes = dict(experts=self.count, experts_of_a_token=self.chosen, expert_size=self.size)
        require_sizes(**sizes, groups=self.groups, chosen_groups=self.chosen_groups)
        if self.chosen * self.groups > self.count * self.chosen_groups:
            raise ValueError(f"a token cannot choose {self.chosen} of {self.count} experts")
        if self.count % self.groups or (self.groups > 1 and self.count < 2 * self.groups):
            raise ValueError(f"{self.count} experts cannot be in {self.groups} groups")

    @property
    def plain(self) -> bool:
        """Whether shares are simply the softmax over the chosen experts' logits."""
        return self.scores == "softmax" and self.normalised and self.scale == 1 and self.groups == 1


@dataclass(frozen=True)
class Decoder:
    """A causal language model as numbers; optional parts exist where their weights do."""

    layers: tuple[Layer, ...]
    hidden_size: int
    vocab_size: int
    context_length: int
    norm: Literal["rms", "layer"]
    epsilon: float
    activation: Activation
    qkv_clip: float = 0.0
    """Queries, keys and values are clamped to [-qkv_clip, qkv_clip]; 0: they are not."""
    parallel: bool = False
    """Whether attention and feed-forward read the same residual, side by side."""
    embedding_scale: float = 1.0
    output_scale: float = 1.0
    """Factor of the last norm's output, before the head."""
    logit_softcap: float = 0.0
    encoder: tuple[Layer, ...] = ()
    """The encoder's layers, which read the whole prompt; the decoder attends to their output."""
    start_token: int = 0
    """With an encoder: the token before the answer's first one."""
    experts: Experts | None = None
    """The experts, where layers have them."""
    per_layer_size: int = 0
    """Size of the extra token embedding that each layer has; 0: none."""
    per_layer_scale: float = 1.0
    """Factor of those embeddings."""
    residuals: int = 1
    """Number of residual streams; layers read the first. More than 1 is AltUp, https://arxiv.org/abs/2301.13310."""

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
        if not 0 <= self.start_token < self.vocab_size:
            raise ValueError(f"the start token {self.start_token} is not among the {self.vocab_size} of the vocabulary")

    @property
    def border(self) -> int:
        """LongRoPE: texts up to this many tokens use the short frequencies; 0: there is only one set."""
        return max((layer.rope.border for layer in self.layers if layer.rope), default=0)

    @property
    def recurrent(self) -> bool:
        """Whether some layers keep a recurrent state, which cannot be rewound."""
        return any(layer.recurrence for layer in self.layers)

    @property
    def stretched(self) -> "Decoder":
        """The decoder for texts longer than the border."""
        layers = (replace(layer, rope=layer.rope and layer.rope.stretched) for layer in self.layers)
        return replace(self, layers=tuple(layers))

    @property
    def cached_layers(self) -> list[tuple[int, Layer]]:
        """The layers with keys and values of their own, with their indices."""
        return [(i, layer) for i, layer in enumerate(self.layers) if layer.kv_layer is None and layer.attends]

    @property
    def sharing_start(self) -> int:
        """The first of the last layers without keys, values or a state of their own.

        No later token reads what these layers compute.
        """
        return max((i + 1 for i, layer in enumerate(self.layers) if layer.kv_layer is None), default=0)

    @property
    def as_encoder(self) -> "Decoder":
        """The encoder as a decoder of its own, without the head."""
        return replace(self, layers=self.encoder, encoder=())


def require_sizes(**sizes: object) -> None:
    """Raise ValueError for a size that is not a positive whole number."""
    for name, size in sizes.items():
        if type(size) is not int or size < 1:
            raise ValueError(f"{name} must be a positive whole number, not {size!r}")


@dataclass(frozen=True)
class Quantized:
    """`(values - zero_points) * scales`; `block` neighbours of a row share a scale and a zero point.

    `values` is int8 or int16 (out, in), or uint8 (out, in / 2) with two nibbles per byte, the low one first.
    """

    values: np.ndarray
    scales: np.ndarray  # (out, in / block)
    bits: int
    """Bits per stored value: 4, 8 or 16."""
    block: int
    zero_points: np.ndarray | None = None  # (out, in / block), uint8 for nibbles and else int8
    """None: 8 for nibbles, otherwise 0."""
    format: str = ""
    """The microscaling format that `values` are elements of, in multiples of its smallest; "" for plain integers."""


@dataclass(frozen=True)
class Weight:
    """One named parameter: a matrix (out, in), a norm (size,) or a table (rows, size)."""

    name: str
    values: np.ndarray | Quantized
    bias: np.ndarray | None = None

    def times(self, factor: float) -> "Weight":
        """The weight and bias times a factor."""
        values, bias, by = self.values, self.bias, np.float32(factor)
        scaled = replace(values, scales=values.scales * by) if isinstance(values, Quantized) else None
        bias = None if bias is None else np.asarray(bias, np.float32) * by
        return Weight(self.name, scaled or np.asarray(values, np.float32) * by, bias)

    def with_rows(self, change: Callable[[np.ndarray], np.ndarray], suffix: str = "") -> "Weight":
        """The same with `change` applied to its rows, scales, zero points and bias, and `suffix` after its name."""
        values, bias = self.values, None if self.bias is None else change(self.bias)
        if not isinstance(values, Quantized):
            return Weight(self.name + suffix, change(values), bias)
        zeros = None if values.zero_points is None else change(values.zero_points)
        changed = replace(values, values=change(values.values), scales=change(values.scales), zero_points=zeros)
        return Weight(self.name + suffix, changed, bias)


Norms = tuple[Weight, ...]
"""The norms of a layer's queries, keys and values, or of the first of these only."""


class StateWeights(NamedTuple):
    """The other weights of a `MatrixState` layer; `norm` is Mamba-2's, or that of each head."""

    kernel: Weight  # (channels, width)
    decay: Weight  # (value_heads,), logarithms of rates
    decay_bias: Weight  # (value_heads,)
    norm: Weight | None  # (value_elements,) or (value_size,)
    skip: Weight | None  # (value_heads,), of Mamba-2 alone


Weights = Mapping[str, Weight]
"""Canonical weights by name, read when asked for: `layers.0.qkv_proj`, `encoder.layers.0.qkv_proj`, `embedding`, ..."""


class Lazy(Mapping[str, Weight]):
    """Weights by name, each read when it is asked for; subclasses define `__getitem__`."""

    table: Mapping[str, object]

    def __iter__(self) -> Iterator[str]:
        return iter(self.table)

    def __len__(self) -> int:
        return len(self.table)

    def __contains__(self, name: object) -> bool:
        return name in self.table


@dataclass(frozen=True)
class ExpertMatrices:
    """One matrix (`role`) of all experts of a layer, each read when it is asked for."""

    weights: Weights
    layer: str
    role: str
    count: int
    scales: Weight | None = None
    """Factor of each expert's output, (count,)."""

    @property
    def name(self) -> str:
        """The name of all of them together."""
        return f"{self.layer}experts.{self.role}"

    def __getitem__(self, expert: int) -> Weight:
        weight = self.weights[f"{self.layer}experts.{expert}.{self.role}"]
        return weight if self.scales is None else weight.times(np.asarray(self.scales.values)[expert])

    def __iter__(self) -> Iterator[Weight]:
        return (self[expert] for expert in range(self.count))
