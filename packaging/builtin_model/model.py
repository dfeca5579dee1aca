"""A Llama-type decoder: RMSNorm, rotary positions, grouped-query attention, SwiGLU, tied embedding.

Weight names are Hugging Face's, without the leading `model.`.
"""

# torch has no types as this project checks it.
# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False, warn-return-any=False

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import Tensor, nn


@dataclass(frozen=True)
class Config:
    """The shape of a model."""

    dim: int
    layers: int
    heads: int
    kv_heads: int
    ffn: int
    vocabulary: int = 8192
    context: int = 1024
    theta: float = 10000.0
    epsilon: float = 1e-5


SIZES = {
    "tiny": Config(dim=64, layers=2, heads=2, kv_heads=1, ffn=128),
    "small": Config(dim=192, layers=6, heads=6, kv_heads=3, ffn=512),
    "cpu11": Config(dim=320, layers=7, heads=5, kv_heads=5, ffn=896),
    "grown": Config(dim=384, layers=6, heads=6, kv_heads=3, ffn=1024),
    "large": Config(dim=512, layers=8, heads=8, kv_heads=2, ffn=1408),
}
"""4.0, 11.5, 12.9 and 26.7 million parameters beside `tiny`, which is for trying the recipe.

`grown` is what `small` can grow into (grow.py).
"""


class TiedCrossEntropy(torch.autograd.Function):
    """Output head and loss in cache-sized chunks: gradients are made on the way forward, logits never kept."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, target: Tensor, chunk: int = 512) -> Tensor:  # ctx: torch's
        """Returns the mean loss over targets that are not negative, in float32."""
        count = (target >= 0).sum().clamp(min=1)
        loss = torch.zeros((), device=hidden.device)
        grad_hidden, grad_weight = torch.empty_like(hidden), torch.zeros_like(weight, dtype=torch.float32)
        ones = weight.new_ones(weight.shape[0], 1)
        for h, y, grad_h in zip(hidden.split(chunk), target.split(chunk), grad_hidden.split(chunk), strict=True):
            counted = (y >= 0)[:, None]
            label = y.clamp(min=0)[:, None]
            logits = h @ weight.T  # (chunk, vocabulary)
            top = logits.amax(1, keepdim=True)
            labelled = logits.gather(1, label)
            # torch's logsumexp and its sums of bfloat16 are not vectorised; exp and a product with ones are.
            grad = logits.sub_(top).exp_()
            total = (grad @ ones).float()
            loss += ((total.log() + top - labelled) * counted).sum()
            grad *= (counted / (total * count)).to(grad.dtype)
            grad.scatter_add_(1, label, -(counted / count).to(grad.dtype))
            torch.mm(grad, weight, out=grad_h)
            grad_weight += grad.T @ h
        ctx.save_for_backward(grad_hidden, grad_weight.to(weight.dtype))
        return loss / count

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Scales the gradients made on the way forward."""
        grad_hidden, grad_weight = ctx.saved_tensors
        return grad_hidden * grads[0], grad_weight * grads[0], None, None


