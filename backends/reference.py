"""The decoder in NumPy: slow and exact, what the other backends are compared with."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from backends import Batch, KeyValues, Placement, check_batch
from backends.cached import CachedSession
from backends.decoder import (
    LEAST_SQUARE,
    NEAR_ZERO,
    Activation,
    Clamped,
    Decoder,
    DeltaNet,
    ExpertMatrices,
    Experts,
    Layer,
    Mamba,
    MatrixState,
    Norms,
    Quantized,
    Rope,
    SelectiveState,
    StateWeights,
    Weight,
    Weights,
)
from backends.forward import encode, forward
from backends.quantize import dequantize
from backends.recurrent import RecurrentSession, States
from backends.rereading import RereadingSession

PART = 1 << 24
"""Matrix values converted to float32 at once, so that a large vocabulary does not fill the memory."""
ACTIVATIONS: dict[Activation, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "elu": lambda x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float32])(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}

Cache = list[tuple[np.ndarray, ...]]
"""For each layer: keys and values (B, kv_heads, S, head_dim), and for a recurrence the last tokens that its convolution
needs (B, width - 1, channels) and its state (B, value_heads, value_size, key_size)."""


class Ops:
    """Operations on arrays; `memory` holds the encoder's keys and values for each layer."""

    def __init__(self, decoder: Decoder, tokens: np.ndarray, cache: Cache, last: int, memory: Cache | None = None):
        past = next((each[0].shape[2] for each, layer in zip(cache, decoder.layers, strict=True) if layer.attends), 0)
        self.decoder, self.cache, self.wanted, self.memory = decoder, cache, last, memory or []
        self.tokens = tokens
        self.positions = np.broadcast_to(np.arange(past, past + tokens.shape[1]), tokens.shape)

    def embed(self, table: Weight, index: np.ndarray) -> np.ndarray:
        return np.asarray(dequantize(table.values, index), np.float32)

    def scale(self, x: np.ndarray, factor: float) -> np.ndarray:
        return x * np.float32(factor)

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(x + y)

    def norm(self, x: np.ndarray, weight: Weight) -> np.ndarray:
        if self.decoder.norm == "layer":
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(self.decoder.epsilon)) * weight.values
        return x if weight.bias is None else x + weight.bias

    def add_norm(self, x: np.ndarray, y: np.ndarray, weight: Weight) -> tuple[np.ndarray, np.ndarray]:
        return self.norm(x + y, weight), x + y

    def linear(self, x: np.ndarray, weight: Weight) -> np.ndarray:
        rows = len(weight.values.scales if isinstance(weight.values, Quantized) else weight.values)
        step = max(1, PART // x.shape[-1])
        parts = [
            x @ np.asarray(dequantize(weight.values, slice(start, start + step)), np.float32).T
            for start in range(0, rows, step)
        ]
        y = parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
        return y if weight.bias is None else y + weight.bias

    def concat(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.concatenate([x, y], axis=-1)

    def chunk(self, x: np.ndarray, index: int, count: int) -> np.ndarray:
        return np.split(x, count, axis=-1)[index]

    def multiply(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.asarray(x * y)

    def match_rms(self, x: np.ndarray, like: np.ndarray) -> np.ndarray:
        square, wanted = (np.square(each).mean(-1, keepdims=True) for each in (x, like))
        return np.asarray(x * np.sqrt(wanted / np.maximum(square, np.float32(LEAST_SQUARE))))

    def attention(self, qkv: np.ndarray, i: int, norms: Norms, bias: Weight | None, sinks: Weight | None) -> np.ndarray:
        layer = self.decoder.layers[i]
        ends = np.array([layer.heads, layer.heads + layer.kv_heads]) * layer.head_dim
        parts = np.split(qkv, ends, axis=-1) if layer.kv_layer is None else [qkv]
        if layer.qk_norm == "heads":
            parts = self.normalise(parts, norms)
        parts = [split_heads(x, layer.head_dim) for x in parts]
        if layer.qk_norm == "head":
            parts = self.normalise(parts, norms)
        if layer.rope:
            parts[:2] = [self.rotate(x, layer.rope) for x in parts[:2]]
        if layer.qk_norm == "turned":
            parts = self.normalise(parts, norms)
        q, *new = parts
        if new:
            *past, before, state = self.cache[i]
            k, v = (np.concatenate(pair, axis=2) for pair in zip(past, new, strict=True))
            self.cache[i] = k, v, before, state
        k, v, *_ = self.cache[i if layer.kv_layer is None else layer.kv_layer]

        repeats = layer.heads // layer.kv_heads
        scores = q @ k.repeat(repeats, 1).swapaxes(2, 3) * np.float32(layer.scale)  # (B, H, T, S)
        scores = self.softcap(scores, layer.softcap) if layer.softcap else scores
        distance = self.positions[0][-q.shape[2] :, None] - np.arange(k.shape[2])  # (T, S)
        if layer.alibi:
            scores = scores - np.array(layer.alibi, np.float32)[:, None, None] * distance
        if bias:
            place = np.clip(distance + (0 if layer.causal else len(layer.buckets) // 2), 0, len(layer.buckets) - 1)
            table = np.asarray(bias.values, np.float32)
            scores = scores + table[np.array(layer.buckets)[place]].transpose(2, 0, 1)  # (H, T, S)
        if layer.causal:
            visible = (distance >= 0) & (distance < (layer.window or np.inf))
            scores = np.where(visible, scores, np.float32(-np.inf))
        shares = softmax_with(sinks, scores) if sinks else softmax(scores)
        return join_heads(shares @ v.repeat(repeats, 1))

    def normalise(self, parts: Sequence[np.ndarray], norms: Norms) -> list[np.ndarray]:
        """Normalise queries, keys and values, each by its norm; those without one stay as they are."""
        return [*map(self.norm, parts, norms), *parts[len(norms) :]]

    def short_convolution(self, x: np.ndarray, i: int, kernel: Weight) -> np.ndarray:
        before, after, x = np.split(x, 3, axis=-1)
        return np.asarray(after * self.convolve(before * x, i, kernel))

    def convolve(self, x: np.ndarray, i: int, kernel: Weight) -> np.ndarray:
        """Convolve (B, T, channels) with the newest tokens, taking the previous ones from the cache."""
        weights, (k, v, before, state) = np.asarray(kernel.values, np.float32), self.cache[i]
        width, count = weights.shape[1], x.shape[1]
        seen = np.concatenate([before, x], axis=1)
        self.cache[i] = k, v, seen[:, seen.shape[1] - width + 1 :], state
        total = np.asarray(sum(seen[:, t : t + count] * weights[:, t] for t in range(width)))
        return total if kernel.bias is None else total + kernel.bias

    def selective_state(
        self,
        x: np.ndarray,
        steps: np.ndarray,
        keys: np.ndarray,
        queries: np.ndarray,
        i: int,
        decay: Weight,
        skip: Weight,
    ) -> np.ndarray:
        steps, rates = np.logaddexp(steps, np.float32(0))[..., None], -np.exp(np.asarray(decay.values, np.float32))
        *others, state = self.cache[i]  # (B, channels, size)
        written, answers = steps * x[..., None] * keys[:, :, None], np.asarray(skip.values) * x
        for t in range(x.shape[1]):
            state = state * np.exp(rates * steps[:, t]) + written[:, t]
            answers[:, t] += (state * queries[:, t, None]).sum(-1)
        self.cache[i] = *others, state
        return np.asarray(answers)

    def state_heads(self, x: np.ndarray, i: int, how: MatrixState, kernel: Weight) -> list[np.ndarray]:
        """Queries, keys and values by head after their convolution, (B, value_heads, T, size), and the gates."""
        qkv, gates = np.split(x, [how.channels], axis=-1)
        qkv = self.activate(self.convolve(qkv, i, kernel), "silu")
        q, k, v = np.split(qkv, np.array([1, 2]) * how.key_heads * how.key_size, axis=-1)
        q, k = (split_heads(x, how.key_size).repeat(how.value_heads // how.key_heads, 1) for x in (q, k))
        return [q, k, split_heads(v, how.value_size), gates]

    def delta_net(self, x: np.ndarray, rates: np.ndarray, i: int, weights: StateWeights) -> np.ndarray:
        how = self.decoder.layers[i].recurrence
        assert isinstance(how, DeltaNet)
        q, k, v, gates = self.state_heads(x, i, how, weights.kernel)
        q, k, share, kept = unit(q), unit(k), *np.split(rates, 2, axis=-1)
        written = np.float32(how.most) * sigmoid(share).swapaxes(1, 2)[..., None]  # (B, H, T, 1)
        rates_of_heads = np.exp(np.asarray(weights.decay.values))
        fading = -rates_of_heads * np.logaddexp(kept + weights.decay_bias.values, np.float32(0))
        left = np.exp(fading).swapaxes(1, 2)[..., None]
        *others, state = self.cache[i]
        answers = np.empty_like(v)
        for t in range(v.shape[2]):
            state = state * left[:, :, t, None]
            known = (state @ k[:, :, t, :, None])[..., 0]  # (B, H, value_size)
            state = state + ((v[:, :, t] - known) * written[:, :, t])[..., None] * k[:, :, t, None]
            answers[:, :, t] = (state @ q[:, :, t, :, None])[..., 0] * np.float32(how.key_size**-0.5)
        self.cache[i] = *others, state
        assert weights.norm
        epsilon = np.float32(self.decoder.epsilon if how.epsilon is None else how.epsilon)
        answers = answers / np.sqrt(np.square(answers).mean(-1, keepdims=True) + epsilon) * weights.norm.values
        return np.asarray(join_heads(answers) * self.activate(gates, "silu"))

    def mamba(self, x: np.ndarray, steps: np.ndarray, i: int, weights: StateWeights) -> np.ndarray:
        how = self.decoder.layers[i].recurrence
        assert isinstance(how, Mamba)
        assert weights.skip
        q, k, v, gates = self.state_heads(x, i, how, weights.kernel)
        steps = np.logaddexp(steps + weights.decay_bias.values, np.float32(0)).swapaxes(1, 2)[..., None]  # (B, H, T, 1)
        left = np.exp(-np.exp(np.asarray(weights.decay.values))[:, None, None] * steps)
        *others, state = self.cache[i]
        answers = np.asarray(weights.skip.values)[:, None, None] * v
        for t in range(v.shape[2]):
            written = (v * steps)[:, :, t, :, None] * k[:, :, t, None]
            state = state * left[:, :, t, None] + written  # (B, H, value_size, key_size)
            answers[:, :, t] += (state @ q[:, :, t, :, None])[..., 0]
        self.cache[i] = *others, state
        opened = join_heads(answers) * self.activate(gates, "silu")
        if not weights.norm or how.epsilon is None:
            return np.asarray(opened)
        groups = opened.reshape(*opened.shape[:2], how.key_heads, -1)
        normed = groups / np.sqrt(np.square(groups).mean(-1, keepdims=True) + np.float32(how.epsilon))
        return np.asarray(normed.reshape(opened.shape) * weights.norm.values)

    def cross_attention(self, q: np.ndarray, i: int) -> np.ndarray:
        layer, (k, v) = self.decoder.layers[i], self.memory[i]
        repeats = layer.heads // layer.kv_heads
        scores = (
            split_heads(q, layer.head_dim) @ k.repeat(repeats, 1).swapaxes(2, 3) * np.float32(layer.scale)
        )  # (B, H, T, S)
        return join_heads(softmax(scores) @ v.repeat(repeats, 1))

    def rotate(self, x: np.ndarray, rope: Rope) -> np.ndarray:
        angle = self.positions[0][-x.shape[2] :, None] * np.array(rope.inverse_frequencies, np.float32)
        amplitudes = rope.amplitudes.astype(np.float32)
        cos, sin = np.cos(angle) * amplitudes, np.sin(angle) * amplitudes
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def clip(self, x: np.ndarray, most: float) -> np.ndarray:
        return np.asarray(np.clip(x, np.float32(-most), np.float32(most)))

    def activate(self, x: np.ndarray, kind: Activation) -> np.ndarray:
        return np.asarray(ACTIVATIONS[kind](x), np.float32)

    def gate(self, gate_up: np.ndarray, kind: Activation, cutoff: float | None = None) -> np.ndarray:
        gate, up = np.split(gate_up, 2, axis=-1)
        if cutoff is not None:
            least = gate.mean(-1, keepdims=True) + gate.std(-1, keepdims=True) * np.float32(cutoff)
            gate = np.maximum(gate - least, 0)
        return np.asarray(self.activate(gate, kind) * up)

    def experts(
        self, x: np.ndarray, logits: np.ndarray, bias: Weight | None, gate_up: ExpertMatrices, down: ExpertMatrices
    ) -> np.ndarray:
        assert self.decoder.experts
        chosen, shares = choose(logits.reshape(-1, gate_up.count), bias, self.decoder.experts)
        tokens = x.reshape(-1, x.shape[-1])
        total = np.zeros_like(tokens)
        for expert in np.unique(chosen):  # only experts that some token chose are read
            rows, place = np.nonzero(chosen == expert)
            both = self.linear(tokens[rows], gate_up[expert])
            clamped = self.decoder.experts.clamped
            hidden = clamped_gate(both, clamped) if clamped else self.gate(both, self.decoder.activation)
            total[rows] += self.linear(hidden, down[expert]) * shares[rows, place, None]
        return total.reshape(x.shape)

    def sigmoid_gate(self, x: np.ndarray, logit: np.ndarray) -> np.ndarray:
        return np.asarray(x * sigmoid(logit))

    def gate_heads(self, x: np.ndarray, logits: np.ndarray, size: int) -> np.ndarray:
        return np.asarray(x * sigmoid(logits).repeat(size, axis=-1))

    def narrow(self, x: np.ndarray) -> np.ndarray:
        return self.last(x)

    def last(self, x: np.ndarray) -> np.ndarray:
        return x[:, -self.wanted :]

    def softcap(self, x: np.ndarray, cap: float) -> np.ndarray:
        return np.float32(cap) * np.tanh(x / np.float32(cap))


def clamped_gate(gate_up: np.ndarray, how: Clamped) -> np.ndarray:
    """The clamped gate of `Clamped`: (N, 2 F) -> (N, F)."""
    gate, up = np.split(gate_up, 2, axis=-1)
    gate, up = np.minimum(gate, np.float32(how.limit)), np.clip(up, -np.float32(how.limit), np.float32(how.limit))
    return np.asarray(gate * sigmoid(np.float32(how.alpha) * gate) * (up + 1), np.float32)


def choose(logits: np.ndarray, bias: Weight | None, experts: Experts) -> tuple[np.ndarray, np.ndarray]:
    """Each token's experts by logits (N, count), and their shares: (N, chosen) each."""
    if experts.scores == "sparsemixer":
        return choose_one_by_one(logits, experts)
    scores = softmax(logits) if experts.scores == "softmax" else sigmoid(logits)
    choice = scores if bias is None else scores + bias.values
    if experts.groups > 1:
        grouped = choice.reshape(len(choice), experts.groups, -1)
        sums = np.sort(grouped, axis=2)[:, :, -2:].sum(2)
        best = np.argsort(-sums, axis=1, kind="stable")[:, : experts.chosen_groups]
        allowed = (best[:, :, None] == np.arange(experts.groups)).any(1)
        choice = np.where(allowed[:, :, None], grouped, np.float32(-np.inf)).reshape(choice.shape)
    chosen = np.argsort(-choice, axis=1, kind="stable")[:, : experts.chosen]
    shares = np.take_along_axis(scores, chosen, axis=1)
    if experts.normalised:
        shares = shares / shares.sum(1, keepdims=True)
    return chosen, shares * np.float32(experts.scale)


def choose_one_by_one(logits: np.ndarray, experts: Experts) -> tuple[np.ndarray, np.ndarray]:
    """The same for sparsemixer."""
    chosen = np.argsort(-logits, axis=1, kind="stable")[:, : experts.chosen]
    largest, others = np.take_along_axis(logits, chosen, axis=1)[:, :, None], logits[:, None]
    near = largest - others <= np.float32(experts.nearness) * np.maximum(np.abs(others), largest)
    powers = np.where(near, np.exp(np.minimum(others - largest, 0)), np.float32(0))  # (N, chosen, count)
    before = np.arange(experts.chosen, dtype=np.float32)  # each expert chosen before adds 1 to the sum
    return chosen, np.asarray(1 / (powers.sum(2) - before), np.float32)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return np.asarray(1 / (1 + np.exp(-x)), np.float32)


def split_heads(x: np.ndarray, size: int) -> np.ndarray:
    """Reshape (B, T, H size) to (B, H, T, size)."""
    return x.reshape(*x.shape[:2], -1, size).swapaxes(1, 2)


def unit(x: np.ndarray) -> np.ndarray:
    """Scale vectors to length one."""
    return np.asarray(x / np.sqrt((x * x).sum(-1, keepdims=True) + np.float32(NEAR_ZERO)))


def join_heads(x: np.ndarray) -> np.ndarray:
    """Reshape (B, H, T, size) to (B, T, H size)."""
    return x.swapaxes(1, 2).reshape(x.shape[0], x.shape[2], -1)


def softmax(scores: np.ndarray) -> np.ndarray:
    """Probabilities along the last axis."""
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.asarray(powers / powers.sum(-1, keepdims=True))


def softmax_with(sinks: Weight, scores: np.ndarray) -> np.ndarray:
    """Softmax with an attention sink for each head, which is left out: (B, H, T, S)."""
    column = np.broadcast_to(np.asarray(sinks.values)[:, None, None], (*scores.shape[:-1], 1))
    return softmax(np.concatenate([scores, column], axis=-1))[..., :-1]


def empty(decoder: Decoder, batch: int) -> Cache:
    """An empty cache."""
    return [empty_layer(layer, decoder.hidden_size, batch) for layer in decoder.layers]


def empty_layer(layer: Layer, hidden_size: int, batch: int) -> tuple[np.ndarray, ...]:
    """One layer's part of an empty cache."""
    how, channels = layer.recurrence, hidden_size
    sizes: tuple[int, ...] = (0, 0, 0)
    if isinstance(how, SelectiveState):
        sizes, channels = (how.channels, how.size), how.channels
    if isinstance(how, MatrixState):
        sizes, channels = (how.value_heads, how.value_size, how.key_size), how.channels
    shapes = (layer.kv_heads, 0, layer.head_dim), (how.width - 1 if how else 0, channels), sizes
    none, before, state = (np.zeros((batch, *shape), np.float32) for shape in shapes)
    return none, none, before, state


class Session(RereadingSession):
    """A decoder with its cache, which can rewind and, for LongRoPE, reread."""

    def __init__(self, decoder: Decoder, weights: Weights):
        session = PlainSession(decoder, weights)
        super().__init__(RecurrentSession(session) if decoder.recurrent else session)


class PlainSession(CachedSession):
    """A decoder with its cache, computing with the short or the `long` frequencies."""

    placement = Placement("reference", "cpu", "f32")
    long = False

    def __init__(self, decoder: Decoder, weights: Weights):
        self.decoder, self.weights, self.border = decoder, weights, decoder.border
        self.context_length, self.vocab_size = decoder.context_length, decoder.vocab_size
        self.whole_prompts, self.start_token = bool(decoder.encoder), decoder.start_token
        self.cache: Cache = []
        self.memory: Cache = []
        """Each layer's keys and values of the prompt that the encoder has read."""

    def extend(self, tokens: np.ndarray, last: int) -> np.ndarray:
        if not self.cached:
            self.cache = empty(self.decoder, len(tokens))
        decoder = self.decoder.stretched if self.long else self.decoder
        return forward(decoder, self.weights, Ops(decoder, tokens, self.cache, last, self.memory))

    def read(self, prompt: np.ndarray) -> None:
        ops = Ops(self.decoder.as_encoder, prompt, empty(self.decoder.as_encoder, len(prompt)), 1)
        pairs = zip(encode(self.decoder, self.weights, ops), self.decoder.layers, strict=True)
        self.memory = [(k, v) for k, v in (np.split(split_heads(kv, layer.head_dim), 2, axis=1) for kv, layer in pairs)]

    def rewind(self, length: int) -> None:
        super().rewind(length)
        kept = self.cached
        self.cache = [(k[:, :, :kept], v[:, :, :kept], *others) for k, v, *others in self.cache]

    def states(self) -> States:
        """The recurrent states; nothing writes to these arrays later."""
        kept = [i for i, layer in enumerate(self.decoder.layers) if layer.recurrence]
        return {f"{kind}_{i}": x for i in kept for kind, x in zip(("tokens", "state"), self.cache[i][2:], strict=True)}

    def put(self, states: States) -> None:
        for i, layer in enumerate(self.decoder.layers):
            if layer.recurrence:
                self.cache[i] = *self.cache[i][:2], states[f"tokens_{i}"], states[f"state_{i}"]

    def take_rows(self, parents: list[int]) -> None:
        both = self.cache, self.memory
        self.cache, self.memory = ([tuple(x[parents] for x in layer) for layer in each] for each in both)

    def export(self, row: int) -> KeyValues | None:
        if self.whole_prompts or self.border or self.decoder.recurrent:
            return None
        pairs = enumerate(self.cache)
        return {f"{kind}_{i}": x[row] for i, pair in pairs for kind, x in zip(("key", "value"), pair, strict=False)}

    def restore(self, tokens: Sequence[int], found: KeyValues) -> None:
        self.cached, self.held_rows = len(tokens), 1
        self.cache = [
            (found[f"key_{i}"][None, :, : len(tokens)], found[f"value_{i}"][None, :, : len(tokens)], *others)
            for i, (_, _, *others) in enumerate(empty(self.decoder, 1))
        ]

    def open_batch(self) -> Batch | None:
        return None if self.decoder.encoder or self.border or self.decoder.recurrent else SerialBatch(self)


class SerialBatch:
    """A batch whose rows are computed one after another."""

    top = None

    def __init__(self, session: PlainSession):
        self.session, self.rows = session, list[PlainSession]()

    @property
    def lengths(self) -> list[int]:
        return [row.length for row in self.rows]

    def join(self, found: KeyValues, length: int) -> None:
        row = PlainSession(self.session.decoder, self.session.weights)
        row.restore(range(length), {name: values.copy() for name, values in found.items()})
        self.rows.append(row)

    def forward(self, tokens: np.ndarray) -> np.ndarray:
        check_batch(self.lengths, tokens, self.session.context_length)
        return np.concatenate([row.forward(token[None]) for row, token in zip(self.rows, tokens, strict=True)])

    def reorder(self, parents: Sequence[int]) -> None:
        kept = [(self.export(parent), self.rows[parent].length) for parent in parents]
        self.rows = []
        for found, length in kept:
            self.join(found, length)

    def export(self, row: int) -> KeyValues:
        found = self.rows[row].export(0)
        assert found is not None  # sessions that cannot export have no batches
        return found
