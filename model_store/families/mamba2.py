"""Mamba-2: Mamba, whose states are of heads."""

from backends.decoder import Decoder
from backends.decoder import Mamba as State
from model_store.checkpoint.checkpoint import Config
from model_store.families import given, mamba
from model_store.families.granitemoehybrid import refuse_limits, state_weights
from model_store.families.mamba import MIXER, MODEL, PREFIX, UNUSED

TIED = False
LAYER = {"attention_norm": "layers.{}.norm", **state_weights(MIXER), "o_proj": f"{MIXER}.out_proj"}


def decoder(config: Config) -> Decoder:
    """Read config.json."""
    config = given(config)
    refuse_limits(config)
    state = State(
        key_heads=config.get("n_groups", 8),
        value_heads=config.get("num_heads", 128),
        key_size=config.get("state_size", 128),
        value_size=config.get("head_dim", 64),
        width=config.get("conv_kernel", 4),
        epsilon=config.get("layer_norm_epsilon", 1e-5),
    )
    return mamba.keeping(config, state)
