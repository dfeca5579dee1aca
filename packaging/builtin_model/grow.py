"""Grows a trained model into a larger one that computes nearly the same, so that training need not begin anew."""

# torch has no types as this project checks it.
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False, warn-return-any=False

import math

import torch
from model import Config, Model
from torch import Tensor


def places(old: Config, new: Config) -> Tensor:
    """Says where the dimensions of an old head lie in a wider one, so that they turn at their old frequencies."""
    size, wider = old.dim // old.heads, new.dim // new.heads
    half = torch.arange(size // 2) * (wider // size)
    return torch.cat([half, wider // 2 + half])


def rows_of(heads: int, old: Config, new: Config) -> Tensor:
    """Gives the rows of `heads` old heads in a projection of the new shape."""
    wider = new.dim // new.heads
    return (torch.arange(heads)[:, None] * wider + places(old, new)).flatten()


def check(old: Config, new: Config) -> None:
    """Refuses shapes that one cannot grow into."""
    size, wider = old.dim // old.heads, new.dim // new.heads
    fits = (
        new.vocabulary == old.vocabulary
        and new.theta == old.theta
        and new.dim >= old.dim
        and new.layers >= old.layers
        and new.heads >= old.heads
        and new.heads * old.kv_heads == new.kv_heads * old.heads
        and new.ffn >= old.ffn
        and wider % size == 0
    )
    if not fits:
        raise SystemExit(f"a model of shape {old} cannot grow into {new}: choose another --size, or leave --from out")


@torch.no_grad()
def grown(small: Model, config: Config) -> Model:
    """Copies a model into a larger shape; what is new reads nothing at first, or is not read."""
    old = small.config
    check(old, config)
    model = Model(config)
    d, f = old.dim, old.ffn
    narrower = math.sqrt(d / config.dim)  # the root mean square sinks by the dimensions still empty
    queries, keys = rows_of(old.heads, old, config), rows_of(old.kv_heads, old, config)
    sharper = math.sqrt((config.dim // config.heads) / (d // old.heads))
    model.embed_tokens.weight[:, :d] = small.embed_tokens.weight

    def widen(norm: Tensor, weight: Tensor) -> None:
        norm[:d] = weight * narrower
        norm[d:] = weight.mean() * narrower

    widen(model.norm.weight, small.norm.weight)
    for layer, source in zip(model.layers, small.layers, strict=False):
        new, was = layer.self_attn, source.self_attn
        widen(layer.input_layernorm.weight, source.input_layernorm.weight)
        widen(layer.post_attention_layernorm.weight, source.post_attention_layernorm.weight)
        for projection, taken, rows, factor in (
            (new.q_proj, was.q_proj, queries, sharper),
            (new.k_proj, was.k_proj, keys, 1.0),
            (new.v_proj, was.v_proj, keys, 1.0),
        ):
            projection.weight[:, d:] = 0
            projection.weight[rows, :d] = taken.weight * factor
        silent = torch.ones(new.k_proj.weight.shape[0], dtype=torch.bool)
        silent[keys] = False
        new.k_proj.weight[silent] = 0
        unread = torch.ones(config.dim, dtype=torch.bool)
        unread[queries] = False
        new.o_proj.weight[:, unread] = 0
        new.o_proj.weight[:d, queries] = was.o_proj.weight
        for projection, taken in ((layer.mlp.gate_proj, source.mlp.gate_proj), (layer.mlp.up_proj, source.mlp.up_proj)):
            projection.weight[:, d:] = 0
            projection.weight[:f, :d] = taken.weight
        layer.mlp.down_proj.weight[:, f:] = 0
        layer.mlp.down_proj.weight[:d, :f] = source.mlp.down_proj.weight
    for layer in model.layers[old.layers :]:
        layer.self_attn.o_proj.weight.zero_()
        layer.mlp.down_proj.weight.zero_()
    return model
