"""Recurrent layers, with the operations that ONNX Runtime has for them."""

from collections.abc import Sequence

import numpy as np

from backends.decoder import (
    NEAR_ZERO,
    Decoder,
    DeltaNet,
    Mamba,
    MatrixState,
    SelectiveState,
    ShortConvolution,
    StateWeights,
    Weight,
)
from backends.onnx.graph import FUSED, Graph


def state_shapes(decoder: Decoder) -> dict[str, tuple[int, ...]]:
    """The shapes, without rows, of the inputs `state_...`, which come back as `new_state_...`."""
    found: dict[str, tuple[int, ...]] = {}
    for i, layer in enumerate(decoder.layers):
        if isinstance(how := layer.recurrence, ShortConvolution):
            found[f"state_tokens_{i}"] = how.width - 1, decoder.hidden_size
        elif isinstance(how, SelectiveState):
            found[f"state_tokens_{i}"] = how.width - 1, how.channels
            found[f"state_matrices_{i}"] = how.size, how.channels
        elif isinstance(how, MatrixState):
            found[f"state_tokens_{i}"] = how.width - 1, how.channels
            found[f"state_matrices_{i}"] = how.value_heads, how.key_size, how.value_size
    return found


def short_convolution(graph: Graph, x: str, i: int, kernel: Weight) -> str:
    """Append a gated short convolution: (B, T, 3 H) -> (B, T, H)."""
    names = [f"{part}_{i}" for part in ("gate_before", "gate_after", "opened")]
    before, after, opened = graph.node_with("Split", [x], names, axis=-1, num_outputs=3)
    return graph.node("Mul", after, convolve(graph, graph.node("Mul", before, opened), i, kernel, "none"))


def convolve(graph: Graph, x: str, i: int, kernel: Weight, activation: str) -> str:
    """Append the causal convolution of each channel of (B, T, channels)."""
    values = np.asarray(kernel.values, np.float32)[:, None]  # (channels, 1, width)
    bias = "" if kernel.bias is None else graph.constant(kernel.name + ".bias", kernel.bias)
    inputs = [x, graph.constant(kernel.name, values), bias, f"state_tokens_{i}"]
    outputs = [f"convolved_{i}", f"new_state_tokens_{i}"]
    how = dict(channels_last=1, activation=activation)
    return graph.node_with("CausalConvWithState", inputs, outputs, FUSED, **how)[0]


def selective_state(graph: Graph, parts: Sequence[str], i: int, decay: Weight, skip: Weight) -> str:
    """Append the selective state space as a Scan; `parts` are channels, steps, keys and queries.

    LinearAttention, with a head for each channel, takes five times as long (ONNX Runtime 1.32).
    """
    x, steps, keys, queries = parts
    steps = graph.node("Softplus", steps)
    rates = graph.constant(decay.name, -np.exp(np.asarray(decay.values, np.float32)).T)  # (size, channels)
    rows = [graph.node("Unsqueeze", part, graph.numbers(2)) for part in (steps, graph.node("Mul", x, steps), queries)]
    columns = graph.node("Unsqueeze", keys, graph.numbers(3))

    def step(state: str, steps: str, written: str, query: str, key: str) -> tuple[str, str]:
        kept = graph.node("Mul", graph.node("Exp", graph.node("Mul", steps, rates)), state)  # (B, size, channels)
        state = graph.node("Add", kept, graph.node("Mul", key, written))
        return state, graph.node("MatMul", query, state)

    state, answered = f"state_matrices_{i}", f"answered_{i}"
    graph.scan(state, [*rows, columns], step, ["new_" + state, answered])
    skipped = graph.node("Mul", x, graph.constant(skip.name, np.asarray(skip.values)))
    return graph.node("Add", graph.join_heads(answered), skipped)


def delta_net(graph: Graph, x: str, rates: str, i: int, how: DeltaNet, weights: StateWeights, epsilon: float) -> str:
    """Append the gated delta rule, normalised and gated: (B, T, channels + V) and (B, T, 2 heads) -> (B, T, V).

    ONNX Runtime's GatedDeltaNet and GatedRMSNorm would do, but take 5 to 15 times as long (1.32).
    """
    keys, heads = how.key_heads * how.key_size, how.value_heads
    qkv, gates = split(graph, x, how.channels, how.value_elements)
    share, kept = split(graph, rates, heads, heads)
    qk, v = split(graph, convolve(graph, qkv, i, weights.kernel, "silu"), 2 * keys, how.value_elements)
    q, k = split(graph, unit_heads(graph, qk, how.key_size), keys, keys)
    fading = log_decay(graph, soft_steps(graph, kept, weights.decay_bias), weights.decay)
    share = graph.node("Sigmoid", share)
    if how.most != 1:
        share = graph.node("Mul", share, graph.scalar(how.most))
    answered = linear_attention(graph, [q, repeated(graph, k, how), v], i, how, fading, share)
    assert weights.norm
    norm = graph.constant(weights.norm.name, np.asarray(weights.norm.values))
    return graph.node("Mul", norm_heads(graph, answered, norm, how.value_size, epsilon), silu(graph, gates))


