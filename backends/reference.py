"""The decoder in NumPy: slow, exact, the yardstick for every other backend."""

import math
from collections.abc import Callable, Sequence

import numpy as np

from backends import Placement, check_call, check_parents, check_rewind
from backends.decoder import Activation, Decoder, Rope, Weight, Weights, forward
from backends.quantize import dequantize

ACTIVATIONS: dict[Activation, Callable[[np.ndarray], np.ndarray]] = {
    "relu": lambda x: np.maximum(x, 0),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float32])(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


class Ops:
    """Operations on arrays; the cache holds (keys, values) per layer, each (B, kv_heads, S, head_dim)."""

    def __init__(self, decoder: Decoder, tokens: np.ndarray, cache: list[tuple[np.ndarray, np.ndarray]], last: int):
        past = cache[0][0].shape[2]
        self.decoder, self.cache, self.wanted = decoder, cache, last
        self.tokens = tokens
        self.positions = np.broadcast_to(np.arange(past, past + tokens.shape[1]), tokens.shape)

    def embed(self, table: Weight, index: np.ndarray) -> np.ndarray:
        return np.asarray(dequantize(table.values, index), np.float32)

    def scale(self, x: np.ndarray, factor: float) -> np.ndarray:
        return x * np.float32(factor)

    def add(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        total: np.ndarray = x + y
        return total

    def norm(self, x: np.ndarray, weight: Weight) -> np.ndarray:
        if self.decoder.norm == "layer":
            x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x * x).mean(-1, keepdims=True) + np.float32(self.decoder.epsilon)) * weight.values
        return x if weight.bias is None else x + weight.bias

    def add_norm(self, x: np.ndarray, y: np.ndarray, weight: Weight) -> tuple[np.ndarray, np.ndarray]:
        return self.norm(x + y, weight), x + y

    def linear(self, x: np.ndarray, weight: Weight) -> np.ndarray:
        y = x @ np.asarray(dequantize(weight.values), np.float32).T
        return y if weight.bias is None else y + weight.bias

    def attention(self, qkv: np.ndarray, layer: int, q_norm: Weight | None, k_norm: Weight | None) -> np.ndarray:
        a = self.decoder.layers[layer]
        batch, length, _ = qkv.shape
        heads = qkv.reshape(batch, length, -1, a.head_dim).transpose(0, 2, 1, 3)  # (B, H, T, head_dim)
        q, k, v = np.split(heads, [a.heads, a.heads + a.kv_heads], axis=1)
        if q_norm and k_norm:
            q, k = self.norm(q, q_norm), self.norm(k, k_norm)
        if a.rope:
            q, k = self.rotate(q, a.rope), self.rotate(k, a.rope)
        past_k, past_v = self.cache[layer]
        k, v = np.concatenate([past_k, k], axis=2), np.concatenate([past_v, v], axis=2)
        self.cache[layer] = k, v

        repeats = a.heads // a.kv_heads
        scores = q @ k.repeat(repeats, 1).swapaxes(2, 3) * np.float32(a.scale)  # (B, H, T, S)
        scores = self.softcap(scores, a.softcap) if a.softcap else scores
        distance = self.positions[0][:, None] - np.arange(k.shape[2])  # (T, S)
        if a.alibi:
            scores = scores - np.array(a.alibi, np.float32)[:, None, None] * distance
        visible = (distance >= 0) & (distance < (a.window or np.inf))
        scores = np.where(visible, scores, np.float32(-np.inf))
        probabilities = np.exp(scores - scores.max(-1, keepdims=True))
        probabilities /= probabilities.sum(-1, keepdims=True)
        attended: np.ndarray = probabilities @ v.repeat(repeats, 1)
        return attended.transpose(0, 2, 1, 3).reshape(batch, length, -1)

    def rotate(self, x: np.ndarray, rope: Rope) -> np.ndarray:
        angle = self.positions[0][:, None] * np.array(rope.inverse_frequencies, np.float32)
        cos, sin = np.cos(angle) * np.float32(rope.amplitude), np.sin(angle) * np.float32(rope.amplitude)
        a, b = np.split(x, 2, axis=-1)
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    def activate(self, x: np.ndarray, kind: Activation) -> np.ndarray:
        return np.asarray(ACTIVATIONS[kind](x), np.float32)

    def gate(self, gate_up: np.ndarray, kind: Activation) -> np.ndarray:
        gate, up = np.split(gate_up, 2, axis=-1)
        gated: np.ndarray = self.activate(gate, kind) * up
        return gated

    def last(self, x: np.ndarray) -> np.ndarray:
        return x[:, -self.wanted :]

    def softcap(self, x: np.ndarray, cap: float) -> np.ndarray:
        return np.float32(cap) * np.tanh(x / np.float32(cap))


class Session:
    """A decoder with its cache."""

    placement = Placement("reference", "cpu", "f32")
    top = None

    def __init__(self, decoder: Decoder, weights: Weights):
        self.decoder, self.weights = decoder, weights
        self.context_length, self.vocab_size = decoder.context_length, decoder.vocab_size
        self.cache: list[tuple[np.ndarray, np.ndarray]] = []

    @property
    def length(self) -> int:
        return self.cache[0][0].shape[2] if self.cache else 0

    @property
    def batch(self) -> int:
        return len(self.cache[0][0]) if self.cache else 0

    def forward(self, tokens: np.ndarray, last: int = 1) -> np.ndarray:
        check_call(self, len(tokens), tokens.shape[1], last)
        if not self.cache:
            empty = [np.zeros((len(tokens), a.kv_heads, 0, a.head_dim), np.float32) for a in self.decoder.layers]
            self.cache = list(zip(empty, empty, strict=True))
        return forward(self.decoder, self.weights, Ops(self.decoder, tokens, self.cache, last))

    def rewind(self, length: int) -> None:
        check_rewind(self, length)
        self.cache = [(k[:, :, :length], v[:, :, :length]) for k, v in self.cache] if length else []

    def reorder(self, parents: Sequence[int]) -> None:
        check_parents(self, parents)
        self.cache = [(k[list(parents)], v[list(parents)]) for k, v in self.cache]
