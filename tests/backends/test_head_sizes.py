"""Heads of every size, whatever sizes a runtime's kernels are made for, against the reference."""

from pathlib import Path

import numpy as np
import pytest

import backends
from backends.decoder import Decoder, Layer, Rope, Weight
from backends.reference import Session as ReferenceSession
from support.arrays import near
from support.checkpoints import HERE

SIZES = 8, 20, 24, 40, 72, 100, 120


def model(head_dim: int) -> tuple[Decoder, dict[str, Weight]]:
    """A random decoder: a layer that turns a part of each head and norms it, and one without positions."""
    rope = Rope(tuple(0.0 if i >= head_dim // 2 - 2 else 100 ** (-2 * i / head_dim) for i in range(head_dim // 2)), 1.2)
    turning = Layer(heads=4, kv_heads=2, head_dim=head_dim, scale=head_dim**-0.5, rope=rope)
    layers = turning, Layer(heads=4, kv_heads=2, head_dim=head_dim, scale=head_dim**-0.5)
    shapes: dict[str, tuple[int, ...]] = {"embedding": (96, 32), "norm": (32,), "lm_head": (96, 32)}
    for i in range(len(layers)):
        each = {"attention_norm": (32,), "qkv_proj": (8 * head_dim, 32), "o_proj": (32, 4 * head_dim)}
        each |= {"ffn_norm": (32,), "gate_up_proj": (96, 32), "down_proj": (32, 48)}
        shapes |= {f"layers.{i}.{name}": shape for name, shape in each.items()}
    shapes |= {"layers.0.q_norm": (head_dim,), "layers.0.k_norm": (head_dim,)}
    random = np.random.default_rng(0)
    weights = {}
    for name, shape in shapes.items():
        values = random.normal(float(len(shape) == 1), 0.2, shape).astype(np.float32)
        bias = random.normal(0, 0.2, shape[0]).astype(np.float32) if name.endswith("qkv_proj") else None
        weights[name] = Weight(name, values, bias)
    decoder = Decoder(
        layers, hidden_size=32, vocab_size=96, context_length=40, norm="rms", epsilon=0.5, activation="silu"
    )
    return decoder, weights


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("head_dim", SIZES)
def test_heads_of_any_size_are_computed(head_dim: int, backend: str, tmp_path: Path) -> None:
    decoder, weights = model(head_dim)
    tokens = np.random.default_rng(1).integers(0, 96, (2, 24))
    expected = ReferenceSession(decoder, weights).forward(tokens, last=24)
    backends.get(backend).lower(decoder, weights, tmp_path, precision="f32")
    session = backends.get(backend).load(tmp_path, device="cpu")
    assert session.forward(tokens[:1, :16], last=16) == near(expected[:1, :16], abs=1e-4)
    session.rewind(10)
    session.reorder([0, 0])
    for i in range(10, 14):
        found = session.forward(tokens[[0, 0], i : i + 1])
        assert found == near(expected[[0, 0], i : i + 1], abs=1e-4)
    session.rewind(0)
    assert session.forward(tokens, last=2) == near(expected[:, 22:], abs=1e-4)