def causal_attention(q: Tensor, k: Tensor, v: Tensor, block: int = 128) -> Tensor:
    """Attends causally in blocks of queries, as plain matrix products: on CPU about twice as fast as torch's kernel."""
    batch, heads, length, size = q.shape
    q, k, v = (t.reshape(batch * heads, length, size) for t in (q, k, v))
    mask = q.new_full((length, length), float("-inf")).triu(1)
    blocks = []
    for start in range(0, length, block):
        end = min(start + block, length)
        bias = mask[start:end, :end].expand(batch * heads, -1, -1)
        scores = torch.baddbmm(bias, q[:, start:end], k[:, :end].transpose(1, 2), alpha=size**-0.5)
        blocks.append(scores.softmax(-1) @ v[:, :end])
    return torch.cat(blocks, 1).view(batch, heads, length, size)


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Applies rotary positions to both halves of each head, as Hugging Face does."""
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], -1).to(x.dtype)


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config.dim))
        self.epsilon = config.epsilon

    def forward(self, x: Tensor) -> Tensor:
        """Normalises the last axis."""
        return F.rms_norm(x, (x.shape[-1],), self.weight.to(x.dtype), self.epsilon)


class Attention(nn.Module):
    """Grouped-query attention, with an optional cache of keys and values for generation."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.size = config.dim // config.heads
        self.groups = config.heads // config.kv_heads
        self.q_proj = nn.Linear(config.dim, config.dim, bias=False)
        self.k_proj = nn.Linear(config.dim, config.kv_heads * self.size, bias=False)
        self.v_proj = nn.Linear(config.dim, config.kv_heads * self.size, bias=False)
        self.o_proj = nn.Linear(config.dim, config.dim, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: list[Tensor] | None) -> Tensor:
        """Attends to everything up to each position."""
        projections = (self.q_proj(x), self.k_proj(x), self.v_proj(x))
        q, k, v = (p.view(*x.shape[:2], -1, self.size).transpose(1, 2) for p in projections)  # (B, heads, T, size)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            if cache:
                k, v = torch.cat([cache[0], k], 2), torch.cat([cache[1], v], 2)
            cache[:] = [k, v]
        if self.training and x.device.type == "cpu":
            y = causal_attention(q, *(t.repeat_interleave(self.groups, 1) for t in (k, v)))
        else:
            causal = q.shape[2] == k.shape[2]
            y = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=self.groups > 1)
        return self.o_proj(y.transpose(1, 2).reshape(x.shape))


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.dim, config.ffn, bias=False)
        self.up_proj = nn.Linear(config.dim, config.ffn, bias=False)
        self.down_proj = nn.Linear(config.ffn, config.dim, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Widens, gates and narrows."""
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Attention and feed-forward, each normalised first and added to the stream."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.input_layernorm = Norm(config)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = Norm(config)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor, cache: list[Tensor] | None) -> Tensor:
        """Runs the layer."""
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, cache)
        return x + self.mlp(self.post_attention_layernorm(x))


class Model(nn.Module):
    """The decoder."""

    cos: Tensor
    sin: Tensor

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embed_tokens = nn.Embedding(config.vocabulary, config.dim)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norm = Norm(config)
        size = config.dim // config.heads
        frequencies = config.theta ** -(torch.arange(0, size, 2) / size)
        angles = torch.outer(torch.arange(config.context), frequencies)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight, std=initial_deviation(name, weight, config))

    def hidden(self, ids: Tensor, caches: list[list[Tensor]] | None = None, position: int = 0) -> Tensor:
        """Returns the last hidden states, (B, T, dim)."""
        x = self.embed_tokens(ids)
        span = slice(position, position + ids.shape[1])
        for i, layer in enumerate(self.layers):
            x = layer(x, self.cos[span], self.sin[span], caches[i] if caches else None)
        return self.norm(x)

    def logits(self, hidden: Tensor) -> Tensor:
        """Scores every token, with the embedding as output head."""
        return F.linear(hidden, self.embed_tokens.weight)

    def loss(self, hidden: Tensor, target: Tensor) -> Tensor:
        """Returns the training loss; negative targets do not count."""
        hidden = hidden.flatten(0, 1)
        if hidden.device.type == "cpu":
            return TiedCrossEntropy.apply(hidden, self.embed_tokens.weight, target.flatten())
        return F.cross_entropy(self.logits(hidden).float(), target.flatten(), ignore_index=-100)


def initial_deviation(name: str, weight: Tensor, config: Config) -> float:
    """Gives the spread of a matrix at the start; what feeds the residual stream starts smaller."""
    if name.startswith("embed"):
        return 0.02
    residual = name.endswith(("o_proj.weight", "down_proj.weight"))
    return float(0.5 * weight.shape[1] ** -0.5 / (math.sqrt(2 * config.layers) if residual else 1))


def read_model(folder: Path) -> Model:
    """Reads a model in Hugging Face's layout, as export.py writes it."""
    stated = json.loads((folder / "config.json").read_text())
    model = Model(
        Config(
            dim=stated["hidden_size"],
            layers=stated["num_hidden_layers"],
            heads=stated["num_attention_heads"],
            kv_heads=stated["num_key_value_heads"],
            ffn=stated["intermediate_size"],
            vocabulary=stated["vocab_size"],
            context=stated["max_position_embeddings"],
        )
    )
    weights = load_file(folder / "model.safetensors")
    for name in [name for name in weights if name + "_scale" in weights]:  # in int8
        weights[name] = weights[name] * weights.pop(name + "_scale")
    model.load_state_dict({name.removeprefix("model."): weight.float() for name, weight in weights.items()})
    return model.eval()