def mamba(graph: Graph, x: str, steps: str, i: int, how: Mamba, weights: StateWeights) -> str:
    """Append Mamba-2, gated and normalised: (B, T, channels + V) and (B, T, heads) -> (B, T, V)."""
    assert weights.skip
    keys, size = how.key_heads * how.key_size, how.value_elements
    qkv, gates = split(graph, x, how.channels, size)
    q, k, v = split(graph, convolve(graph, qkv, i, weights.kernel, "silu"), keys, keys, size)
    steps = soft_steps(graph, steps, weights.decay_bias)
    skipped = by_head(graph, v, how, graph.constant(weights.skip.name, np.asarray(weights.skip.values)[:, None]))
    written = by_head(graph, v, how, graph.node("Unsqueeze", steps, graph.numbers(-1)))
    parts = [q, repeated(graph, k, how), written]
    answered = linear_attention(graph, parts, i, how, log_decay(graph, steps, weights.decay))
    opened = graph.node("Mul", graph.node("Add", answered, skipped), silu(graph, gates))
    if not weights.norm or how.epsilon is None:
        return opened
    group = size // how.key_heads
    ones = graph.constant(f"ones_{group}", np.ones(group, np.float32))
    normed = norm_heads(graph, opened, ones, group, how.epsilon)
    return graph.node("Mul", normed, graph.constant(weights.norm.name, np.asarray(weights.norm.values)))


def split(graph: Graph, x: str, *sizes: int) -> list[str]:
    """Append a split of the elements into parts of these sizes."""
    names = [f"{x}_{part}" for part in range(len(sizes))]
    return graph.node_with("Split", [x, graph.numbers(*sizes)], names, axis=-1)


def soft_steps(graph: Graph, x: str, bias: Weight) -> str:
    """Append softplus(x + bias)."""
    return graph.node("Softplus", graph.node("Add", x, graph.constant(bias.name, np.asarray(bias.values))))


def log_decay(graph: Graph, steps: str, decay: Weight) -> str:
    """Append the logarithm of each head's decay."""
    rates = -np.exp(np.asarray(decay.values, np.float32))
    return graph.node("Mul", steps, graph.constant(decay.name, rates))


def linear_attention(graph: Graph, qkv: list[str], i: int, how: MatrixState, fading: str, share: str = "") -> str:
    """Append linear attention: read the state with the queries, and update it with keys and values."""
    state, rule = f"state_matrices_{i}", "gated_delta" if share else "gated"
    named = dict(update_rule=rule, q_num_heads=how.key_heads, kv_num_heads=how.value_heads)
    named |= {} if share else {"scale": 1.0}
    outputs = [f"answered_{i}", "new_" + state]
    return graph.node_with("LinearAttention", [*qkv, state, fading, share], outputs, FUSED, **named)[0]


def by_head(graph: Graph, x: str, how: MatrixState, factor: str) -> str:
    """Append the product of each head's elements with its factor, (..., heads, 1)."""
    return graph.join_heads(graph.node("Mul", graph.split_heads(x, how.value_size), factor))


def silu(graph: Graph, x: str) -> str:
    """Append x * sigmoid(x)."""
    return graph.node("QuickGelu", x, domain=FUSED, alpha=1.0)


def unit_heads(graph: Graph, x: str, size: int) -> str:
    """Append heads of length one: a root mean square norm, up to a factor."""
    share = graph.constant(f"share_of_{size}", np.full(size, size**-0.5, np.float32))
    return norm_heads(graph, x, share, size, NEAR_ZERO / size)


def norm_heads(graph: Graph, x: str, scale: str, size: int, epsilon: float) -> str:
    """Append the root mean square norm of each head of (B, T, heads size)."""
    heads = graph.split_heads(x, size)
    return graph.join_heads(graph.node("SimplifiedLayerNormalization", heads, scale, axis=-1, epsilon=epsilon))


def repeated(graph: Graph, k: str, how: MatrixState) -> str:
    """Append copies of the keys for the value heads that share them."""
    if how.key_heads == how.value_heads:
        return k
    chosen = graph.numbers(*np.arange(how.key_heads).repeat(how.value_heads // how.key_heads).tolist())
    return graph.join_heads(graph.node("Gather", graph.split_heads(k, how.key_size), chosen, axis=2))
