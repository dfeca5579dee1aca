"""Nemotron-H and Nemotron Nano without experts: blocks of Mamba-2, some attention, and ungated feed-forwards.

Steps have no lower limit, as in llama.cpp; transformers has `time_step_min`.
"""

from dataclasses import replace

from backends.decoder import Decoder, Layer, Mamba
from model_store.checkpoint.checkpoint import Config
from model_store.checkpoint.config_fields import LIMITS
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import activation, given
from model_store.families.granitemoehybrid import NAMED, refuse_limits, state_weights

PREFIX = "backbone.", "model."
TIED = False
UNUSED = ("mtp.*",)
"""Multi-token prediction."""
MIXER = "layers.{2}.mixer"
MODEL = {"embedding": "embeddings", "norm": "norm_f", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "layers.{2}.norm",
    "qkv_proj": f"{MIXER}.q_proj {MIXER}.k_proj {MIXER}.v_proj",
    **state_weights(MIXER),
    "o_proj": f"{MIXER}.o_proj={MIXER}.out_proj",
    "ffn_norm": "layers.{3}.norm",
    "up_proj": "layers.{3}.mixer.up_proj",
    "down_proj": "layers.{3}.mixer.down_proj",
}
BLOCKS = {"M": "linear_attention", "*": "full_attention", "-": "mlp", "E": "moe"}
"""The letters of `hybrid_override_pattern`."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    refuse_limits(config)
    if (mixed := config.get("mamba_hidden_act", "silu")) not in ("silu", "swish"):
        raise UnsupportedCheckpoint(f"mamba_hidden_act (config.json) is {cut(mixed)}; only silu is supported")
    heads = config["num_attention_heads"]
    head_dim = config.get("head_dim") or config.get("attention_head_dim", 128)
    epsilon = config.get("layer_norm_epsilon", 1e-5)
    attending = Layer(
        heads=heads, kv_heads=config.get("num_key_value_heads", heads), head_dim=head_dim, scale=head_dim**-0.5
    )
    state = Mamba(
        key_heads=config.get("n_groups", 8),
        value_heads=config.get("mamba_num_heads", 128),
        key_size=config.get("ssm_state_size", 128),
        value_size=config.get("mamba_head_dim", 64),
        width=config.get("conv_kernel", 4),
        epsilon=epsilon,
    )
    kinds = {"full_attention": attending, "linear_attention": replace(attending, recurrence=state)}
    return Decoder(
        layers=tuple(replace(kinds[kind], feeds=feeds) for kind, feeds in layers_of(blocks_of(config))),
        hidden_size=config["hidden_size"],
        vocab_size=config["vocab_size"],
        context_length=config["max_position_embeddings"],
        norm="rms",
        epsilon=epsilon,
        activation=activation(config.get("mlp_hidden_act", "relu2")),
    )


def blocks_of(config: Config) -> list[str]:
    """The kind of each block."""
    pattern = config.get("hybrid_override_pattern", "")
    listed = config.get("layers_block_type") or config.get("layer_types") or [BLOCKS.get(one, one) for one in pattern]
    if not listed:
        raise UnsupportedCheckpoint("config.json has no layers_block_type, which says what each block is")
    if len(listed) > (most := LIMITS["num_hidden_layers"]):
        raise UnsupportedCheckpoint(f"config.json has {len(listed):,} blocks, and no model has more than {most:,}")
    blocks = [NAMED.get(kind, kind) for kind in listed]
    if "moe" in blocks:
        raise UnsupportedCheckpoint("blocks that mix experts without gates (moe) are not supported")
    if unknown := sorted({*blocks} - {*BLOCKS.values()}):
        raise UnsupportedCheckpoint(f"blocks of the kind {cut(unknown[0])} are not supported")
    if len(blocks) != config.get("num_hidden_layers", len(blocks)):
        raise ValueError(f"its blocks are {len(blocks)}, and num_hidden_layers is {config['num_hidden_layers']}")
    return blocks


def layers_of(blocks: list[str]) -> list[tuple[str, bool]]:
    """The kind of each layer that mixes tokens, and whether a feed-forward follows."""
    found: list[tuple[str, bool]] = []
    for kind in blocks:
        if kind != "mlp":
            found.append((kind, False))
        elif found and not found[-1][1]:
            found[-1] = found[-1][0], True
        else:
            raise UnsupportedCheckpoint("a feed-forward that follows no layer that mixes tokens is not supported")
    return found
