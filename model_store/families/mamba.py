"""Mamba: layers that keep a state of each channel, and nothing else."""

from math import ceil

from backends.decoder import Decoder, Layer, Mamba, SelectiveState
from model_store.checkpoint.checkpoint import Config
from model_store.errors import UnsupportedCheckpoint, cut
from model_store.families import given, jamba

PREFIX = ("backbone.",)
TIED = True
UNUSED = ()
MIXER = "layers.{0}.mixer"
MODEL = {"embedding": "embeddings", "norm": "norm_f", "lm_head": "lm_head"}
LAYER = {
    "attention_norm": "layers.{}.norm",
    **jamba.state_weights(MIXER),
    "o_proj": f"{MIXER}.out_proj",
}
CONTEXT = 1 << 20
"""Tokens that are read at most where config.json names no limit, since states have none: as many as in llama.cpp."""


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    rank = config.get("time_step_rank", "auto")
    return keeping(
        config,
        SelectiveState(
            channels=config.get("expand", 2) * config["hidden_size"],
            size=config.get("state_size", 16),
            rank=ceil(config["hidden_size"] / 16) if rank == "auto" else rank,
            width=config.get("conv_kernel", 4),
        ),
    )


def keeping(config: Config, state: SelectiveState | Mamba) -> Decoder:
    """The decoder each of whose layers keeps such a state."""
    if (mixed := config.get("hidden_act", "silu")) not in ("silu", "swish"):
        raise UnsupportedCheckpoint(f"hidden_act (config.json) is {cut(mixed)}; only silu is supported")
    layer = Layer(heads=1, kv_heads=1, head_dim=1, scale=1.0, recurrence=state, feeds=False)
    return Decoder(
        layers=(layer,) * config["num_hidden_layers"],
        hidden_size=config["hidden_size"],
        vocab_size=config["vocab_size"],
        context_length=config.get("max_position_embeddings", CONTEXT),
        norm="rms",
        epsilon=config.get("layer_norm_epsilon", 1e-5),
        activation="silu",
    )
