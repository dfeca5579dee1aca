"""T5, Flan-T5 and CodeT5: encoder and decoder with relative biases."""

import math

import numpy as np

from backends.decoder import Decoder, Layer
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import activation

PREFIX = ""
TIED = True
UNUSED = ("decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight",)
BIAS = ".block.0.layer.0.SelfAttention.relative_attention_bias"
MODEL = {
    "embedding": "shared=encoder.embed_tokens=decoder.embed_tokens",
    "encoder.relative_bias": "encoder" + BIAS,
    "encoder.norm": "encoder.final_layer_norm",
    "relative_bias": "decoder" + BIAS,
    "norm": "decoder.final_layer_norm",
    "lm_head?": "lm_head",
}


def stack(part: str, ffn: str) -> dict[str, str]:
    """The weights of a layer of the encoder or decoder; `ffn` is where its feed-forward is."""
    own, ffn = f"{part}.block.{{0}}.layer.0.", f"{part}.block.{{0}}.layer.{ffn}."
    return {
        "attention_norm": own + "layer_norm",
        "qkv_proj": f"{own}SelfAttention.q {own}SelfAttention.k {own}SelfAttention.v",
        "o_proj": own + "SelfAttention.o",
        "ffn_norm": ffn + "layer_norm",
        "gate_up_proj?": f"{ffn}DenseReluDense.wi_0 {ffn}DenseReluDense.wi_1",
        "up_proj": ffn + "DenseReluDense.wi",
        "down_proj": ffn + "DenseReluDense.wo",
    }


CROSS = "decoder.block.{0}.layer.1."
LAYER = {
    **{"encoder." + name: source for name, source in stack("encoder", ffn="1").items()},
    **stack("decoder", ffn="2"),
    "cross_norm": CROSS + "layer_norm",
    "cross_q_proj": CROSS + "EncDecAttention.q",
    "cross_kv_proj": f"{CROSS}EncDecAttention.k {CROSS}EncDecAttention.v",
    "cross_o_proj": CROSS + "EncDecAttention.o",
}


def decoder(config: Config) -> Decoder:
    """Read config.json; prompt and answer may each be as long as in training."""
    heads, size, head_dim = config["num_heads"], config["d_model"], config["d_kv"]
    buckets = config.get("relative_attention_num_buckets", 32), config.get("relative_attention_max_distance", 128)
    writing = Layer(heads, heads, head_dim, scale=1.0, buckets=one_sided(*buckets))
    reading = Layer(heads, heads, head_dim, scale=1.0, buckets=two_sided(*buckets), causal=False)
    scaled = config.get("scale_decoder_outputs", config.get("tie_word_embeddings", True) is not False)
    return Decoder(
        layers=(writing,) * (config.get("num_decoder_layers") or config["num_layers"]),
        encoder=(reading,) * config["num_layers"],
        start_token=start_token(config),
        hidden_size=size,
        vocab_size=config["vocab_size"],
        context_length=2 * config.get("n_positions", 512),
        norm="rms",
        epsilon=config.get("layer_norm_epsilon", 1e-6),
        activation=activation(ffn_activation(config)),
        output_scale=size**-0.5 if scaled else 1.0,
    )


def start_token(config: Config) -> int:
    """The token before an answer: the padding, unless stated otherwise."""
    token: int | None = config.get("decoder_start_token_id")
    return int(config.get("pad_token_id") or 0) if token is None else token


def ffn_activation(config: Config) -> str:
    """The activation in `feed_forward_proj`, such as relu and gated-gelu; the tensors tell if there is a gate."""
    kind = str(config.get("feed_forward_proj", "relu"))
    name = "gelu_new" if kind == "gated-gelu" else kind.removeprefix("gated-")
    meant = {"dense_act_fn": name, "is_gated_act": kind.startswith("gated-")}
    for field, value in meant.items():
        if config.get(field, value) != value:
            raise UnsupportedCheckpoint(
                f"feed_forward_proj {cut(kind)} and {field} {cut(config[field])} contradict each other"
            )
    return name


def one_sided(count: int, far: int) -> tuple[int, ...]:
    """The bucket of each distance from 0 to `far`: half of them for single distances, then ever wider ones.

    Raffel et al., https://arxiv.org/abs/1910.10683, section 2.1.
    """
    near = count // 2
    if not 0 < near < far:
        raise ValueError(f"{count} buckets do not suit distances up to {far}")
    logarithms = np.log(np.arange(near, far, dtype=np.float32) / near)  # the precision it was trained with
    wide = near + (logarithms / math.log(far / near) * (count - near)).astype(int)
    return (*range(near), *np.minimum(wide, count - 1).tolist(), count - 1)


def two_sided(count: int, far: int) -> tuple[int, ...]:
    """The bucket of each distance from -`far`, where the key is later, to `far`; half of them for each side."""
    earlier = one_sided(count // 2, far)
    return (*(bucket + count // 2 for bucket in earlier[:0:-1]), *earlier)
