"""DeepSeek V2 Lite: multi-head latent attention, and many experts.

Keys and values are expanded at once, and cached: caching latents instead, with matrices that are multiplied together
beforehand, is slower here up to thousands of tokens.
"""

from dataclasses import replace

import numpy as np

from backends.decoder import Decoder, Latent, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.rope import UNSCALED, padded, rope, sharper
from model_store.checkpoint.weights import Stored
from model_store.errors import UnsupportedCheckpoint
from model_store.families import given, glm4_moe, llama, qwen2_moe
from model_store.families.llama import MODEL, PREFIX, TIED, UNUSED

EPSILON = 1e-6
"""The epsilon of the latents' norms, whatever config.json says of other norms."""
SHARED = "layers.{}.self_attn.kv_a_proj_with_mqa"


def latent_of(layer: Layer) -> Latent:
    assert layer.latent  # `attend` has set it
    return layer.latent


def order(layer: Layer) -> list[int]:
    """Where a head's elements come from: rotary ones are last in files, and half a head apart here."""
    count, still = latent_of(layer).turning, layer.head_dim - latent_of(layer).turning
    half, turning = still // 2, [*range(still, layer.head_dim)]
    return [*turning[: count // 2], *range(half), *turning[count // 2 :], *range(half, still)]


def halve_neighbours(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Reorder interleaved rotary pairs, the last elements of queries or all of a key's, to halves."""
    size = min(len(values), layer.head_dim)
    count = min(latent_of(layer).turning, size)  # fewer in a wrong file, which its shapes will tell
    places = [*range(size - count), *range(size - count, size, 2), *range(size - count + 1, size, 2)]
    return values.reshape(-1, size, *values.shape[1:])[:, places].reshape(values.shape)


def spread_turning(values: np.ndarray, layer: Layer) -> np.ndarray:
    """Queries in our order of elements."""
    heads = values.reshape(layer.heads, layer.head_dim, -1)
    return heads[:, order(layer)].reshape(values.shape)


def to_latents(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The rows that project to latents."""
    return amplified(values[: latent_of(layer).rank], layer)


def to_turning(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The rows that project to the rotary part of keys."""
    return values[latent_of(layer).rank :]


def amplified(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The projection to latents, scaled so that their norm's epsilon becomes the decoder's."""
    gain = latent_of(layer).gain
    return values if gain == 1 else np.asarray(values, np.float32) * np.float32(gain)


def expand(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The matrix from latents and the shared rotary part to keys and values."""
    latent, size = latent_of(layer), layer.head_dim
    still = size - latent.turning
    heads = values.reshape(layer.heads, still + latent.value, latent.rank)
    keys, made = np.zeros((2, layer.heads, size, latent.rank + latent.turning), values.dtype)
    keys[:, :still, : latent.rank], keys[:, still:, latent.rank :] = heads[:, :still], np.eye(latent.turning)
    made[:, : latent.value, : latent.rank] = heads[:, still:]
    return np.concatenate([keys[:, order(layer)], made]).reshape(-1, latent.rank + latent.turning)


def widened(values: np.ndarray, layer: Layer) -> np.ndarray:
    """The output projection, with zeros where a head's values are padded."""
    if values.ndim == 1:
        return values
    heads = values.reshape(len(values), layer.heads, latent_of(layer).value)
    zeros = np.zeros((*heads.shape[:2], layer.head_dim - heads.shape[2]), values.dtype)
    return np.concatenate([heads, zeros], axis=2).reshape(len(values), -1)


LATENT: dict[str, Stored] = {
    "kv_down_proj": (SHARED, to_latents),
    "kv_down_norm": "layers.{}.self_attn.kv_a_layernorm",
    "k_turning_proj": (SHARED, to_turning, halve_neighbours),
    "kv_up_proj": ("layers.{}.self_attn.kv_b_proj", expand),
    "q_down_proj?": ("layers.{}.self_attn.q_a_proj", amplified),
    "q_down_norm?": "layers.{}.self_attn.q_a_layernorm",
    "q_proj": ("layers.{0}.self_attn.q_proj=layers.{0}.self_attn.q_b_proj", halve_neighbours, spread_turning),
    "o_proj": ("layers.{}.self_attn.o_proj", widened),
}
LAYER = {
    **{name: source for name, source in llama.LAYER.items() if name != "qkv_proj"},
    **LATENT,
    **qwen2_moe.EXPERTS,
    **glm4_moe.FOR_ALL,
}
USUAL = {"first_k_dense_replace": 0, "moe_intermediate_size": 1407, "n_routed_experts": 64, "n_shared_experts": 2}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    if config.get("topk_method", "greedy") != "greedy" or config.get("norm_topk_prob"):
        says = "with another choice of experts than Lite's (topk_method or norm_topk_prob in config.json)"
        raise UnsupportedCheckpoint(f"deepseek_v2 {says} is not supported")
    same = attend(config, llama.decoder(without_latents(config)))
    own = {"n_group": 1, "norm_topk_prob": False, "num_experts_per_tok": config.get("num_experts_per_tok") or 6}
    experts = glm4_moe.experts({**USUAL, **config, **own, "topk_group": 1}, len(same.layers))
    return replace(same, experts=replace(experts, scores="softmax"))


def without_latents(config: Config) -> Config:
    """The fields of a model like this one with ordinary heads, of a size that can rotate."""
    return {**config, **UNSCALED, "head_dim": config.get("qk_rope_head_dim", 64)}


def attend(config: Config, same: Decoder) -> Decoder:
    """The decoder with latents; YaRN's factor applies to whole heads here, not to the rotary part alone."""
    if not config.get("rope_interleave", True):
        raise UnsupportedCheckpoint(
            "latents whose halves turn together (rope_interleave in config.json) are not supported"
        )
    turning, still = config.get("qk_rope_head_dim", 64), config.get("qk_nope_head_dim", 128)
    value, head_dim = config.get("v_head_dim", 128), turning + still
    if value > head_dim or head_dim % 2:
        raise ValueError(f"values of {value} elements and keys of {head_dim} do not fit each other")
    scaling = config.get("rope_scaling") or config.get("rope_parameters") or {}
    share, factor = scaling.get("mscale_all_dim"), scaling.get("factor")
    sharpness = sharper(factor, share) if share and factor else 1.0
    latent = Latent(
        rank=config.get("kv_lora_rank", 512),
        turning=turning,
        value=value,
        queries=config.get("q_lora_rank") or 0,
        gain=(same.epsilon / EPSILON) ** 0.5,
    )
    layer = Layer(
        heads=config["num_attention_heads"],
        kv_heads=config["num_attention_heads"],
        head_dim=head_dim,
        scale=head_dim**-0.5 * sharpness**2,
        rope=padded(rope(config, turning), head_dim),
        latent=latent,
    )
    return replace(same, layers=(layer,) * len(same.layers))
